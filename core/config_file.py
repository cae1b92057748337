"""Reading the configuration file: one description of every key.

It gives the checks, ``check-config --sample`` and the test that the manual names every
key.  A file is judged as a whole: all faults are told with their path.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ganeti_steward.core.config import (
    COMBINE,
    DEFAULT_PATH,
    ON_EVACUATION,
    Aggregates,
    Allocators,
    Config,
    History,
    Log,
    Plugins,
    Shadow,
)
from ganeti_steward.core.errors import BadConfig
from ganeti_steward.core.reader import describe, quoted

LOG_LEVELS: Final = ("debug", "info", "warning", "error")

_Check = Callable[[Any], str]


def _number(low: float, high: float) -> _Check:
    def check(value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"a number is expected, found {describe(value)}"
        return "" if low <= value <= high else f"{value} is not between {low:g} and {high:g}"

    return check


def _whole(low: int, high: int) -> _Check:
    def check(value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, int):
            return f"a whole number is expected, found {describe(value)}"
        return "" if low <= value <= high else f"{value} is not between {low} and {high}"

    return check


def _path(value: Any) -> str:
    if not isinstance(value, str):
        return f"a path is expected, found {describe(value)}"
    if not value.isprintable():
        return f"{quoted(value)} has characters that do not belong in a path"
    return "" if value == "" or value.startswith("/") else f"{quoted(value)} is no absolute path"


def _word(known: tuple[str, ...]) -> _Check:
    def check(value: Any) -> str:
        if value in known:
            return ""
        return f"one of {', '.join(known)} is expected, found {describe(value)}"

    return check


def _names(value: Any) -> str:
    if not isinstance(value, list):
        return f"a list of names is expected, found {describe(value)}"
    for name in value:
        if not (isinstance(name, str) and name):
            return f"a list of names is expected, it holds {describe(name)}"
    return f"{_shown(_twice(value))} is named twice" if _twice(value) else ""


def _some_names(value: Any) -> str:
    return _names(value) or ("" if value else "at least one name is expected")


def _twice(names: list[str]) -> str:
    return next((name for name in names if names.count(name) > 1), "")


def _shown(name: str) -> str:
    """A name as it is, unless that would spoil the sentence."""
    return name if name.isprintable() and 0 < len(name) <= 80 else quoted(name)


def _lists(value: Any) -> str:
    return _table(value, _names)


def _tables_of_lists(value: Any) -> str:
    return _table(value, _lists)


def _table(value: Any, check: _Check) -> str:
    """What is wrong with a section of the file that is one key of another."""
    if not isinstance(value, dict):
        return f"a section is expected, found {describe(value)}"
    faults = ((name, check(item)) for name, item in value.items())
    return next((f"{_shown(name)}: {fault}" for name, fault in faults if fault), "")


class Key(NamedTuple):
    """One key of the file."""

    check: _Check
    """says what is wrong with a value, nothing when it is fine"""
    text: str
    """what the key is for, one sentence"""


_CHAIN: Final = Key(
    _some_names,
    "Allocators tried in this order until one succeeds: names, or command:/path/of/a/program.",
)
_SHADOW: Final = Key(_names, "Allocators asked besides; what they say is only compared and logged.")

#: Section -> key -> its description, in the order of the sample.
SCHEMA: Final[Mapping[str, Mapping[str, Key]]] = {
    "allocators": {
        "allocate": _CHAIN,
        "multi-allocate": _CHAIN,
        "relocate": _CHAIN,
        "allocate-secondary": _CHAIN,
        "node-evacuate": _CHAIN,
        "change-group": _CHAIN,
        "balance": _CHAIN,
        "capacity": _CHAIN,
        "time-limit": Key(
            _number(1, 890),
            "Seconds an allocator may take, its constraints included. All of a chain have 890 "
            "together, of which each may take an equal share of what is left.",
        ),
    },
    "shadow": {
        "allocate": _SHADOW,
        "multi-allocate": _SHADOW,
        "relocate": _SHADOW,
        "allocate-secondary": _SHADOW,
        "node-evacuate": _SHADOW,
        "change-group": _SHADOW,
        "balance": _SHADOW,
        "capacity": _SHADOW,
        "time-limit": Key(_number(0.1, 3600), "Seconds each of them may take."),
    },
    "plugins": {
        "load": Key(
            _names,
            "Plugins besides the built-in ones: a module path (mysite.rules) or the name of an "
            "entry point of the group ganeti_steward.",
        ),
        "time-limit": Key(
            _number(0.1, 600),
            "Seconds loading a plugin, or one call of a constrain or weigh hook, may take.",
        ),
    },
    "aggregates": {
        "default-forbidden-prefixes": Key(
            _names,
            "Aggregates whose names begin so are closed to instances that do not ask for one.",
        ),
        "required-prefixes": Key(
            _names, "A tag of an instance that begins so asks for the aggregate of that name."
        ),
        "unclaimable": Key(_names, "Aggregates no instance may ask for."),
        "combine": Key(
            _word(COMBINE),
            "With union a node has its group's aggregates too; with placement one of both must "
            "be in all that is asked for.",
        ),
        "on-evacuation": Key(
            _word(ON_EVACUATION),
            "Where no node complies: with strict an evacuation fails, with prefer it takes the "
            "best other one.",
        ),
        "groups": Key(_lists, 'Node groups: a list of aggregates for each, "rack1" = ["room1"].'),
        "nodes": Key(_lists, "The same for nodes."),
        "units": Key(_tables_of_lists, "The same for units, one table for each node."),
        "pools": Key(_lists, "The same for storage pools."),
        "instances": Key(
            _lists, 'What instances ask: "web1" = ["!in:a,b", "member_of_primary=c"].'
        ),
    },
    "history": {
        "keep": Key(_whole(0, 10000), "How many are kept; 0 keeps none."),
        "directory": Key(_path, "Where; made readable for root only."),
    },
    "log": {
        "file": Key(
            _path,
            "The log file; empty for none. It is skipped where its directory is missing.",
        ),
        "level": Key(_word(LOG_LEVELS), "Least level written: debug, info, warning, error."),
    },
}

_SECTIONS: Final[Mapping[str, type]] = {
    "allocators": Allocators,
    "shadow": Shadow,
    "plugins": Plugins,
    "aggregates": Aggregates,
    "history": History,
    "log": Log,
}


def parse_config(path: str, raw: bytes) -> Config:
    """The configuration in a file's bytes; ``path`` is for the faults.  Raises BadConfig."""
    try:
        table = tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as err:
        # Not only TOMLDecodeError: also bytes that are no text, and endless numbers.
        raise BadConfig(path, [f"is not valid TOML: {err}"]) from None
    faults: list[str] = []
    config = read_config(table, faults)
    if faults:
        raise BadConfig(path, faults)
    return config


def read_config(table: Mapping[str, Any], faults: list[str]) -> Config:
    """Check a parsed file; adds to ``faults`` and uses the default for what is faulty."""
    known = [*SCHEMA, "weigh", "plugin"]
    for name in table:
        if name not in known:
            faults.append(f"{_shown(name)}: no such section (known: {', '.join(known)})")
    return Config(
        **{name: _section(name, table, faults) for name in SCHEMA},
        weigh=_weights(table.get("weigh", {}), faults),
        plugin=_tables(table.get("plugin", {}), faults),
    )


def _section(name: str, table: Mapping[str, Any], faults: list[str]) -> Any:
    kind, schema, given = _SECTIONS[name], SCHEMA[name], table.get(name, {})
    if not isinstance(given, dict):
        faults.append(f"{name}: a section is expected, found {describe(given)}")
        return kind()
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in schema:
            faults.append(f"{name}.{_shown(key)}: no such key (known: {', '.join(schema)})")
            continue
        fault = schema[key].check(value)
        if fault:
            faults.append(f"{name}.{key}: {fault}")
        else:
            values[_field(key)] = tuple(value) if isinstance(value, list) else value
    return kind(**values)


def _field(key: str) -> str:
    """The name of a key's value: keys have dashes, as Ganeti writes request types."""
    return key.replace("-", "_")


def _weights(given: Any, faults: list[str]) -> dict[str, float]:
    if not isinstance(given, dict):
        faults.append(f"weigh: a section is expected, found {describe(given)}")
        return {}
    weights = {}
    for name, value in given.items():
        fault = _number(0, 1e6)(value)
        if fault:
            faults.append(f"weigh.{_shown(name)}: {fault}")
        else:
            weights[name] = float(value)
    return weights


def _tables(given: Any, faults: list[str]) -> dict[str, Mapping[str, Any]]:
    if not isinstance(given, dict):
        faults.append(f"plugin: a section is expected, found {describe(given)}")
        return {}
    tables: dict[str, Mapping[str, Any]] = {}
    for name, value in given.items():
        if isinstance(value, dict):
            tables[name] = value
        else:
            faults.append(f"plugin.{_shown(name)}: a section is expected, found {describe(value)}")
    return tables


def sample_config() -> str:
    """A complete configuration file with every default, commented."""
    lines = [
        f"# {DEFAULT_PATH}: configuration of Ganeti Steward.",
        "# Every value shown is the default; gnt-steward check-config checks the file.",
    ]
    for name, schema in SCHEMA.items():
        lines += ["", f"[{name}]"]
        for key, described in schema.items():
            default = getattr(_SECTIONS[name](), _field(key))
            lines += [f"# {described.text}", f"#{key} = {_toml(default)}"]
    lines += ["", "# [weigh]", "# Weight of a plugin's costs, by its name."]
    lines += ['# "mysite.rules" = 1.0', "", '# [plugin."mysite.rules"]']
    lines += ["# A plugin's own settings."]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)
