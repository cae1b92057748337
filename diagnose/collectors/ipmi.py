"""What the mainboard's management controller reports: states of its sensors, and its event log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import LIVE_REPAIR, CheckResult, NotApplicable, Unknown
from ganeti_steward.core.model.machine import Machine
from ganeti_steward.diagnose.collectors.shared.ipmi_output import Answer, read_events, read_sensors
from ganeti_steward.diagnose.collectors.shared.program_output import MissingData, ended, succeeded
from ganeti_steward.diagnose.collectors.shared.results import (
    Fault,
    check_results,
    located_reason,
    matches,
)
from ganeti_steward.diagnose.collectors.shared.thresholds import Configured, Repair, Status

NAME: Final = "ipmi"

#: What the kernel has when it found a controller and offers it to programs.
_DEVICES: Final = "/sys/class/ipmi"
_PROGRAM: Final = "ipmitool"


class Settings(NamedTuple):
    """[collector.ipmi]: the checks of sensors and event log of the management controller."""

    ignore: Annotated[
        tuple[str, ...],
        "Sensors that are not checked, as shell patterns of their names, also those in the event "
        "log.",
    ] = ()
    sensor_status: Annotated[
        Status, "The status when a sensor is critical or reports broken hardware."
    ] = LIVE_REPAIR
    event_status: Annotated[
        Status, "The status when the event log has an event of broken hardware that is not over."
    ] = LIVE_REPAIR
    repair: Repair = ""


class Collector(Configured[Settings]):
    """Queries the management controller twice: its sensors and its event log."""

    CONFIG = Settings

    @hookimpl
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """What the management controller knows."""
        try:
            devices = machine.listing(_DEVICES)
        except FileNotFoundError:
            devices = ()
        except OSError as err:
            yield Unknown(NAME, located_reason(err))
            return
        if not devices:
            yield NotApplicable(NAME, "the kernel has no management controller")
        elif not machine.has(_PROGRAM):
            yield Unknown(NAME, f"there is a management controller, but no {_PROGRAM}")
        else:
            settings = self._settings
            yield from self._check(machine, "sensors", _sensors, settings.sensor_status)
            yield from self._check(machine, "events", _events, settings.event_status)

    def _check(
        self, machine: Machine, what: str, read: Callable[[Machine], Answer], status: str
    ) -> Iterator[CheckResult]:
        source, settings = f"{NAME}:{what}", self._settings
        try:
            answer = read(machine)
        except MissingData as err:
            yield Unknown(source, printable(str(err)))
            return
        faults = [
            Fault(status, printable(f"{one.sensor}: {one.what}"))
            for one in answer.broken
            if not matches(one.sensor, settings.ignore)
        ]
        yield from check_results(source, faults, answer.unknowns, settings.repair)


#: What is loaded: a class is made into an object.
plugin: Final = Collector


def _sensors(machine: Machine) -> Answer:
    """The sensors, those too that are listed beside one that cannot be read; raises MissingData.

    ``elist`` reads the sensors' names as ``list`` does.
    """
    done = ended(machine, _PROGRAM, "-c", "sdr", "elist")
    answer = read_sensors(done.output.decode(errors="replace"))
    if not done.status:
        return answer
    return answer._replace(
        unknowns=(*answer.unknowns, f"{_PROGRAM} ended with status {done.status}")
    )


def _events(machine: Machine) -> Answer:
    """The event log, all of it: what is over is reported further down; raises MissingData.

    It is requested without the sensors' names: where they cannot be read, its lines would have
    other words from run to run.
    """
    done = succeeded(machine, _PROGRAM, "-c", "sel", "list")
    return read_events(done.output.decode(errors="replace"))
