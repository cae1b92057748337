"""Reading the configuration file.

A file is checked as a whole: all faults are named with their path.  What each key may be is in
the declaration of its section, which `ganeti_steward.core.builtins` finds by the section's name;
only those of the sections in the file are imported.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ganeti_steward.core import builtins
from ganeti_steward.core.config.declaration import read_section
from ganeti_steward.core.config.kinds import number, shown
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import BadConfig
from ganeti_steward.core.json_reader import describe

#: Weight of a plugin's costs.
WEIGHT: Final = number(0, 1_000_000)


def parse_config(path: str, raw: bytes) -> Config:
    """The configuration in a file's bytes; ``path`` is for the faults.  Raises BadConfig."""
    try:
        table = tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as err:
        # Not only TOMLDecodeError: also bytes that are no text, and endless numbers.
        raise BadConfig(path, [f"is not valid TOML: {err}"]) from None
    faults: list[str] = []
    config = _read(table, faults)
    if faults:
        raise BadConfig(path, faults)
    return config


def _read(table: Mapping[str, Any], faults: list[str]) -> Config:
    """Check a parsed file; adds to ``faults`` and uses the default for what is faulty."""
    known = [*builtins.SECTIONS, "weigh", "plugin", "collector", *builtins.NAMED_SECTIONS]
    for name in table:
        if name not in known:
            faults.append(f"{shown(name)}: no such section (known: {', '.join(known)})")
    found = dict(_sections(table, faults))
    own = {name: found.pop(name) for name in Config._fields if name in found}
    weights = _weights(table.get("weigh", {}), faults)
    plugin, collector = (dict(_tables(name, table, faults)) for name in ("plugin", "collector"))
    found |= _named_sections(table, faults)
    return Config(**own, weigh=weights, plugin=plugin, collector=collector, sections=found)


def _sections(table: Mapping[str, Any], faults: list[str]) -> Iterator[tuple[str, Any]]:
    """The sections that say more than their defaults."""
    for name in builtins.SECTIONS:
        if name in table:
            declaration = builtins.declaration(name)
            section = read_section(declaration, name, table[name], faults)
            if section is not None and section != declaration():
                yield name, section


def _named_sections(table: Mapping[str, Any], faults: list[str]) -> Iterator[tuple[str, Any]]:
    """The sections of each kind that has any number of them, by their whole paths."""
    for kind in builtins.NAMED_SECTIONS:
        for name, given in _tables(kind, table, faults):
            declaration, path = builtins.declaration(kind), f"{kind}.{shown(name)}"
            fault = declaration.name_fault(name)
            faults += [f"{path}: {fault}"] if fault else []
            section = read_section(declaration, path, given, faults)
            if section is not None:
                yield f"{kind}.{name}", section


def _weights(given: Any, faults: list[str]) -> dict[str, float]:
    if not isinstance(given, dict):
        faults.append(f"weigh: a section is expected, found {describe(given)}")
        return {}
    weights = {}
    for name, value in given.items():
        fault = WEIGHT.fault(value)
        if fault:
            faults.append(f"weigh.{shown(name)}: {fault}")
        else:
            weights[name] = float(value)
    return weights


def _tables(
    section: str, table: Mapping[str, Any], faults: list[str]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The sections below one whose keys are names of sections."""
    given = table.get(section, {})
    if not isinstance(given, dict):
        faults.append(f"{section}: a section is expected, found {describe(given)}")
        return
    for name, value in given.items():
        if isinstance(value, dict):
            yield name, value
        else:
            path = f"{section}.{shown(name)}"
            faults.append(f"{path}: a section is expected, found {describe(value)}")
