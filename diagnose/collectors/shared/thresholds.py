"""Reading a collector's thresholds from ``[collector.NAME]``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from ganeti_steward.core.errors import BadSettings
from ganeti_steward.core.json_reader import describe, quoted
from ganeti_steward.core.model.finding import STATUSES, is_name

_Settings = TypeVar("_Settings", bound=tuple[Any, ...])

#: Fields whose names end so hold one of the diagnose object's statuses.
_STATUS: Final = "status"

#: The field that holds the name of a repair command, or nothing.
_REPAIR: Final = "repair"


class Configured(Generic[_Settings]):
    """A collector that has thresholds of its own."""

    name: str
    kind: type[_Settings]
    """of the thresholds"""

    def __init__(self, settings: Mapping[str, Any] = MappingProxyType({})) -> None:
        self.configure(settings)

    def configure(self, settings: Mapping[str, Any]) -> None:
        """``settings``: the section of the configuration; raises BadSettings."""
        self._settings = read_settings(self.kind, self.name, settings)


def read_settings(kind: type[_Settings], name: str, given: Mapping[str, Any]) -> _Settings:
    """The thresholds of a collector; raises BadSettings.

    ``kind`` is a NamedTuple with a default for each field.  Keys are its fields with dashes;
    a value is of the kind its default is.
    """
    defaults: Mapping[str, Any] = vars(kind)["_field_defaults"]
    faults: list[str] = []
    values: dict[str, Any] = {}
    for key, value in given.items():
        field = key.replace("-", "_")
        if field not in defaults or "_" in key:
            known = ", ".join(known.replace("_", "-") for known in defaults)
            faults.append(f"{quoted(key)[1:-1]}: no such key (known: {known})")
            continue
        fault = _fault(field, defaults[field], value)
        if fault:
            faults.append(f"{key}: {fault}")
        else:
            values[field] = tuple(value) if isinstance(value, list) else value
    if faults:
        raise BadSettings(name, [f"collector.{name}.{fault}" for fault in faults])
    return kind(**values)


def _fault(field: str, default: Any, value: Any) -> str:
    """What is wrong with a value; empty when nothing is."""
    if field.endswith(_STATUS):
        if value in STATUSES:
            return ""
        return f"one of {', '.join(STATUSES)} is expected, found {describe(value)}"
    if field == _REPAIR:
        good = isinstance(value, str) and (value == "" or is_name(value))
        wanted = "the name of a command (letters, digits, _ and - only)"
    elif isinstance(default, bool):
        good, wanted = isinstance(value, bool), "true or false"
    elif isinstance(default, int | float):
        whole = not isinstance(default, float)
        number = isinstance(value, int) if whole else isinstance(value, int | float)
        good = number and not isinstance(value, bool) and value >= 0
        wanted = "a whole number from 0" if whole else "a number from 0"
    elif isinstance(default, tuple):
        good = isinstance(value, list) and all(isinstance(item, str) for item in value)
        wanted = "a list of texts"
    else:
        good, wanted = isinstance(value, str), "a text"
    return "" if good else f"{wanted} is expected, found {describe(value)}"
