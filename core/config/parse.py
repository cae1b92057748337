"""Reading the configuration file.

A file is judged as a whole: all faults are told with their path.  What each key may be is
in `ganeti_steward.core.config.schema`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any, Final

from ganeti_steward.core.config.node import Agent, Diagnose, Nagios
from ganeti_steward.core.config.schema import NAMED, SCHEMA, Key, number, shown, source_name
from ganeti_steward.core.config.values import (
    DEFAULT_PATH,
    Aggregates,
    Allocators,
    Config,
    History,
    Log,
    Plugins,
    Shadow,
)
from ganeti_steward.core.errors import BadConfig
from ganeti_steward.core.json_reader import describe

_SECTIONS: Final[Mapping[str, type]] = {
    "allocators": Allocators,
    "shadow": Shadow,
    "plugins": Plugins,
    "aggregates": Aggregates,
    "diagnose": Diagnose,
    "agent": Agent,
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
    known = [*SCHEMA, "weigh", "plugin", "collector", *NAMED]
    for name in table:
        if name not in known:
            faults.append(f"{shown(name)}: no such section (known: {', '.join(known)})")
    return Config(
        **{name: _section(name, table, faults) for name in SCHEMA},
        weigh=_weights(table.get("weigh", {}), faults),
        plugin=_tables("plugin", table, faults),
        collector=_tables("collector", table, faults),
        nagios=_checks(table, faults),
    )


def _section(name: str, table: Mapping[str, Any], faults: list[str]) -> Any:
    kind, schema, given = _SECTIONS[name], SCHEMA[name], table.get(name, {})
    if not isinstance(given, dict):
        faults.append(f"{name}: a section is expected, found {describe(given)}")
        return kind()
    return kind(**_values(name, schema, given, faults))


def _values(
    path: str, schema: Mapping[str, Key], given: Mapping[str, Any], faults: list[str]
) -> dict[str, Any]:
    """The good values of a section, by the names of their fields."""
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in schema:
            faults.append(f"{path}.{shown(key)}: no such key (known: {', '.join(schema)})")
            continue
        fault = schema[key].check(value)
        if fault:
            faults.append(f"{path}.{key}: {fault}")
        else:
            values[_field(key)] = tuple(value) if isinstance(value, list) else value
    return values


def _checks(table: Mapping[str, Any], faults: list[str]) -> dict[str, Nagios]:
    """The checks of [nagios.NAME]."""
    checks = {}
    for name, given in _tables("nagios", table, faults).items():
        path = f"nagios.{shown(name)}"
        fault = source_name(name)
        if fault:
            faults.append(f"{path}: {fault}")
        if "command" not in given:
            faults.append(f"{path}: has no command")
        values = _values(path, NAMED["nagios"], given, faults)
        if "command" in values:
            checks[name] = Nagios(**values)
    return checks


def _field(key: str) -> str:
    """The name of a key's value: keys have dashes, as Ganeti writes request types."""
    return key.replace("-", "_")


def _weights(given: Any, faults: list[str]) -> dict[str, float]:
    if not isinstance(given, dict):
        faults.append(f"weigh: a section is expected, found {describe(given)}")
        return {}
    weights = {}
    for name, value in given.items():
        fault = number(0, 1e6)(value)
        if fault:
            faults.append(f"weigh.{shown(name)}: {fault}")
        else:
            weights[name] = float(value)
    return weights


def _tables(
    section: str, table: Mapping[str, Any], faults: list[str]
) -> dict[str, Mapping[str, Any]]:
    """A section whose keys are names of sections."""
    given = table.get(section, {})
    if not isinstance(given, dict):
        faults.append(f"{section}: a section is expected, found {describe(given)}")
        return {}
    tables: dict[str, Mapping[str, Any]] = {}
    for name, value in given.items():
        if isinstance(value, dict):
            tables[name] = value
        else:
            faults.append(
                f"{section}.{shown(name)}: a section is expected, found {describe(value)}"
            )
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
    lines += ["# A plugin's own settings.", "", "# [collector.smart]"]
    lines += ["# A collector's thresholds; docs/reference/diagnose.md lists them."]
    lines += ["", "# [nagios.raid]", "# A check of Nagios as a source of the diagnosis."]
    for key, described in NAMED["nagios"].items():
        lines += [f"# {described.text}", f"# {key} = {_nagios_default(key)}"]
    return "\n".join(lines) + "\n"


def _nagios_default(key: str) -> str:
    """What a check's key is by default; an example where it has none."""
    defaults = Nagios._field_defaults | {"command": ("/usr/lib/nagios/plugins/check_raid",)}
    return _toml(defaults[_field(key)])


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
