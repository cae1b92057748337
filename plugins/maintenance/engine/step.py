"""One step: everything that is known becomes one decision, the same one for the same input."""

from __future__ import annotations

from typing import Final

from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.down_instances import down_instances, down_since
from ganeti_steward.plugins.maintenance.engine import dead_nodes, observed
from ganeti_steward.plugins.maintenance.engine.decision import CLUSTER, Decision, Inputs, Recent
from ganeti_steward.plugins.maintenance.engine.ends import apply_ends
from ganeti_steward.plugins.maintenance.engine.ledger import Ledger
from ganeti_steward.plugins.maintenance.engine.reservations import Reservations
from ganeti_steward.plugins.maintenance.engine.routine import (
    Routine,
    RoutinePlanner,
    no_routine,
)
from ganeti_steward.plugins.maintenance.engine.tasks import Planner, Tasks
from ganeti_steward.plugins.maintenance.engine.work import apply_work
from ganeti_steward.plugins.maintenance.ganeti_health import differing_clocks
from ganeti_steward.plugins.model.world import Observation, Reported, Silent, World

_SECOND: Final = 10**9


def step(
    inputs: Inputs,
    config: Maintd,
    planner: Planner,
    routine_planner: RoutinePlanner = no_routine,
) -> Decision:
    """Decide what is done now.

    ``planner`` returns what the plugins plan for one incident, ``routine_planner`` what one plugin
    of routine work plans; both must depend on their arguments only.  An incident whose record is
    missing from ``records`` has not changed.
    """
    fresh = _without_old_reports(inputs.world, config).with_suspicions()
    ledger = Ledger(inputs._replace(world=fresh), config)
    observed.apply_clock(ledger)
    apply_ends(ledger)
    observed.apply_left(ledger)
    observed.apply_tags(ledger)
    observed.apply_reports(ledger)
    dead_nodes.apply_silence(ledger)
    observed.apply_answers(ledger)
    apply_work(ledger)
    observed.apply_disks(ledger)
    reservations = Reservations(ledger.all(), ledger.world, config)
    tasks = Tasks(ledger, planner, reservations)
    tasks.tag()
    tasks.open()
    tasks.plan()
    routine = Routine(ledger, routine_planner, reservations)
    routine.cancel()
    routine.plan()
    _alarm(ledger)
    _report_orphans(ledger)
    recent = _recent(ledger)
    ledger.held += down_instances(reservations.world(ledger.world), ledger.incidents, recent.down)
    ledger.held += differing_clocks(ledger.world, config.clock_limit)
    return _decision(ledger, tasks, routine)._replace(
        recent=recent, observed=tuple(reservations.observed)
    )


def _without_old_reports(world: World, config: Maintd) -> World:
    """The world with silence in place of each report that is too old.

    A report is checked when it is polled (``report-max-age``); until the next poll, and one that
    fails after it, it grows older.
    """
    limit = config.report_max_age + 2 * config.poll_interval + config.poll_time_limit
    observations = {
        uuid: _checked(found, world.now, limit) for uuid, found in world.observations.items()
    }
    return world._replace(observations=observations)


def _checked(found: Observation, now: int, limit: float) -> Observation:
    age = (now - found.at) / _SECOND if isinstance(found, Reported) else 0
    if not isinstance(found, Reported) or age <= limit:
        return found
    return Silent(found.at, f"the last report is {age:.0f} s old, more than {limit:g} s")


def _alarm(ledger: Ledger) -> None:
    """Report incidents for which nothing has happened for too long."""
    for incident in ledger.all(lambda one: one.state.under_repair):
        elapsed = (ledger.now - incident.progressed) / _SECOND
        if elapsed > ledger.config.stuck_after:
            ledger.hold(
                incident.uuid,
                "stuck",
                f"nothing has started or ended for {elapsed:.0f} s, more than "
                f"{ledger.config.stuck_after:g} s",
                elapsed=int(elapsed),
                limit=ledger.config.stuck_after,
            )


def _report_orphans(ledger: Ledger) -> None:
    """Say which jobs reserve something though no record knows them."""
    for one in ledger.world.orphans:
        what = f"job {one.number}" if one.number else "a job that luxid is taking"
        used = ", ".join((*one.nodes, *one.instances)) or "nothing that is known"
        ledger.hold(
            CLUSTER,
            "orphan",
            f"{what} of incident {one.incident} has not ended, and no record has it; reserved "
            f"until then: {used}",
            job=one.number,
        )


def _decision(ledger: Ledger, tasks: Tasks, routine: Routine) -> Decision:
    before = ledger.inputs.world.incidents
    return Decision(
        records=tuple(
            incident
            for uuid, incident in sorted(ledger.incidents.items())
            if before.get(uuid) != incident
        ),
        removed=tuple(sorted(set(before) - set(ledger.incidents))),
        cancels=tuple(sorted(set(ledger.cancels))),
        started=tuple(tasks.started),
        held=tuple(ledger.held),
        changes=tuple(ledger.changes),
        routine=tuple(routine.started),
        since=routine.since,
    )


def _recent(ledger: Ledger) -> Recent:
    """What the next step has to know in addition to the records."""
    limit = ledger.config.command_again_after * _SECOND
    commands = {
        key: at for key, at in sorted(ledger.commands.items()) if 0 <= ledger.now - at < limit
    }
    down = down_since(ledger.world, ledger.inputs.recent.down)
    return Recent(commands, ledger.opened, ledger.seen, ledger.unanswered, down)
