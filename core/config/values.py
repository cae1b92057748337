"""The configuration as typed values; every default is safe.

Reading and checking a file is `ganeti_steward.core.config.parse`, which is only imported
where there is one: an allocator's start should not pay for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ganeti_steward.core.config.node import Agent, Diagnose, Nagios

DEFAULT_PATH: Final = "/etc/ganeti/steward.toml"
ENVIRONMENT: Final = "GNT_STEWARD_CONFIG"

#: Seconds all allocators of a chain have together; Ganeti gives up after 900.
CHAIN_LIMIT: Final = 890.0

_BALANCED: Final = ("balanced",)
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Allocators(NamedTuple):
    """[allocators]: who answers which request type, in this order until one succeeds."""

    allocate: tuple[str, ...] = _BALANCED
    multi_allocate: tuple[str, ...] = _BALANCED
    relocate: tuple[str, ...] = _BALANCED
    allocate_secondary: tuple[str, ...] = _BALANCED
    node_evacuate: tuple[str, ...] = _BALANCED
    change_group: tuple[str, ...] = _BALANCED
    balance: tuple[str, ...] = _BALANCED
    capacity: tuple[str, ...] = _BALANCED
    time_limit: float = 600
    """seconds for each; all together have CHAIN_LIMIT"""


class Shadow(NamedTuple):
    """[shadow]: who is asked besides, only to be compared and logged."""

    allocate: tuple[str, ...] = ()
    multi_allocate: tuple[str, ...] = ()
    relocate: tuple[str, ...] = ()
    allocate_secondary: tuple[str, ...] = ()
    node_evacuate: tuple[str, ...] = ()
    change_group: tuple[str, ...] = ()
    balance: tuple[str, ...] = ()
    capacity: tuple[str, ...] = ()
    time_limit: float = 120
    """seconds for each"""

    @property
    def wanted(self) -> bool:
        """Whether there is any."""
        return any(names for names in self if isinstance(names, tuple))


class Plugins(NamedTuple):
    """[plugins]: what else is loaded."""

    load: tuple[str, ...] = ()
    time_limit: float = 10
    """seconds for loading one, and for one call of a constrain or weigh hook"""


class Aggregates(NamedTuple):
    """[aggregates]: what the tags below ``steward:`` can say, and how they are read.

    Both sources are united.  Names and expressions are checked by the plugin.
    """

    default_forbidden_prefixes: tuple[str, ...] = ()
    required_prefixes: tuple[str, ...] = ()
    unclaimable: tuple[str, ...] = ()
    combine: str = "union"
    """one of COMBINE"""
    on_evacuation: str = "strict"
    """one of ON_EVACUATION"""
    groups: Mapping[str, Sequence[str]] = _NOTHING
    """name or uuid of a node group -> its aggregates"""
    nodes: Mapping[str, Sequence[str]] = _NOTHING
    units: Mapping[str, Mapping[str, Sequence[str]]] = _NOTHING
    """node -> unit -> its aggregates"""
    pools: Mapping[str, Sequence[str]] = _NOTHING
    instances: Mapping[str, Sequence[str]] = _NOTHING
    """instance -> what it asks"""


#: Whether a node has its group's aggregates besides its own, or one of both must do alone.
COMBINE: Final = ("union", "placement")
#: What an evacuation does when no node complies: fail, or take the best other one.
ON_EVACUATION: Final = ("strict", "prefer")


class History(NamedTuple):
    """[history]: the last requests and answers, for explain --last and replay."""

    keep: int = 20
    directory: str = "/var/lib/ganeti-steward/history"


class Log(NamedTuple):
    """[log]: one line per request."""

    file: str = "/var/log/ganeti/steward.log"
    level: str = "info"


class Config(NamedTuple):
    """The whole configuration."""

    allocators: Allocators = Allocators()
    shadow: Shadow = Shadow()
    plugins: Plugins = Plugins()
    aggregates: Aggregates = Aggregates()
    diagnose: Diagnose = Diagnose()
    agent: Agent = Agent()
    history: History = History()
    log: Log = Log()
    weigh: Mapping[str, float] = _NOTHING
    """plugin name -> weight of its costs (1 where none is given)"""
    plugin: Mapping[str, Mapping[str, Any]] = _NOTHING
    """plugin name -> its own section, unchecked here"""
    collector: Mapping[str, Mapping[str, Any]] = _NOTHING
    """collector -> its thresholds, unchecked here"""
    nagios: Mapping[str, Nagios] = _NOTHING
    """source -> the check"""

    def chain(self, request_type: str) -> tuple[str, ...]:
        """The allocators for a request type, in order."""
        names: tuple[str, ...] = getattr(self.allocators, request_type.replace("-", "_"))
        return names

    def shadows(self, request_type: str) -> tuple[str, ...]:
        """The allocators asked besides, for comparison."""
        names: tuple[str, ...] = getattr(self.shadow, request_type.replace("-", "_"))
        return names
