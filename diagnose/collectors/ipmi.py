"""What the mainboard's management controller reports: states of its sensors, and its event log.

``ipmitool -c`` prints fields that are separated by commas, without quoting.  A line of another form
is counted, not guessed at: it may be just the one that matters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Annotated, Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import LIVE_REPAIR, CheckResult, NotApplicable, Unknown
from ganeti_steward.diagnose.collectors.shared import results
from ganeti_steward.diagnose.collectors.shared.reading import ended, noting_unknowns, succeeded
from ganeti_steward.diagnose.collectors.shared.thresholds import Configured, Repair, Status
from ganeti_steward.diagnose.model.machine import Machine

NAME: Final = "ipmi"

#: What the kernel has when it found a controller and offers it to programs.
_DEVICES: Final = "/sys/class/ipmi"
_PROGRAM: Final = "ipmitool"

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


class Settings(NamedTuple):
    """[collector.ipmi]: the checks of sensors and event log of the management controller."""

    ignore: Annotated[
        tuple[str, ...],
        "Sensors to skip, also in the event log: shell patterns of their names.",
    ] = ()
    sensor_status: Annotated[Status, "A sensor is critical or reports broken hardware."] = (
        LIVE_REPAIR
    )
    event_status: Annotated[
        Status, "The event log has an event of broken hardware that is not over."
    ] = LIVE_REPAIR
    repair: Repair = ""


class Broken(NamedTuple):
    """One thing that the controller calls broken."""

    sensor: str
    what: str


class Collector(Configured[Settings]):
    """Queries the management controller twice: its sensors and its event log."""

    CONFIG = Settings

    @hookimpl
    @results.unknown_if_unreadable(NAME)
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """What the management controller knows."""
        devices: Sequence[str] = ()
        with suppress(FileNotFoundError):
            devices = machine.listing(_DEVICES)
        if not devices:
            yield NotApplicable(NAME, "the kernel has no management controller")
        elif not machine.has(_PROGRAM):
            yield Unknown(NAME, f"there is a management controller, but no {_PROGRAM}")
        else:
            settings = self._settings
            yield from self._check(machine, "sensors", _read_sensors, settings.sensor_status)
            yield from self._check(machine, "events", _read_events, settings.event_status)

    def _check(
        self,
        machine: Machine,
        what: str,
        read: Callable[[Machine, list[str]], Iterator[Broken]],
        status: str,
    ) -> Iterator[CheckResult]:
        faults: list[results.Fault] = []
        unknowns: list[str] = []
        with noting_unknowns(unknowns):
            faults = [
                results.Fault(status, printable(f"{broken.sensor}: {broken.what}"))
                for broken in read(machine, unknowns)
                if not results.matches(broken.sensor, self._settings.ignore)
            ]
        yield from results.check_results(f"{NAME}:{what}", faults, unknowns, self._settings.repair)


#: What is loaded: a class is made into an object.
plugin: Final = Collector


def _read_sensors(machine: Machine, unknowns: list[str]) -> Iterator[Broken]:
    """The sensors that are beyond a limit or in a bad state, now; raises MissingData.

    Those too that are listed beside one that cannot be read.  ``elist`` reads the sensors' names as
    ``list`` does.
    """
    done = ended(machine, _PROGRAM, "-c", "sdr", "elist")
    if done.status:
        unknowns.append(f"{_PROGRAM} ended with status {done.status}")
    lines = _lines(done.output, unknowns)
    if not lines:
        unknowns.append("no sensor is listed")
    for line in lines:
        discrete, threshold = _DISCRETE.fullmatch(line), _THRESHOLD.fullmatch(line)
        if discrete:
            states = discrete["holds"].split(", ")
            yield from (Broken(discrete["name"], state) for state in states if _is_broken(state))
        elif threshold is None:
            unknowns.append("a line about a sensor is not understood")
        elif _SEVERE.fullmatch(threshold["state"]):
            yield Broken(threshold["name"], "critical")


def _read_events(machine: Machine, unknowns: list[str]) -> Iterator[Broken]:
    """The bad events of the log that no later one ends; raises MissingData.

    All of it is read: what is over is reported further down.  It is requested without the sensors'
    names: where they cannot be read, its lines would have other words from run to run.
    """
    open_events: dict[Broken, bool] = {}
    for line in _lines(succeeded(machine, _PROGRAM, "-c", "sel", "list").output, unknowns):
        record = _EVENT.fullmatch(line)
        if record:
            event = record["event"]
            over = record["direction"] == "Deasserted" or event.endswith(" Deasserted")
            # Some events have their direction in their name, and are asserted both ways.
            what = event.removesuffix(" Asserted").removesuffix(" Deasserted")
            if not over and what.lower().startswith(_TRANSITION):
                _end_transitions(open_events, record["sensor"])
            if _is_broken(what):
                open_events[Broken(record["sensor"], what)] = not over
        elif not _OTHER_RECORD.fullmatch(line):
            unknowns.append("a line of the event log is not understood")
    yield from (event for event, is_open in open_events.items() if is_open)


def _end_transitions(open_events: dict[Broken, bool], sensor: str) -> None:
    for event in open_events:
        if event.sensor == sensor and event.what.lower().startswith(_TRANSITION):
            open_events[event] = False


def _lines(output: bytes, unknowns: list[str]) -> list[str]:
    """The lines that are not empty; an unknown when the last one is not complete."""
    text = output.decode(errors="replace")
    if text and not text.endswith("\n"):
        unknowns.append("the last line is cut off")
    return [line.rstrip() for line in text.split("\n") if line.strip()]


def _is_broken(what: str) -> bool:
    lower = what.strip().lower()
    return lower.startswith(BROKEN) and not lower.endswith("deasserted")
