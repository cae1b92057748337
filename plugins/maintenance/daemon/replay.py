"""Runs recorded moments through the step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.parts import Planner, RoutinePlanner
from ganeti_steward.plugins.maintenance.daemon.recording import Moment, continued
from ganeti_steward.plugins.maintenance.engine.decision import Decision
from ganeti_steward.plugins.maintenance.engine.routine import no_routine
from ganeti_steward.plugins.maintenance.engine.step import step


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
    changed = {one.uuid: one for one in decision.records}
    return {
        uuid: one for uuid, one in {**incidents, **changed}.items() if uuid not in decision.removed
    }
