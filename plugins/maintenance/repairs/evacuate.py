"""The repairs that empty a node: drain, move all instances, final role.

They look at the world only: a drain or a move by an admin meanwhile counts as a part of their work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.allocators.jobs.operations import failover
from ganeti_steward.core import hookimpl
from ganeti_steward.core.ganeti.reasons import Reason, with_reasons
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.finding import EVACUATE_FAILOVER
from ganeti_steward.core.model.opcodes import MIGRATE, Job
from ganeti_steward.plugins.maintenance.config import DRAINED, OFFLINE
from ganeti_steward.plugins.maintenance.repairs.case import NodeRepair, no_node
from ganeti_steward.plugins.maintenance.repairs.evacuated_instances import (
    Judgement,
    Later,
    Prepare,
    Ready,
    Stays,
    judged,
    left_down,
    turn,
)
from ganeti_steward.plugins.maintenance.repairs.evacuation_case import (
    Evacuation,
    Reasons,
    confirm,
    listed,
    named,
    others_later,
    prove,
    what_is_lost,
)
from ganeti_steward.plugins.model.incident import DEAD, LEAVING, Incident
from ganeti_steward.plugins.model.operations import set_role
from ganeti_steward.plugins.model.task import (
    DRAIN,
    FINAL_ROLE,
    MOVE,
    REPLACE_DISKS,
    Done,
    Failed,
    Plan,
    Task,
    Wait,
)
from ganeti_steward.plugins.model.world import World

if TYPE_CHECKING:
    from ganeti_steward.allocators.score.redundancy import Redundancy


class Emptied(NamedTuple):
    """Nothing more is to be moved off the node."""

    copies: Reasons = ()
    """instances whose copy stays on it, since no other node of the group could take it"""

    def sentence(self, node: str) -> str:
        """What is left on the node."""
        if not self.copies:
            return f"no instance is left on node {node}"
        names = ", ".join(name for name, _ in self.copies)
        return (
            f"no instance runs on node {node}; the copies of "
            f"{counted(len(self.copies), 'instance')} stay on it because no other node can "
            f"take them: {names}"
        )


class _Places(NamedTuple):
    """The result of looking for places for some instances."""

    task: Task | None = None
    blocked: Reasons = ()
    impossible: Reasons = ()
    copies: Reasons = ()
    """instances whose copy stays, though there is no other node in the group for it"""


def empty(case: Evacuation) -> Plan | Emptied:
    """The next task that empties the node; Emptied when there is nothing more to be moved."""
    here = case.here
    judgements = {**{instance.name: judged(case, instance) for instance in here}, **left_down(case)}
    rest = _Places()
    for last in (False, True):
        if last and (task := _confirmed(case, judgements)):
            return task
        names = [
            name
            for name, found in judgements.items()
            if isinstance(found, Ready) and found.last == last
        ]
        for together in [names] if case.answers else _in_turns(case, names):
            found = _leave(case, together, judgements)
            if found.task:
                return found.task
            rest = _joined(rest, found)
    return _prepared(case, judgements) or _end(case, judgements, rest)


def _after_drain(case: Evacuation) -> str:
    """What comes next, as the round after the drain will decide if nothing else changes."""
    node, cluster = case.node._replace(drained=True), case.world.cluster
    nodes = (node if one.name == node.name else one for one in cluster.nodes)
    world = case.world._replace(cluster=cluster.replace(nodes))
    found = empty(Evacuation(case.incident, node, world, case.context, case.settings))
    if isinstance(found, Emptied):
        return f"then {found.sentence(node.name)}"
    if isinstance(found, Failed):
        return f"then the repair fails: {found.reason}"
    return f"then {found.reason}"


def _joined(places: _Places, other: _Places) -> _Places:
    return _Places(
        None,
        places.blocked + other.blocked,
        places.impossible + other.impossible,
        places.copies + other.copies,
    )


def _reasons(judgements: Mapping[str, Judgement], kind: type[Stays | Later]) -> Reasons:
    return tuple(
        (name, found.reason) for name, found in judgements.items() if isinstance(found, kind)
    )


# Moves


def _in_turns(case: Evacuation, names: Sequence[str]) -> list[list[str]]:
    """Those that take their places first, then the others: there may not be room for all."""
    turns = {name: turn(case, name) for name in names}
    return [[name for name in names if turns[name] == at] for at in sorted({*turns.values()})]


def _leave(case: Evacuation, names: Sequence[str], judgements: Mapping[str, Judgement]) -> _Places:
    """Move as many of these instances as can be moved at the same time."""
    if not names:
        return _Places()
    # It imports the engine, which most rounds do not need.
    from ganeti_steward.allocators.moves.leave_node import Leaving, leave_node

    world = case.world
    # A job that was not handed over has its targets noted too.
    tried = (attempt for attempt in case.incident.attempts if attempt.tried)
    failed = {attempt.instance: frozenset(attempt.targets) for attempt in tried}
    leaving = Leaving(
        case.name,
        names,
        world.avoided_nodes,
        world.reserved_nodes,
        case.settings.moves_at_once,
        last={name: failed[name] for name in names if failed.get(name)},
        passing=world.passing_nodes,
        excluded=world.excluded_nodes(),
    )
    found = leave_node(leaving, world.cluster, case.context)
    if not found.moves:
        alone = found.copies_impossible
        copies = tuple(one for one in found.stays if one[0] in alone)
        lasting = tuple(one for one in found.stays if one[0] not in alone)
        return _Places(None, found.blocked, found.impossible + lasting, copies)
    moved = [move.instance.name for move in found.moves]
    parts = [
        *_reason(case, moved, judgements),
        *others_later(found, case.settings.moves_at_once),
        *weaker(found.before, found.after),
    ]
    task = Task(
        MOVE,
        frozenset({case.name}).union(*(move.nodes for move in found.moves)),
        frozenset(moved),
        "; ".join(parts),
        [_job(case, judgements[move.instance.name], move.job) for move in found.moves],
        each=tuple(moved),
    )
    return _Places(task)


def _reason(
    case: Evacuation, moved: Sequence[str], judgements: Mapping[str, Judgement]
) -> Iterator[str]:
    yield f"move {len(moved)} of {len(case.here)} instances off {case.name}: {', '.join(moved)}"
    yield from filter(None, (what_is_lost(case, case.world.instances[name]) for name in moved))
    if others := _reasons(judgements, Later):
        yield f"not now: {listed(others)}"
    if stays := _reasons(judgements, Stays):
        number = f"{len(stays)} of {len(case.here)} instances"
        yield f"{number} cannot be moved, so the repair will fail: {listed(stays)}"


def weaker(before: Redundancy, after: Redundancy) -> Iterator[str]:
    """What the node group survives no longer once everything has left the node."""
    if single := sorted({*after.one_copy} - {*before.one_copy}):
        yield f"afterwards one copy only of {named(single)}"
    if failing := sorted({*after.n1_failing} - {*before.n1_failing}):
        yield f"afterwards no room for the instances of {named(failing)} if it fails"


def _job(case: Evacuation, judgement: Judgement, job: Job) -> Job:
    """With what comes first, and with a failover in place of the migration where one is wanted."""
    assert isinstance(judgement, Ready)
    at = next((i for i, one in enumerate(job) if one["OP_ID"] == MIGRATE), None)
    if at is not None and (case.incident.action == EVACUATE_FAILOVER or case.node.offline):
        over = failover(job[at]["instance_name"], job[at].get("target_node"))
        # Of a node that is off: no instance stays down while another one's disks are copied.
        rest = job[at + 1 :] if case.answers else []
        job = [*job[:at], over, *rest]
    return [*judgement.before, *job]


def weak_points(case: Evacuation, emptied: Emptied) -> Iterator[str]:
    """What the node group does not survive at the end, without the copies that stay on the node."""
    from ganeti_steward.allocators.moves.leave_node import redundancy_without

    found = redundancy_without(case.name, case.world.cluster, case.context)
    if single := sorted({*found.one_copy} - {name for name, _ in emptied.copies}):
        yield f"its group has one copy only of {named(single)}"
    if found.n1_failing:
        yield f"its group has no room for the instances of {named(found.n1_failing)} if it fails"


# What comes before a move


def _confirmed(case: Evacuation, judgements: Mapping[str, Judgement]) -> Task | None:
    """Have a node that does not answer confirmed to be off, where something waits for it."""
    waiting = any(
        isinstance(judgements[instance.name], Later) and instance.primary == case.name
        for instance in case.here
    )
    return confirm(case) if waiting else None


def _prepared(case: Evacuation, judgements: Mapping[str, Judgement]) -> Task | None:
    """The first kind of preparation that some instances need, for all of these."""
    wanted = {
        name: judgement for name, judgement in judgements.items() if isinstance(judgement, Prepare)
    }
    for name, prepare in wanted.items():
        if prepare.step == REPLACE_DISKS:
            if task := _new_copy(case, case.world.instances[name], prepare):
                return task
            continue
        same = [one for one, found in wanted.items() if found.step == prepare.step]
        chosen = same[: case.settings.moves_at_once]
        return Task(
            prepare.step,
            frozenset({n for one in chosen for n in case.world.instances[one].nodes} | {case.name}),
            frozenset(chosen),
            "; ".join(wanted[one].reason for one in chosen),
            [wanted[one].job for one in chosen],
            each=tuple(chosen),
        )
    return None


def _new_copy(case: Evacuation, instance: Instance, prepare: Prepare) -> Task | None:
    """A copy on another node in place of the one that is lost; the instance runs on meanwhile."""
    from ganeti_steward.allocators.moves.leave_node import Leaving, leave_node

    world, (lost, *_) = case.world, instance.secondaries
    avoided = {**world.avoided_nodes, case.name: "is evacuated"}
    leaving = Leaving(
        lost, [instance.name], avoided, world.reserved_nodes, 1, may_keep_copies=False
    )
    for move in leave_node(leaving, world.cluster, case.context).moves:
        return Task(
            REPLACE_DISKS,
            move.nodes | {case.name},
            frozenset({instance.name}),
            prepare.reason,
            [move.job],
            each=(instance.name,),
        )
    return None


# The end


def _end(case: Evacuation, judgements: Mapping[str, Judgement], rest: _Places) -> Plan | Emptied:
    on_it = f"of {len(case.here)} instances on {case.name}"
    waiting = _reasons(judgements, Later) + rest.blocked
    if waiting:
        return Wait(f"{len(waiting)} {on_it} wait: {listed(sorted(waiting))}")
    no_copy = tuple(
        (name, f"no other node can take a copy of its disks ({judgement.reason})")
        for name, judgement in judgements.items()
        if isinstance(judgement, Prepare)
    )
    unmovable = tuple(sorted(_reasons(judgements, Stays) + rest.impossible + no_copy))
    if not unmovable:
        return Emptied(tuple(sorted(rest.copies)))
    return Failed(f"{len(unmovable)} {on_it} cannot be moved: {listed(unmovable)}", unmovable)


#: The source of the reason that puts all moves of the cluster into one bucket.
LIMIT_SOURCE: Final = "gnt:daemon:maintd:limit"


class Evacuate(NodeRepair):
    """The plugin of both repairs."""

    @hookimpl
    def steward_plan(self, incident: Incident, world: World, context: Context) -> list[Plan] | None:
        """The next step of the evacuation."""
        if incident.action not in LEAVING:
            return None
        node = world.nodes.get(incident.node)
        if not node:
            return no_node(incident)
        return [self._next(Evacuation(incident, node, world, context, self._settings))]

    def _next(self, evacuation: Evacuation) -> Plan:
        node = evacuation.node
        if node.master:
            return Wait(
                f"{node.name} is the master node: fail over the master role first "
                "(gnt-cluster master-failover)"
            )
        if evacuation.incident.action == DEAD and not node.offline:
            return prove(evacuation)
        if not (node.drained or node.offline):
            why = f"nothing new is placed on it; {_after_drain(evacuation)}"
            return _role(evacuation, DRAIN, DRAINED, why)
        found = empty(evacuation)
        if not isinstance(found, Emptied):
            return self._limited(found, evacuation.incident)
        return self._end(evacuation, found)

    def _end(self, evacuation: Evacuation, emptied: Emptied) -> Plan:
        settings, node = self._settings, evacuation.node
        role = settings.degraded_final_role if emptied.copies else settings.final_role
        if role == OFFLINE and not node.offline:
            return _role(evacuation, FINAL_ROLE, OFFLINE, "nothing is left on it that can be moved")
        return Done("; ".join([emptied.sentence(node.name), *weak_points(evacuation, emptied)]))

    def _limited(self, plan: Plan, incident: Incident) -> Plan:
        """With the bucket of all moves of the cluster in the reason trails (job-filters 5)."""
        most = self._settings.moves_in_cluster
        if not most or not isinstance(plan, Task):
            return plan
        # The same time for the same task, so that a repetition is recognized.
        bucket = Reason(LIMIT_SOURCE, f"rate-limit:{most}:maintd", incident.first_seen)
        return plan._replace(jobs=[with_reasons(job, [bucket]) for job in plan.jobs])


def _role(case: Evacuation, step: str, role: str, why: str) -> Task:
    return case.on_node(step, f"set {case.name} {role}: {why}", [set_role(case.name, role)])
