"""Runs recorded moments through the step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from ganeti_steward.core.config.declaration import read_section
from ganeti_steward.core.errors import StewardError, join_faults
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.json_reader import describe
from ganeti_steward.core.typed_json import from_json
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.engine.decision import Decision, Inputs
from ganeti_steward.plugins.maintenance.engine.routine import RoutinePlanner, no_routine
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.maintenance.engine.tasks import Planner
from ganeti_steward.plugins.model.incident import Incident


class Replayed(NamedTuple):
    """A moment and what is decided in it."""

    moment: Moment
    decision: Decision


def replay(
    moments: Iterable[Moment],
    planner_for: Callable[[Maintd], Planner],
    routine_for: Callable[[Maintd], RoutinePlanner] = lambda settings: no_routine,
) -> Iterator[Replayed]:
    """Decide in each moment; one without incidents goes on with those of the one before."""
    incidents: Mapping[str, Incident] = {}
    for given in moments:
        moment = continued(given, incidents)
        settings = moment.settings
        decision = step(moment.inputs, settings, planner_for(settings), routine_for(settings))
        incidents = incidents_after(moment.inputs.world.incidents, decision)
        yield Replayed(moment, decision)


def incidents_after(
    incidents: Mapping[str, Incident], decision: Decision
) -> Mapping[str, Incident]:
    """The incidents, by uuid, once a decision is recorded."""
    changed = {incident.uuid: incident for incident in decision.records}
    return {
        uuid: incident
        for uuid, incident in {**incidents, **changed}.items()
        if uuid not in decision.removed
    }


#: The version of the format, the member ``format`` of the first line.
FORMAT: Final = 1

#: Members of a line, and one of its world.
CONFIGURATION: Final = "configuration"
WORLD: Final = "world"
MISSING: Final = "missing"
INCIDENTS: Final = "incidents"


class Moment(NamedTuple):
    """What one step got."""

    settings: Maintd
    inputs: Inputs
    continued: bool
    """whether the incidents are those that the step before has left"""
    missing: int = 0
    """how many moments just before this one could not be written"""


def read_moments(lines: Iterable[str]) -> Iterator[Moment]:
    """The moments of a file; raises StewardError naming the line that cannot be used."""
    before: dict[str, Any] = {CONFIGURATION: {}, WORLD: {}}
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                before, moment = _moment(before, line)
            except (ValueError, RecursionError) as err:
                raise StewardError(f"line {number}: {err}") from None
            yield moment


def _moment(before: Mapping[str, Any], line: str) -> tuple[dict[str, Any], Moment]:
    """What the next line builds on, and the moment; raises ValueError."""
    data = load_json(line)
    if not isinstance(data, dict) or not isinstance(data.get(WORLD), dict):
        raise ValueError("an object with the object world is expected")
    if not isinstance(data.setdefault(CONFIGURATION, {}), dict):
        raise ValueError(f"{CONFIGURATION} must be an object")
    missing = data.pop(MISSING, 0)
    if type(missing) is not int or missing < 0:
        raise ValueError(f"{MISSING}: a number of moments is expected, found {describe(missing)}")
    version = data.pop("format", FORMAT)
    if version != FORMAT:
        raise ValueError(f"its format is {version!r}, this program reads format {FORMAT}")
    data[CONFIGURATION] = {**before[CONFIGURATION], **data[CONFIGURATION]}
    continued = INCIDENTS not in data[WORLD]
    data[WORLD] = {**before[WORLD], **data[WORLD]}
    given = {name: one for name, one in data.items() if name != CONFIGURATION}
    inputs = from_json(Inputs, given)
    return data, Moment(_settings(data[CONFIGURATION]), inputs, continued, missing)


def _settings(given: Any) -> Maintd:
    faults: list[str] = []
    settings = read_section(Maintd, CONFIGURATION, given, faults)
    if settings is None:
        raise ValueError(join_faults(faults))
    return settings


def continued(moment: Moment, incidents: Mapping[str, Incident]) -> Moment:
    """A moment with the incidents that the step before has left, where it has none itself."""
    if not moment.continued:
        return moment
    world = moment.inputs.world._replace(incidents=incidents)
    return moment._replace(inputs=moment.inputs._replace(world=world))
