"""``gnt-steward diagnose --check``: everything that is wrong with an object or a command.

A command is run as a whitelist would run it, twice and with more than a second between: what it
prints must be the same as long as the hardware is.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError, reason_of
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.finding import OK, is_name
from ganeti_steward.core.process import Ended
from ganeti_steward.core.process_group import ending
from ganeti_steward.core.supervision.run import run_supervised
from ganeti_steward.core.trusted_program import Executable, Forbidden
from ganeti_steward.diagnose.config.sections import Diagnose
from ganeti_steward.diagnose.model.budget import DETAILS, within_budget
from ganeti_steward.diagnose.model.object import (
    object_faults,
    object_remarks,
    parse,
    read_finding,
)
from ganeti_steward.diagnose.sources import whitelist
from ganeti_steward.diagnose.sources.commands import LADDER, SOURCE

#: What a script begins with.
_SCRIPT: Final = b"#!"

#: Seconds between the two runs: a time in seconds is another one then.
_PAUSE: Final = 1.1


class Inspection(NamedTuple):
    """What was found out; every text is one line."""

    faults: list[str]
    notes: list[str]
    """what is allowed, but worth knowing"""


def check(what: str, settings: Diagnose) -> int:
    """Print what is wrong; status 1 when anything is."""
    found = inspect(what, settings)
    for note in found.notes:
        print(f"{what}: note: {note}")
    for fault in found.faults:
        print(f"{what}: {fault}")
    if not found.faults:
        print(f"{what}: OK")
    return EXIT_FAILURE if found.faults else EXIT_OK


def inspect(what: str, settings: Diagnose) -> Inspection:
    """Look at a file with an object, standard input (``-``), or a command."""
    if what == "-":
        return inspect_object(sys.stdin.buffer.read(), settings)
    try:
        mode = os.stat(what).st_mode
        if stat.S_ISREG(mode) and mode & 0o111:
            return inspect_command(os.path.abspath(what), settings)
        with open(what, "rb") as file:
            raw = file.read(settings.output_limit + 1)
    except OSError as err:
        raise StewardError(f"{what}: {reason_of(err)}") from None
    if raw.startswith(_SCRIPT):
        return Inspection(["it is a program, but not executable"], [])
    return inspect_object(raw, settings)


def inspect_object(raw: bytes, settings: Diagnose) -> Inspection:
    """Look at the text of an object."""
    faults = object_faults(raw)
    return Inspection(faults, [] if faults else _object_notes(raw, settings))


def _object_notes(raw: bytes, settings: Diagnose) -> list[str]:
    """The finding in an object without faults, and what is hardly meant."""
    found, notes = read_finding(SOURCE, raw), object_remarks(raw)
    if found.status == OK:
        return notes
    command = f" with the command {found.command}" if found.command else ""
    runs = settings.appear_after
    after = f"after {runs} runs in a row" if runs > 1 else "at once"
    reported = f"reports {found.status}{command}, which takes effect {after}"
    (shortened,) = within_budget(SOURCE, [found])
    if shortened != found:
        notes.append(f"the details have more than {DETAILS} bytes: only their hash is reported")
    return [reported, *notes]


def inspect_command(path: str, settings: Diagnose) -> Inspection:
    """Run a command twice; ``path`` is absolute."""
    faults, notes = [], []
    directory, name = os.path.split(path)
    if not is_name(name):
        faults.append(f"{quoted(name)} is no name of a command (letters, digits, _ and - only)")
    else:
        notes += _refusal(name, directory)
    runs = []
    for number in range(2):
        time.sleep(_PAUSE * number)
        started = time.monotonic()
        try:
            ended = _run(path, settings)
        except OSError as err:
            return Inspection([*faults, f"cannot be run: {reason_of(err)}"], notes)
        seconds = time.monotonic() - started
        notes.append(f"run {number + 1} took {seconds:.2f} s of {settings.time_limit:g} s")
        runs.append(ended)
    faults += _once(fault for ended in runs for fault in _run_faults(ended))
    notes += _once(note for ended in runs for note in _run_notes(ended, settings))
    faults += _differences(*runs)
    return Inspection(faults, notes)


def _run(path: str, settings: Diagnose) -> Ended:
    """Run a command as `whitelist.run` does, wherever it lies; raises OSError."""
    command = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        return run_supervised(
            [path],
            settings.time_limit,
            output_limit=settings.output_limit,
            executable=Executable(command),
            environment={},
            ladder=LADDER,
        )
    finally:
        os.close(command)


def _refusal(name: str, directory: str) -> list[str]:
    """Why it would not be run where it is now: it has to be installed for that."""
    try:
        with whitelist.opened(name, directory):
            return []
    except Forbidden as err:
        return [f"would not be run where it is: {err}"]


def _run_faults(ended: Ended) -> Iterator[str]:
    if ended.fault:
        yield ended.fault
    elif ended.status:
        yield f"{ending(ended.status)}: what it printed is not used"
    yield from object_faults(ended.output)


def _run_notes(ended: Ended, settings: Diagnose) -> Iterator[str]:
    if not object_faults(ended.output):
        yield from _object_notes(ended.output, settings)
    if ended.errors:
        line = ended.errors.partition(b"\n")[0].decode(errors="backslashreplace")
        yield f"prints on standard error, which goes to the log: {quoted(line)}"


def _differences(one: Ended, two: Ended) -> Iterator[str]:
    """Where the outputs differ: each difference would be a new event in every run."""
    if one.output == two.output:
        return
    if object_faults(one.output) or object_faults(two.output):
        yield "prints something else each time"
        return
    first, second = parse(one.output), parse(two.output)
    if canonical(first) == canonical(second):
        yield "prints the same object in another order each time"
    for place, before, after in differences(first, second):
        yield f"differs from run to run: {place} was {before}, then {after}"


def differences(one: Any, two: Any, place: str = "") -> Iterator[tuple[str, str, str]]:
    """Each place where two JSON values differ, and what is there in both."""
    if isinstance(one, dict) and isinstance(two, dict):
        for key in sorted(one.keys() | two.keys()):
            inner = f"{place}.{key}" if place else key
            if key in one and key in two:
                yield from differences(one[key], two[key], inner)
            else:
                yield inner, _shown(one.get(key, _NOTHING)), _shown(two.get(key, _NOTHING))
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for number, pair in enumerate(zip(one, two, strict=True)):
            yield from differences(*pair, f"{place}[{number}]")
    elif canonical(one) != canonical(two):
        yield place, _shown(one), _shown(two)


#: Stands for a key that is not there.
_NOTHING: Final = object()


def _shown(value: Any) -> str:
    if value is _NOTHING:
        return "missing"
    text = canonical(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."


def _once(texts: Iterator[str]) -> Sequence[str]:
    return list(dict.fromkeys(texts))
