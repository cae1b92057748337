"""What ``ipmitool -c`` prints: fields that are separated by commas, without quoting.

A line of another form is counted, not guessed at: it may be just the one that matters.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

#: ``name,reading,unit,state``; without a reading the two in the middle are empty.
_THRESHOLD: Final = re.compile(
    r"(?P<name>.+),(?:-?[0-9]+(?:\.[0-9]+)?)?,[^,]*,(?P<state>[lu]?n[cr]|[lu]?cr|ok|ns)"
)

#: ``name,number,state,entity,what holds, ...``; some have reading and unit for the number.
_DISCRETE: Final = re.compile(
    r"(?P<name>.+?),(?:[0-9A-F]{2}h|[^,]+,[^,]*),(?:ok|ns),[0-9]+\.[0-9]+,(?P<holds>.*)"
)

#: Beyond a limit that is critical, or from which there is no recovery.
_SEVERE: Final = re.compile(r"[lu]?[cn]r")

#: ``record,date,time,sensor,event,direction``, and of some events more behind.
_EVENT: Final = re.compile(
    r"[0-9a-f]{1,4},[^,]*,[^,]*,(?P<sensor>[^,]+),(?P<event>.*?),(?P<direction>Asserted|Deasserted)"
    r"(?:,.*)?"
)

#: The makers' own records, and those of a crashed system, have no direction.
_OTHER_RECORD: Final = re.compile(r"[0-9a-f]{1,4},.*(?:OEM record|Linux kernel panic:).*")

#: How a state or an event begins that means broken hardware.  Not "Redundancy Lost": a mainboard
#: with one power supply reports it permanently.  Not a whole power unit's "AC lost": the node runs
#: again, and not every controller notes that it does.
BROKEN: Final = (
    "failure detected",
    "power supply failure detected",
    "predictive failure",
    "power supply ac lost",
    "ac lost or out-of-range",
    "failed",
    "drive fault",
    "in critical array",
    "in failed array",
    "uncorrectable ecc",
    # So many were corrected that the controller does not count them any more.
    "correctable ecc logging limit reached",
    "memory device disabled",
    "critical overtemperature",
    "ierr",
    "thermal trip",
    "uncorrectable machine check",
    "bus fatal error",
    "bus uncorrectable error",
    "transition to critical",
    "transition to non-recoverable",
)


#: How the events of a sensor begin that each end the one before.
_TRANSITION: Final = "transition to "


class Broken(NamedTuple):
    """One thing that the controller calls broken."""

    sensor: str
    what: str


class Answer(NamedTuple):
    """What a listing reports."""

    broken: tuple[Broken, ...]
    unknowns: tuple[str, ...]


def read_sensors(text: str) -> Answer:
    """The sensors of ``sdr elist`` that are beyond a limit or in a bad state, now."""
    broken: list[Broken] = []
    lines, unknowns = _lines(text)
    for line in lines:
        discrete, threshold = _DISCRETE.fullmatch(line), _THRESHOLD.fullmatch(line)
        if discrete:
            states = discrete["holds"].split(", ")
            broken += [Broken(discrete["name"], state) for state in states if _is_broken(state)]
        elif threshold:
            if _SEVERE.fullmatch(threshold["state"]):
                broken.append(Broken(threshold["name"], "critical"))
        else:
            unknowns.append("a line about a sensor is not understood")
    if not lines:
        unknowns.append("no sensor is listed")
    return Answer(tuple(broken), tuple(unknowns))


def read_events(text: str) -> Answer:
    """The bad events of ``sel list`` that no later one ends."""
    lines, unknowns = _lines(text)
    open_events: dict[Broken, bool] = {}
    for line in lines:
        found = _EVENT.fullmatch(line)
        if found:
            event = found["event"]
            over = found["direction"] == "Deasserted" or event.endswith(" Deasserted")
            # Some events have their direction in their name, and are asserted both ways.
            what = event.removesuffix(" Asserted").removesuffix(" Deasserted")
            if not over and what.lower().startswith(_TRANSITION):
                _end_transitions(open_events, found["sensor"])
            if _is_broken(what):
                open_events[Broken(found["sensor"], what)] = not over
        elif not _OTHER_RECORD.fullmatch(line):
            unknowns.append("a line of the event log is not understood")
    return Answer(
        tuple(event for event, is_open in open_events.items() if is_open), tuple(unknowns)
    )


def _end_transitions(open_events: dict[Broken, bool], sensor: str) -> None:
    for event in open_events:
        if event.sensor == sensor and event.what.lower().startswith(_TRANSITION):
            open_events[event] = False


def _lines(text: str) -> tuple[list[str], list[str]]:
    """The lines that are not empty; an unknown when the last one is not complete."""
    cut = bool(text) and not text.endswith("\n")
    lines = [line.rstrip() for line in text.split("\n") if line.strip()]
    return lines, ["the last line is cut off"] if cut else []


def _is_broken(what: str) -> bool:
    lower = what.strip().lower()
    return lower.startswith(BROKEN) and not lower.endswith("deasserted")
