"""A decision as lines for people: what is done, and what is not, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.maintenance.task import Held, Task
from ganeti_steward.plugins.maintenance.engine.decision import Change, Decision
from ganeti_steward.plugins.maintenance.engine.transitions import FORGOTTEN


def decision_lines(
    decision: Decision, incidents: Mapping[str, Incident], held: Iterable[Held]
) -> Iterator[str]:
    """Everything that is done, in its order, then everything ``held`` back.

    ``incidents``: by uuid, as they were before.
    """
    known = {**incidents, **{one.uuid: one for one in decision.records}}
    done = [
        *map(_change, decision.changes),
        *(f"cancel job {number}, if it has not started" for number in decision.cancels),
        *(
            line
            for one in decision.started
            for line in _started(_subject(one.incident, known), one.task)
        ),
        *(line for one in decision.routine for line in _started(one.name, one.task)),
        *(f"filter rule {one.holding}: {one.sentence}" for one in decision.releases.changes),
    ]
    yield from done or ["nothing is done"]
    for one in held:
        yield f"held ({one.brake}) {_subject(one.subject, known)}: {one.sentence}"


def _change(change: Change) -> str:
    before = change.before.state_name if change.before else "new"
    after = change.after.state_name if change.after else FORGOTTEN
    one = change.after or change.before
    name = f"{one.uuid} of {one.node_name}" if one else ""
    return f"{before} -> {after} {name}: {change.reason}"


def _started(subject: str, task: Task) -> Iterator[str]:
    yield f"start {task.step} {subject}: {task.reason}"
    if task.command:
        yield f"  command {task.command}"
    for job in task.jobs:
        yield f"  job {', '.join(operation['OP_ID'] for operation in job)}"
    used = [*sorted(task.nodes), *sorted(task.instances)]
    yield from [f"  uses {', '.join(used)}"] if used else []


def _subject(subject: str, known: Mapping[str, Incident]) -> str:
    incident = known.get(subject)
    return f"{subject} of {incident.node_name}" if incident else subject
