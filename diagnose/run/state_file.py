"""What one run leaves to the next, as files.

The state is what findings were seen (`ganeti_steward.diagnose.model.hysteresis`).  Beside it is
which sources have left which processes that cannot be killed, since they wait for a dead disk.
Such a source is not run again while they are there.  Otherwise each run on such a node would leave
one more, until nothing can be started there any more.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.finding import STATUSES
from ganeti_steward.core.process.descendants import Process, is_there
from ganeti_steward.core.safe_files import UnsafeFile, read_own
from ganeti_steward.core.typed_json import from_json, to_json
from ganeti_steward.core.whole_files import write_file
from ganeti_steward.diagnose.model.hysteresis import RunState, covers
from ganeti_steward.diagnose.run.files import STATE, locked, prepare_directory

#: Of the file's form; another one is not understood.
FORM: Final = 1

#: Bytes of the file; a state is far smaller.
_LONGEST: Final = 2**26

#: What is put behind the name of a file that is not understood.
SET_ASIDE: Final = ".unusable"

#: The other file, and its bytes.
STUCK: Final = "stuck.json"
_LONGEST_STUCK: Final = 2**22


class Kept(NamedTuple):
    """What was read."""

    state: RunState
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
        return Kept(RunState())
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
    return Kept(RunState(lost=True), b"", note)


def write_state(directory: str, kept: Kept, state: RunState) -> None:
    """Leave a state to the next run; raises StewardError.  Nothing is written over its like."""
    raw = state_bytes(state)
    if raw != kept.raw:
        write_file(os.path.join(directory, STATE), raw)


class _File(NamedTuple):
    """The content of the file."""

    form: int
    host: str
    """this machine, by the name it has even where no file can be read"""
    state: RunState


def state_bytes(state: RunState) -> bytes:
    """A state as a file."""
    return canonical(to_json(_File, _File(FORM, os.uname().nodename, state))) + b"\n"


def parse_state(raw: bytes) -> RunState:
    """The state in a file; raises StewardError.

    What was found on another machine, whose disk or backup this is, is of no use here.
    """
    try:
        data = load_json(raw)
    except ValueError:
        raise StewardError("it is not JSON") from None
    if not isinstance(data, dict) or data.get("form") != FORM:
        raise StewardError(f"its form is not {FORM}")
    try:
        content = from_json(_File, data)
    except ValueError as err:
        raise StewardError(str(err)) from None
    for source, each in content.state.held.items():
        for finding in (*(each.confirmed or ()), *each.pending):
            if finding.source != source or finding.status not in STATUSES[1:]:
                raise StewardError(f"a finding of {quoted(source)} is not one of that source")
    if content.host != os.uname().nodename:
        raise StewardError(f"it is of the machine {quoted(content.host)}")
    return content.state


def forget(directory: str, source: str) -> list[str]:
    """Drop what is kept of a source and its objects, and return their names.

    Raises Busy while a run is in progress, StewardError where nothing of it is kept.  A source
    that still finds something reports it again.
    """
    prepare_directory(directory)
    with locked(directory):
        kept = read_state(directory)
        if kept.note:
            raise StewardError(kept.note)
        state = kept.state
        known = sorted({*state.held, *state.unreported})
        dropped = [one for one in known if covers(source, one)]
        if not dropped:
            names = ", ".join(state.held) or "none"
            raise StewardError(f"nothing is kept of the source {quoted(source)} (kept: {names})")
        held = {name: one for name, one in state.held.items() if name not in dropped}
        unreported = tuple(one for one in state.unreported if one not in dropped)
        lost = state.lost and bool(unreported)
        write_state(directory, kept, RunState(held, unreported, lost))
    return dropped


# -- Processes that cannot be killed


def read_stuck(directory: str) -> dict[str, frozenset[Process]]:
    """Which sources have left which processes that are still there."""
    try:
        given: Any = load_json(read_own(os.path.join(directory, STUCK), _LONGEST_STUCK))
        stuck = {
            str(source): frozenset(process for process in map(_process, each) if is_there(process))
            for source, each in given.items()
        }
    except (OSError, UnsafeFile, ValueError, TypeError, AttributeError, OverflowError):
        # Nothing depends on it but how many of them there are.
        return {}
    return {source: each for source, each in stuck.items() if each}


def _process(given: Any) -> Process:
    """A process of the file; raises TypeError, ValueError."""
    pid, started = given
    if type(pid) is not int or not isinstance(started, int | float):
        raise TypeError
    return Process(pid, started)


def write_stuck(directory: str, stuck: Mapping[str, frozenset[Process]]) -> None:
    """Keep that for the next run; raises StewardError."""
    path = os.path.join(directory, STUCK)
    content = canonical({source: sorted(each) for source, each in stuck.items() if each}) + b"\n"
    try:
        if read_own(path, _LONGEST_STUCK) == content:
            return
    except FileNotFoundError:
        if content == b"{}\n":
            return
    except (OSError, UnsafeFile):
        # `write_file` replaces a file that cannot be used, and refuses what is none.
        pass
    write_file(path, content)
