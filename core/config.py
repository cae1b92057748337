"""The configuration file: typed values, one description of every key.

Each section is a frozen dataclass; a field's metadata holds its documentation and its
check.  The same description gives the values, the checks, ``check-config --sample`` and
the test that the manual names every key.  A file is judged as a whole: all faults are told
with their path.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, Final

from ganeti_steward.core.errors import BadConfig
from ganeti_steward.core.reader import describe, quoted

DEFAULT_PATH: Final = "/etc/ganeti/steward.toml"
ENVIRONMENT: Final = "GNT_STEWARD_CONFIG"

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


def _word(value: Any) -> str:
    if value in LOG_LEVELS:
        return ""
    return f"one of {', '.join(LOG_LEVELS)} is expected, found {describe(value)}"


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


def _setting(default: Any, check: _Check, text: str) -> Any:
    metadata = {"check": check, "text": text}
    if isinstance(default, list):
        return field(default_factory=lambda: tuple(default), metadata=metadata)
    return field(default=default, metadata=metadata)


_CHAIN: Final = "Allocators tried in this order until one succeeds."


@dataclass(frozen=True, slots=True)
class Allocators:
    """[allocators]: who answers which request type."""

    allocate: tuple[str, ...] = _setting(["balanced"], _some_names, _CHAIN)
    multi_allocate: tuple[str, ...] = _setting(["balanced"], _some_names, _CHAIN)
    relocate: tuple[str, ...] = _setting(["balanced"], _some_names, _CHAIN)
    allocate_secondary: tuple[str, ...] = _setting(["balanced"], _some_names, _CHAIN)
    time_limit: float = _setting(
        600,
        _number(1, 890),
        "Seconds an allocator may take, its constraints included; Ganeti itself gives up "
        "after 900.",
    )


@dataclass(frozen=True, slots=True)
class Plugins:
    """[plugins]: what else is loaded."""

    load: tuple[str, ...] = _setting(
        [],
        _names,
        "Plugins besides the built-in ones: a module path (mysite.rules) or the name of an "
        "entry point of the group ganeti_steward.",
    )
    time_limit: float = _setting(
        10, _number(0.1, 600), "Seconds one call of a constrain or weigh hook may take."
    )


@dataclass(frozen=True, slots=True)
class History:
    """[history]: the last requests and answers, for explain --last and replay."""

    keep: int = _setting(20, _whole(0, 10000), "How many are kept; 0 keeps none.")
    directory: str = _setting(
        "/var/lib/ganeti-steward/history", _path, "Where; made readable for root only."
    )


@dataclass(frozen=True, slots=True)
class Log:
    """[log]: one line per request."""

    file: str = _setting(
        "/var/log/ganeti/steward.log",
        _path,
        "The log file; empty for none. It is skipped where its directory is missing.",
    )
    level: str = _setting("info", _word, "Least level written: debug, info, warning, error.")


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration; every default is safe."""

    allocators: Allocators = field(default_factory=Allocators)
    plugins: Plugins = field(default_factory=Plugins)
    history: History = field(default_factory=History)
    log: Log = field(default_factory=Log)
    weigh: Mapping[str, float] = field(default_factory=dict)
    """plugin name -> weight of its costs (1 where none is given)"""
    plugin: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """plugin name -> its own section, unchecked here"""

    def chain(self, request_type: str) -> tuple[str, ...]:
        """The allocators for a request type, in order."""
        names: tuple[str, ...] = getattr(self.allocators, request_type.replace("-", "_"))
        return names


SECTIONS: Final[Mapping[str, type]] = {
    "allocators": Allocators,
    "plugins": Plugins,
    "history": History,
    "log": Log,
}


def config_path(environment: Mapping[str, str] = os.environ) -> str:
    """The file that is read."""
    return environment.get(ENVIRONMENT) or DEFAULT_PATH


def load_config(path: str) -> Config:
    """Read a configuration file; a missing one means the defaults.  Raises BadConfig."""
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except FileNotFoundError:
        if path != DEFAULT_PATH:
            raise BadConfig(path, ["the file does not exist"]) from None
        return Config()
    except OSError as err:
        raise BadConfig(path, [f"cannot be read: {err.strerror}"]) from None
    import tomllib  # only where there is a file: it costs an allocator's start

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
    known = [*SECTIONS, "weigh", "plugin"]
    for name in table:
        if name not in known:
            faults.append(f"{_shown(name)}: no such section (known: {', '.join(known)})")
    return Config(
        **{name: _section(name, kind, table, faults) for name, kind in SECTIONS.items()},
        weigh=_weights(table.get("weigh", {}), faults),
        plugin=_tables(table.get("plugin", {}), faults),
    )


def toml_key(item: Field[Any]) -> str:
    """A key as written in the file: dashes, as Ganeti writes request types."""
    return item.name.replace("_", "-")


def _section(name: str, kind: type, table: Mapping[str, Any], faults: list[str]) -> Any:
    given = table.get(name, {})
    if not isinstance(given, dict):
        faults.append(f"{name}: a section is expected, found {describe(given)}")
        return kind()
    items = {toml_key(item): item for item in fields(kind)}
    values: dict[str, Any] = {}
    for key, value in given.items():
        item = items.get(key)
        if item is None:
            faults.append(f"{name}.{_shown(key)}: no such key (known: {', '.join(items)})")
            continue
        fault = item.metadata["check"](value)
        if fault:
            faults.append(f"{name}.{key}: {fault}")
        else:
            values[item.name] = tuple(value) if isinstance(value, list) else value
    return kind(**values)


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
    for name, kind in SECTIONS.items():
        lines += ["", f"[{name}]"]
        for item in fields(kind):
            default = getattr(kind(), item.name)
            lines += [f"# {item.metadata['text']}", f"#{toml_key(item)} = {_toml(default)}"]
    lines += ["", "# [weigh]", "# Weight of a plugin's costs, by its name."]
    lines += ['# "mysite.rules" = 1.0', "", '# [plugin."mysite.rules"]']
    lines += ["# A plugin's own settings."]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)
