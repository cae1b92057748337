"""The diagnose object as a command prints it: what is wrong with one, and all of it.

It is the vendors' contract, so every fault is reported and not only the first.  Beyond the rules
of the object it has to be JSON that every reader understands in the same way: no key twice,
no number outside 64 bits, no nesting without end.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from ganeti_steward.core.errors import StewardError, join_faults
from ganeti_steward.core.json_nesting import HalfPair, TooDeep, load_json
from ganeti_steward.core.json_reader import describe, quoted
from ganeti_steward.core.model.finding import LIVE_REPAIR, STATUSES, Finding, is_name

#: Lists and objects within one another; some readers stop at 250, and a report has more around.
MOST_DEEP: Final = 64

_TOO_DEEP: Final = f"lists and objects are nested more than {MOST_DEEP} deep"

#: Whole numbers that every reader holds without loss.
_LEAST, _MOST = -(2**63), 2**64 - 1


class BadObject(StewardError):
    """What is no diagnose object, or no JSON at all; names every fault."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = tuple(dict.fromkeys(faults))
        super().__init__(join_faults(self.faults))


def object_faults(raw: bytes) -> list[str]:
    """Everything that is wrong with what a command printed; empty when it is a finding.

    The faults include their places in the text.
    """
    faults: list[str] = []
    try:
        given = _decoded(raw, faults, places=True)
    except BadObject as err:
        return list(err.faults)
    return list(dict.fromkeys([*faults, *_member_faults(given)]))


def object_remarks(raw: bytes) -> list[str]:
    """What is allowed in an object without faults, but hardly meant."""
    given = parse(raw)
    status, remarks = given["status"], []
    if status == LIVE_REPAIR and "command" not in given:
        remarks.append("live-repair without a command: no repair is run")
    if status != LIVE_REPAIR and "command" in given:
        remarks.append(f"command: has no meaning with the status {status}")
    others = sorted(given.keys() - {"status", "command", "details"})
    if others:
        names = ", ".join(map(quoted, others))
        remarks.append(f"unknown members become part of the details: {names}")
    return remarks


def read_finding(source: str, raw: bytes) -> Finding:
    """The finding a command printed; raises BadObject, with one text for one kind of fault.

    Unknown members belong to the finding: where there are any, the
    finding's details are all that is neither status nor command.
    """
    given = parse(raw)
    faults = _member_faults(given)
    if faults:
        raise BadObject(faults)
    rest = {key: value for key, value in given.items() if key not in ("status", "command")}
    details = rest.get("details") if rest.keys() <= {"details"} else rest
    command = given.get("command", "") if given["status"] == LIVE_REPAIR else ""
    return Finding(source, given["status"], command, details)


def parse(raw: bytes, around: int = 0) -> Any:
    """The JSON value of a text; raises BadObject, whose text does not change with garbage.

    ``around``: levels that were put around an object or its details, to be allowed in addition.
    """
    faults: list[str] = []
    value = _decoded(raw, faults, places=False, around=around)
    if faults:
        raise BadObject(faults)
    return value


def _decoded(raw: bytes, faults: list[str], *, places: bool, around: int = 0) -> Any:
    """The value of a text; raises BadObject when there is none to be had.

    Further faults are added to ``faults``.
    """
    try:
        value = load_json(
            raw,
            deepest=MOST_DEEP + around,
            read_object=lambda members: _members(members, faults),
            read_integer=lambda text: _integer(text, faults),
            read_real=lambda text: _real(text, faults),
            read_constant=lambda text: faults.append(f"{text} is not JSON"),
        )
    except TooDeep:
        raise BadObject([*faults, _TOO_DEEP]) from None
    except HalfPair as err:
        raise BadObject([*faults, str(err)]) from None
    except UnicodeDecodeError as err:
        where = f" (byte {err.start})" if places else ""
        raise BadObject([f"it is not UTF-8{where}"]) from None
    except json.JSONDecodeError as err:
        raise BadObject([*faults, _syntax(err, places=places)]) from None
    return value


def _syntax(err: json.JSONDecodeError, *, places: bool) -> str:
    if not err.doc.strip():
        return "it is empty"
    where = f" (line {err.lineno} column {err.colno})" if places else ""
    if err.msg == "Extra data":
        return f"something follows the JSON value{where}"
    return f"it is not JSON{': ' + err.msg if places else ''}{where}"


def _members(members: list[tuple[str, Any]], faults: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in members:
        if key in values:
            faults.append(f"the key {quoted(key)} is there twice")
        values[key] = value
    return values


def _integer(text: str, faults: list[str]) -> int:
    # Thousands of digits would not even be converted.
    value = int(text[:25])
    if not _LEAST <= value <= _MOST:
        faults.append(f"the number {_shortened(text)} does not fit into 64 bits")
    return value


def _real(text: str, faults: list[str]) -> float:
    value = float(text)
    if math.isinf(value):
        faults.append(f"the number {_shortened(text)} is too large")
    return value


def _shortened(digits: str) -> str:
    return digits if len(digits) <= 30 else f"{digits[:27]}..."


def _member_faults(given: Any) -> list[str]:
    """What makes a value no diagnose object."""
    if not isinstance(given, dict):
        return [f"an object is expected, found {describe(given)}"]
    faults: list[str] = []
    status, command = given.get("status"), given.get("command")
    if "status" not in given:
        faults.append("the key 'status' is missing")
    elif status not in STATUSES:
        known = ", ".join(STATUSES)
        faults.append(f"status: one of {known} is expected, found {describe(status)}")
    # A command has a meaning with live-repair only; whatever it is else is no fault.
    if status != LIVE_REPAIR or "command" not in given:
        return faults
    if not isinstance(command, str):
        return [f"command: a text is expected, found {describe(command)}"]
    if not is_name(command):
        hint = "letters, digits, _ and - only"
        return [f"command: {quoted(command)} is not a command name ({hint})"]
    return faults
