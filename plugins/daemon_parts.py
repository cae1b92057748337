"""What decides how the maintenance daemon of a node would act, as digests: no content leaves it.

Each part of its configuration, each of its plugins and the version of the program has one digest.
They are made with the cluster's key: only who has the key can compare a guess with them.  The node
agent reports them, and the daemon of the master compares those of the other master candidates, of
which each may be the next master, with its own.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from ganeti_steward.core.builtins import MAINTENANCE, built_in, declaration
from ganeti_steward.core.config.load import load_config
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.config.written import section_table
from ganeti_steward.core.errors import BadConfig, StewardError
from ganeti_steward.core.hooks.loading import entry_points, named_plugins
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.version import VERSION

#: Sections that change nothing about what is done to the cluster.
_ASIDE: Final = ("log", "http")
#: Sections of routine work, each used where the daemon's section names it.
_ROUTINE: Final = ("harep", "rebalance")
#: Where the daemon listens: it may be another address on each node.
_ADDRESS: Final = "address"
#: What it is made for: no such digest is good for anything else.
_PURPOSE: Final = b"gnt-steward daemon parts"

#: Parts of a report, and characters of a name and of a digest.
_MOST: Final = 500
_LONGEST: Final = 200


class DaemonParts(NamedTuple):
    """The parts of one node."""

    key: str
    """stands for the key that the digests were made with"""
    digests: Mapping[str, str] | None
    """name of a part -> its digest; None: the daemon could not begin with that file"""


def reported_parts(path: str, key: Callable[[], bytes]) -> dict[str, Any]:
    """What a report says about its node; empty where it is not known.

    ``path``: the configuration file; ``key``: returns the cluster's key, raises NoKey.
    """
    try:
        secret = key()
        try:
            config = load_config(path, MAINTENANCE)
        except BadConfig:
            return DaemonParts(_digest(secret, "key", ""), None)._asdict()
        return daemon_parts(config, secret)._asdict()
    except (ImportError, OSError, StewardError, ValueError):
        return {}


def read_parts(given: object) -> DaemonParts | None:
    """The parts in a report; None where it has none that can be used."""
    if not isinstance(given, dict) or not isinstance(key := given.get("key"), str):
        return None
    digests = given.get("digests")
    if digests is None:
        return DaemonParts(key[:_LONGEST], None)
    if not isinstance(digests, dict) or len(digests) > _MOST:
        return None
    if not all(isinstance(one, str) and len(one) <= _LONGEST for one in digests.values()):
        return None
    return DaemonParts(key, {printable(name)[:_LONGEST]: one for name, one in digests.items()})


def daemon_parts(config: Config, key: bytes) -> DaemonParts:
    """The parts of a configuration and of what it loads; imports no plugin; raises OSError."""
    found = {f"[{name}]": value for name, value in _sections(config)}
    found["version of the program"] = VERSION
    for name in (one for one in _named(config) if built_in(one) is None):
        found[f"plugin {name}"] = [
            (place, hashlib.sha256(file.read_bytes()).hexdigest())
            for place, file in sorted(plugin_files(name).items())
        ]
    digests = {name: _digest(key, name, value) for name, value in sorted(found.items())}
    return DaemonParts(_digest(key, "key", ""), digests)


def differing(own: DaemonParts, other: DaemonParts) -> tuple[str, ...] | None:
    """The names of the parts that differ, sorted; None where they cannot be compared."""
    if own.key != other.key or own.digests is None:
        return None
    if other.digests is None:
        return ("the file has faults or cannot be read",)
    here, there = own.digests, other.digests
    return tuple(sorted(one for one in {*here, *there} if here.get(one) != there.get(one)))


def _digest(key: bytes, name: str, value: object) -> str:
    own = hmac.digest(key, _PURPOSE, "sha256")
    # TOML has dates, which JSON has not.
    text = json.dumps([name, value], sort_keys=True, default=str)
    return hmac.digest(own, text.encode(errors="surrogatepass"), "sha256").hex()


def _sections(config: Config) -> Iterator[tuple[str, Any]]:
    """The sections that the daemon uses, with their defaults."""
    routine = config.section(declaration("maintd")).routine
    for name in MAINTENANCE:
        if name == "plugin":
            own = _named(config)
            given = config.plugin.items()
            yield from ((f"plugin.{each}", content) for each, content in given if each in own)
        elif name == "weigh":
            yield name, dict(config.weigh)
        elif name not in _ASIDE and (name not in _ROUTINE or name in routine):
            section = getattr(config, name, None) or config.section(declaration(name))
            table = section_table(section)
            yield name, {key: one for key, one in table.items() if key != _ADDRESS}


def _named(config: Config) -> set[str]:
    """The plugins that the daemon uses because the configuration names them."""
    return {one.name for one in named_plugins(config) if not one.key.startswith("diagnose.")}


def plugin_files(plugin: str) -> dict[str, Path]:
    """Path below its first folder -> file, of each Python file of a plugin; imports nothing.

    Empty where there is none of this name.
    """
    modules = {point.name: point.module for point in entry_points()}
    top = modules.get(plugin, plugin).partition(".")[0]
    found: dict[str, Path] = {}
    with suppress(ImportError, ValueError):
        if spec := find_spec(top):
            for folder in spec.submodule_search_locations or ():
                files = Path(folder).rglob("*.py")
                found |= {str(file.relative_to(folder)): file for file in files}
            if spec.has_location and spec.origin and spec.origin.endswith(".py"):
                found[Path(spec.origin).name] = Path(spec.origin)
    return found
