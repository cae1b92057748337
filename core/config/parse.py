"""Reading the configuration file.

A file is checked as a whole: all faults are named with their path.  Those in sections that a
program does not use do not stop it.  What each key may be is in
the declaration of its section, which `ganeti_steward.core.builtins` finds by the section's name;
only those of the sections in the file are imported.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from ganeti_steward.core import builtins
from ganeti_steward.core.config.declaration import read_good_keys
from ganeti_steward.core.config.kinds import number, shown
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import BadConfig
from ganeti_steward.core.json_reader import describe

#: What is wrong, by section; empty for what is in no section that there is.
Faults = defaultdict[str, list[str]]

#: Weight of a plugin's costs.
WEIGHT: Final = number(0, 1_000_000)


def parse_config(path: str, raw: bytes, needs: Collection[str] | None = None) -> Config:
    """The configuration in a file's bytes; ``path`` is for the faults.  Raises BadConfig.

    ``needs``: the sections that are used, None: all; see `load_config`.
    """
    config, faults = read_config(path, raw)
    if any(found and (needs is None or name in needs) for name, found in faults.items()):
        raise BadConfig(path, [fault for found in faults.values() for fault in found])
    return config._replace(
        warnings=tuple(
            f"configuration {path}: {fault} (a section that is not used here)"
            for found in faults.values()
            for fault in found
        )
    )


def read_config(path: str, raw: bytes) -> tuple[Config, Faults]:
    """The configuration without its faulty keys, and the faults of each section.

    Raises BadConfig where the file cannot be parsed.
    """
    try:
        table = tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as err:
        # Not only TOMLDecodeError: also bytes that are no text, and endless numbers.
        raise BadConfig(path, [f"is not valid TOML: {err}"]) from None
    faults: Faults = defaultdict(list)
    return _read(table, faults), faults


def _read(table: Mapping[str, Any], faults: Faults) -> Config:
    """Check a parsed file; adds to ``faults`` and uses the defaults for what is faulty."""
    known = [*builtins.SECTIONS, "weigh", "plugin", "collector", *builtins.NAMED_SECTIONS]
    unknown = [name for name in table if name not in known]
    for name in unknown:
        meant, text = _unknown(name, known)
        faults[meant].append(text)
    found = dict(_sections(table, faults))
    own = {name: found.pop(name) for name in Config._fields if name in found}
    weights = _weights(table.get("weigh", {}), faults["weigh"])
    plugin, collector = (
        dict(_tables(name, table, faults[name])) for name in ("plugin", "collector")
    )
    found |= _named_sections(table, faults)
    return Config(**own, weigh=weights, plugin=plugin, collector=collector, sections=found)


def _unknown(name: str, known: Sequence[str]) -> tuple[str, str]:
    """The section that is probably meant by an unknown one, empty for none; and the fault."""
    from difflib import get_close_matches  # most files have no such section

    close = get_close_matches(name, known, 1)
    hint = f"did you mean {close[0]}? " if close else ""
    text = f"{shown(name)}: no such section ({hint}known: {', '.join(known)})"
    return "".join(close), text


def _sections(table: Mapping[str, Any], faults: Faults) -> Iterator[tuple[str, Any]]:
    """The sections that say more than their defaults."""
    for name in builtins.SECTIONS:
        if name in table:
            declaration = builtins.declaration(name)
            section = read_good_keys(declaration, name, table[name], faults[name])
            if section is not None and section != declaration():
                yield name, section


def _named_sections(table: Mapping[str, Any], faults: Faults) -> Iterator[tuple[str, Any]]:
    """The sections of each kind that has any number of them, by their whole paths."""
    for kind in builtins.NAMED_SECTIONS:
        found = faults[kind]
        for name, given in _tables(kind, table, found):
            declaration, path = builtins.declaration(kind), f"{kind}.{shown(name)}"
            fault = declaration.name_fault(name)
            found += [f"{path}: {fault}"] if fault else []
            section = read_good_keys(declaration, path, given, found)
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
