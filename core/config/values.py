"""The configuration as typed values, and the declarations of the core's own sections.

Reading and checking a file is `ganeti_steward.core.config.parse`, which is only imported
where there is one: an allocator's start should not pay for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    # Looked up by the declaration's reader only: an allocator's start should not pay for it.
    from ganeti_steward.core.config.kinds import (
        HOSTS,
        NAMES,
        PATH,
        Each,
        number,
        one_of,
        request_types,
        whole,
    )

DEFAULT_PATH: Final = "/etc/ganeti/steward.toml"
ENVIRONMENT: Final = "GNT_STEWARD_CONFIG"

#: Seconds all allocators of a chain have together; Ganeti gives up after 900.
CHAIN_LIMIT: Final = 890.0

_BALANCED: Final = ("balanced",)
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

_Section = TypeVar("_Section", bound=tuple[Any, ...])


class Allocators(NamedTuple):
    """[allocators]: which allocators answer which request type."""

    chains: Annotated[
        Mapping[str, tuple[str, ...]],
        Each(request_types(), NAMES, _BALANCED),
        "Allocators to try in this order: names, or command:/path/of/a/program. An empty list "
        "refuses the requests.",
    ] = _NOTHING
    """request type -> its allocators; `Config.chain` knows the default"""
    time_limit: Annotated[
        float,
        number(1, 890),
        "Seconds one allocator may take, with constraints. A chain has 890 in all, shared equally.",
    ] = 600
    partial_batches: Annotated[
        bool,
        "Whether `multi-allocate` places some instances if others have no place; option "
        "--partial-batches=yes or =no overrides it.",
    ] = False
    recent: Annotated[
        float,
        number(0, 3600),
        "Seconds for which a new instance is treated as running before Ganeti shows it as "
        "running, for example 300; 0: off. Needs `history.keep` above 0.",
    ] = 0


class Plugins(NamedTuple):
    """[plugins]: plugins that are loaded in addition to the built-in ones."""

    load: Annotated[
        tuple[str, ...],
        NAMES,
        "Plugins to load: module paths (mysite.rules) or entry points of the group ganeti_steward.",
    ] = ()
    time_limit: Annotated[
        float,
        number(0.1, 600),
        "Seconds to load a plugin, or for one call of a constrain or weigh hook.",
    ] = 10


class History(NamedTuple):
    """[history]: the last requests and answers, for explain --last and replay."""

    keep: Annotated[
        int, whole(0, 10000), "Requests to keep, each with its answer; 0 keeps none."
    ] = 20
    directory: Annotated[str, PATH, "Their directory, readable by root only."] = (
        "/var/lib/ganeti-steward/history"
    )


class Log(NamedTuple):
    """[log]: one line for each request."""

    file: Annotated[str, PATH, "The log file; ignored if its directory is missing."] = (
        "/var/log/ganeti/steward.log"
    )
    level: Annotated[
        str,
        one_of("debug", "info", "warning", "error"),
        "The lowest level to write.",
    ] = "info"


class Http(NamedTuple):
    """[http]: what the agent, the exporter and the maintenance daemon have in common."""

    names: Annotated[
        tuple[str, ...],
        HOSTS,
        "More names and addresses that requests may use, for example of a reverse proxy; the names "
        "of node and cluster always work.",
    ] = ()


class Config(NamedTuple):
    """The whole configuration."""

    allocators: Allocators = Allocators()
    plugins: Plugins = Plugins()
    history: History = History()
    log: Log = Log()
    weigh: Mapping[str, float] = _NOTHING
    """plugin name -> weight of its costs (1 where none is given)"""
    plugin: Mapping[str, Mapping[str, Any]] = _NOTHING
    """plugin name -> its own section, checked when it is loaded"""
    collector: Mapping[str, Mapping[str, Any]] = _NOTHING
    """collector -> its thresholds, checked when it is made"""
    sections: Mapping[str, Any] = _NOTHING
    """name -> section of another room, as far as the file says more than the defaults"""
    warnings: tuple[str, ...] = ()
    """sentences about faults in sections that the program does not use"""

    def section(self, declaration: type[_Section]) -> _Section:
        """The section of a room by its declaration; the defaults where the file has none."""
        found = (one for one in self.sections.values() if type(one) is declaration)
        return next(found, None) or declaration()

    def named(self, declaration: type[_Section]) -> dict[str, _Section]:
        """All sections ``[kind.NAME]`` with one declaration, by their names."""
        return {
            path.partition(".")[2]: one
            for path, one in self.sections.items()
            if type(one) is declaration
        }

    def chain(self, request_type: str) -> tuple[str, ...]:
        """The allocators for a request type, in order."""
        return self.allocators.chains.get(request_type, _BALANCED)

    def shadows(self, request_type: str) -> tuple[str, ...]:
        """The allocators called for comparison as well; most calls have none and load nothing."""
        shadow = self.sections.get("shadow")
        chain: tuple[str, ...] = shadow.chains.get(request_type, ()) if shadow else ()
        return chain
