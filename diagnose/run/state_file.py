"""What one run leaves to the next, as a file (`ganeti_steward.diagnose.model.hysteresis`)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.finding import STATUSES, Finding
from ganeti_steward.core.safe_files import UnsafeFile, read_own
from ganeti_steward.diagnose.model.hysteresis import Result, SourceState, State
from ganeti_steward.diagnose.run.files import STATE, write_file

#: Of the file's form; another one is not understood.
FORM: Final = 1

#: Bytes of the file; a state is far smaller.
_LONGEST: Final = 2**26

#: What is put behind the name of a file that is not understood.
SET_ASIDE: Final = ".unusable"


class Kept(NamedTuple):
    """What was read."""

    state: State
    raw: bytes = b""
    """the file as it is; empty where there is none that can be used"""
    note: str = ""
    """what was wrong with it"""


def read_state(directory: str) -> Kept:
    """What the last run left.

    A file that is not understood is set aside, not thrown away.
    """
    path = os.path.join(directory, STATE)
    try:
        raw = read_own(path, _LONGEST)
        return Kept(parse_state(raw), raw)
    except FileNotFoundError:
        return Kept(State())
    except UnsafeFile as err:
        fault = f"cannot be read: {err.reason}"
    except OSError as err:
        fault = f"cannot be read: {reason_of(err)}"
    except StewardError as err:
        fault = f"is not understood: {err}"
    note = f"{path} {fault}; what was known from earlier runs is lost"
    with suppress(OSError):
        os.replace(path, path + SET_ASIDE)
        note += f" (the file is {path + SET_ASIDE} now)"
    return Kept(State(lost=True), b"", note)


def write_state(directory: str, kept: Kept, state: State) -> None:
    """Leave a state to the next run; raises StewardError.  Nothing is written over its like."""
    raw = state_bytes(state)
    if raw != kept.raw:
        write_file(os.path.join(directory, STATE), raw)


def state_bytes(state: State) -> bytes:
    """A state as a file."""
    held = {
        source: {
            "confirmed": None if one.confirmed is None else _to_json(one.confirmed),
            "pending": _to_json(one.pending),
            "runs": one.runs,
        }
        for source, one in state.held.items()
    }
    content = {"form": FORM, "host": _host(), "held": held, "unheard": state.unreported}
    return canonical(content | {"lost": state.lost}) + b"\n"


def _host() -> str:
    """This machine, by the name it has even where no file can be read."""
    return os.uname().nodename


def parse_state(raw: bytes) -> State:
    """The state in a file; raises StewardError.

    What was found on another machine, whose disk or backup this is, is of no use here.
    """
    try:
        given = load_json(raw)
    except ValueError:
        raise StewardError("it is not JSON") from None
    if not isinstance(given, dict) or given.get("form") != FORM:
        raise StewardError(f"its form is not {FORM}")
    try:
        held = {source: _held(source, one) for source, one in given["held"].items()}
        unreported, lost = tuple(map(_text, given["unheard"])), _flag(given["lost"])
        host = _text(given["host"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise StewardError("something in it is of another kind than expected") from None
    if host != _host():
        raise StewardError(f"it is of the machine {quoted(host)}")
    return State(held, unreported, lost)


def _to_json(result: Result) -> list[list[Any]]:
    return [list(finding[1:]) for finding in result]


def _held(source: str, given: Any) -> SourceState:
    confirmed = given["confirmed"]
    runs: object = given["runs"]
    if type(runs) is not int or runs < 0:
        raise ValueError
    return SourceState(
        None if confirmed is None else _result(source, confirmed),
        _result(source, given["pending"]),
        runs,
    )


def _result(source: str, given: Iterable[Any]) -> Result:
    return tuple(_finding(source, *fields) for fields in given)


def _finding(source: str, status: Any, command: Any, details: Any) -> Finding:
    if status not in STATUSES[1:]:
        raise ValueError
    return Finding(source, status, _text(command), details)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
