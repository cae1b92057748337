"""A configuration as the text of a file, which another process reads as it reads any."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from typing import Any, Final

from ganeti_steward.core.config.declaration import keys
from ganeti_steward.core.config.values import Config

#: The one character that has to be escaped in TOML but not in JSON.
_DELETE: Final = "\x7f"


def config_text(config: Config) -> str:
    """The text of a file that reads as this configuration, its warnings aside."""
    table: dict[str, Any] = {}
    for path, section in _sections(config):
        kind, _, name = path.partition(".")
        if name:
            table.setdefault(kind, {})[name] = section_table(section)
        else:
            table[kind] = section_table(section)
    table |= {name: getattr(config, name) for name in ("weigh", "plugin", "collector")}
    return "".join(f"{name} = {toml(one)}\n" for name, one in table.items())


def _sections(config: Config) -> Iterator[tuple[str, Any]]:
    """The sections that are declared, by their paths."""
    for name in ("allocators", "plugins", "history", "log"):
        yield name, getattr(config, name)
    yield from config.sections.items()


def section_table(section: Any) -> dict[str, Any]:
    """The keys of a section with their values."""
    found: dict[str, Any] = {}
    for key in keys(type(section)):
        value = getattr(section, key.field)
        if not key.one_of_each:
            found[key.name] = value
        elif key.name in value:
            found[key.name] = value[key.name]
    return found


def toml(value: Any) -> str:
    """A value as the file has it: of TOML's types, or a tuple."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_text(key)} = {toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return _text(value) if isinstance(value, str) else str(value)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace(_DELETE, "\\u007f")
