"""Plans the chosen incidents and starts as many tasks as neither collide nor are held back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.model.cluster import Node
from ganeti_steward.plugins.maintenance.config import DRAINED, OBSERVE
from ganeti_steward.plugins.maintenance.effects import Effects, effects_of, with_power_cycle
from ganeti_steward.plugins.maintenance.engine.brake_case import Brake, RepairCase, command_ends
from ganeti_steward.plugins.maintenance.engine.brakes import (
    AFTER_PLAN,
    BEFORE_PLAN,
    FOR_OPENING,
    FOR_TAGS,
    holding,
    unverified,
)
from ganeti_steward.plugins.maintenance.engine.decision import PluginPlan, Started
from ganeti_steward.plugins.maintenance.engine.effect_brakes import BY_EFFECTS, facts_of
from ganeti_steward.plugins.maintenance.engine.ends import complete
from ganeti_steward.plugins.maintenance.engine.ledger import Ledger, command_key
from ganeti_steward.plugins.maintenance.engine.planned_brakes import is_blocked
from ganeti_steward.plugins.maintenance.engine.reservations import Reservations
from ganeti_steward.plugins.maintenance.engine.transitions import Event
from ganeti_steward.plugins.maintenance.engine.work import with_boot
from ganeti_steward.plugins.model.debts import debts_of
from ganeti_steward.plugins.model.incident import Incident, Submission
from ganeti_steward.plugins.model.operations import remove_tags, set_role, set_tags
from ganeti_steward.plugins.model.task import (
    AFTER,
    AFTERWARDS,
    BLOCKED,
    GIVEN_BACK,
    MASTER_AFTER,
    MASTER_BEFORE,
    MASTER_FAILOVER,
    READY,
    TAG,
    UNDRAIN,
    UNTAG,
    WORK,
    Done,
    Failed,
    Plan,
    Task,
    Wait,
)
from ganeti_steward.plugins.model.works import commands_around
from ganeti_steward.plugins.model.world import World


def chosen(ledger: Ledger) -> list[Incident]:
    """One active incident for each node that has any, most urgent first.

    An incident is left out, with its reason, while something of it or of another incident of the
    node has not ended.
    """
    first: dict[str, Incident] = {}
    for incident in ledger.all(lambda one: one.active):
        other = first.setdefault(incident.node, incident)
        if other.uuid != incident.uuid:
            ledger.hold(
                incident.uuid,
                "superseded",
                f"incident {other.uuid} of node {incident.node_name} ({other.action}) comes first",
            )
    return [incident for incident in first.values() if not _is_busy(ledger, incident)]


def _is_busy(ledger: Ledger, incident: Incident) -> bool:
    """Whether something of the node has not ended; reported."""
    running = [
        (one, submission)
        for one in ledger.all(lambda other: other.node == incident.node)
        for submission in one.open
        if submission.step not in AFTERWARDS
    ]
    for one, submission in running:
        jobs = ", ".join(map(str, submission.jobs))
        what = f"job {jobs}" if jobs else f"step {submission.step}"
        whose = "" if one.uuid == incident.uuid else f" of incident {one.uuid}"
        until = command_ends(submission, ledger.config) if submission.command else 0
        what = f"the command {submission.named_command}" if submission.command else what
        sentence = f"{what}{whose} has not ended"
        if slow := _slow_migrations(ledger, submission):
            ledger.hold(incident.uuid, "slow-migration", sentence + slow, since=submission.at)
        elif submission.step in (MASTER_BEFORE, MASTER_AFTER):
            ledger.hold(incident.uuid, "hook", sentence, since=submission.at, until=until)
        else:
            ledger.hold(incident.uuid, "running", sentence, since=submission.at, until=until)
    return bool(running)


def _slow_migrations(ledger: Ledger, submission: Submission) -> str:
    """The rest of a sentence about migrations that copy memory for too long; empty: none does."""
    limit, found = ledger.config.slow_migration_after, list[str]()
    names = dict(zip(submission.jobs, submission.each, strict=False))
    for number in submission.jobs:
        transfer = ledger.inputs.transfers.get(number)
        seconds = (ledger.now - transfer.begun) / 10**9 if transfer else 0
        if transfer and limit and seconds > limit:
            done = "" if transfer.percent is None else f", {transfer.percent:g} % so far"
            what = f"the memory of {names[number]}" if number in names else "memory"
            found.append(f"{what} has been copied for {seconds:.0f} s (job {number}){done}")
    return f": {'; '.join(found)}; slow-migration-after is {limit:g} s" if found else ""


#: How many times in a row the same task of an incident may be started again: what it did can be
#: lost once, in a failover of the master.
MOST_REPEATS: Final = 3

#: Parameters that name a node to which an instance, or a copy of its disks, goes.
_TARGETS: Final = ("target_node", "remote_node")

#: All that is judged for what was planned.
_AFTER_PLAN: Final[tuple[Brake, ...]] = (*BY_EFFECTS, unverified, *AFTER_PLAN)
_FOR_OPENING: Final[tuple[Brake, ...]] = (*BY_EFFECTS, *FOR_OPENING)

Planner = Callable[[Incident, World], Sequence[PluginPlan]]


class Tasks:
    """The tasks of the repairs in one round; each reserves what it uses, all or nothing."""

    def __init__(self, ledger: Ledger, planner: Planner, reservations: Reservations) -> None:
        self._ledger, self._planner, self._reservations = ledger, planner, reservations
        self._facts = facts_of(ledger.world)
        self.started: list[Started] = []

    # Tags of results

    def tag(self) -> None:
        """Set and remove the tags of results, and words of people that are not true any more."""
        for incident in self._ledger.all(lambda one: True):
            node = self._ledger.node(incident)
            task = node and (_word_task(incident, node) or _tag_task(incident, node))
            if node and task and not any(one.step in (TAG, UNTAG) for one in incident.open):
                case = self._case(incident, node)
                self._start_afterwards(case, FOR_TAGS, task, "tag")

    def _start_afterwards(
        self, case: RepairCase, brakes: tuple[Brake, ...], task: Task, what: str
    ) -> None:
        """Start a task of an incident that has ended; one that failed is tried again later."""
        ledger, incident = self._ledger, case.incident
        held = holding(brakes, self._planned(case, task))
        ledger.held += held
        if held:
            return
        if incident.retry_at > ledger.now:
            left = (incident.retry_at - ledger.now) // 10**9
            sentence = f"the {what} is tried again in {left} s"
            ledger.hold(incident.uuid, "tag", sentence, until=incident.retry_at)
        else:
            self._reserve(incident, task)

    # After the operator's word

    def open(self) -> None:
        """Open the volumes of incidents whose tag of success was removed."""
        for incident in self._ledger.all(lambda one: one.state.reopens):
            node = self._ledger.node(incident)
            if node and incident.closed_tag in node.tags and not incident.open:
                self._open(self._case(incident, node))

    def _open(self, case: RepairCase) -> None:
        for planned in self._planner(case.incident, self._reservations.world(case.world)):
            if isinstance(planned.plan, Task):
                self._start_afterwards(case, _FOR_OPENING, planned.plan, "opening")
            else:
                self._ledger.hold(case.incident.uuid, "wait", planned.plan.reason)

    # Repairs

    def plan(self) -> None:
        """Plan one incident of each node, most urgent first."""
        for incident in chosen(self._ledger):
            node = self._ledger.node(incident)
            if node:
                self._plan(incident, node)

    def _case(self, incident: Incident, node: Node) -> RepairCase:
        ledger = self._ledger
        world = ledger.world._replace(incidents=ledger.incidents)
        return RepairCase(
            incident=incident,
            node=node,
            world=world,
            config=ledger.config,
            utc_offset=ledger.inputs.utc_offset,
            seen=ledger.seen,
            only=ledger.inputs.only,
        )

    def _planned(self, case: RepairCase, plan: Task | Done | Failed) -> RepairCase:
        """With what is to be done, and what that does to nodes and instances."""
        step = plan.step if isinstance(plan, Task) else ""
        commanded = self._ledger.commands.get(command_key(case.incident, step), 0)
        return replace(case, next=plan, effects=self._effects(case, plan), commanded=commanded)

    def _effects(self, case: RepairCase, plan: Task | Done | Failed) -> Effects:
        if not isinstance(plan, Task):
            return Effects()
        effects, request = effects_of(plan.jobs, self._facts), case.incident.maintenance
        is_handover = plan.step == plan.command == MASTER_FAILOVER
        if not (plan.command and request) or is_handover:
            return effects
        if plan.command != commands_around(request).get(plan.step):
            return with_power_cycle(effects, case.node.name, self._facts)
        if plan.step in (MASTER_AFTER, AFTER):
            return effects
        # It is run only where the node may be drained next.
        return effects_of([[set_role(case.node.name, DRAINED)]], self._facts)

    def _plan(self, incident: Incident, node: Node) -> None:
        case = self._case(incident, node)
        held = holding(BEFORE_PLAN, case)
        if held:
            self._ledger.held += [*held, *holding(AFTER_PLAN, case)]
            self._ledger.update(_marked(incident, "", keep_blocked=True))
            if is_blocked(incident):
                self._say_why_blocked(case)
            return
        for planned in self._planner(incident, self._reservations.world(case.world)):
            self._take(case, planned.plan)

    def _say_why_blocked(self, case: RepairCase) -> None:
        """What a person has to do about a maintenance that something else holds back as well."""
        for planned in self._planner(case.incident, self._reservations.world(case.world)):
            mark, now = "", self._ledger.now
            if isinstance(planned.plan, Wait):
                mark = planned.plan.mark
                since, until = planned.plan.since, planned.plan.until
                self._ledger.hold(
                    case.incident.uuid, "wait", planned.plan.reason, since=since, until=until
                )
            self._ledger.update(_marked(case.incident, mark, now))

    def _take(self, case: RepairCase, plan: Plan) -> None:
        ledger, uuid = self._ledger, case.incident.uuid
        if isinstance(plan, Wait):
            ledger.hold(uuid, "wait", plan.reason, since=plan.since, until=plan.until)
            ledger.update(_marked(case.incident, plan.mark, ledger.now))
            if plan.mark == GIVEN_BACK:
                ledger.happen(uuid, Event.GIVEN_BACK, plan.reason)
            return
        if isinstance(plan, Task) and not self._is_free(uuid, plan):
            return
        held = holding(_AFTER_PLAN, self._planned(case, plan))
        ledger.held += held
        if held:
            # What may never begin must not keep the only incident that acts waiting.
            observed = not ledger.inputs.only and {one.brake for one in held} == {OBSERVE}
            if observed and isinstance(plan, Task):
                self._reservations.observe(plan)
            step = plan.step if isinstance(plan, Task) else ""
            mark = READY if step == WORK else ""
            ledger.update(_marked(case.incident, mark, keep_blocked=step == UNDRAIN))
        elif isinstance(plan, Task):
            self._start(case.incident, plan)
        elif isinstance(plan, Done):
            complete(ledger, uuid, plan.reason)
        elif isinstance(plan, Failed):
            incident = ledger.incidents[uuid]
            ledger.update(incident._replace(unmovable=plan.unmovable))
            ledger.happen(uuid, Event.FAILURE, plan.reason)

    def _start(self, incident: Incident, task: Task) -> None:
        """Start a task of a repair; one that is planned again and again changes nothing."""
        found = _hash(task)
        if found == incident.last_task and incident.repeated >= MOST_REPEATS:
            times = incident.repeated + 1
            reason = f"planned again after it succeeded {times} times in a row: {task.reason}"
            self._ledger.happen(incident.uuid, Event.FAILURE, reason)
            return
        incident = _with_origin(incident, self._ledger.world)
        incident = _marked(incident, "", keep_blocked=task.step == UNDRAIN)
        if task.step == WORK:
            incident = with_boot(incident, self._ledger.world)
        self._ledger.update(incident)
        demoted = effects_of(task.jobs, self._facts).demoted.union(incident.demoted)
        self._reserve(incident._replace(demoted=tuple(sorted(demoted))), task, found)

    def _is_free(self, uuid: str, task: Task) -> bool:
        """Whether nothing the task uses is reserved; reported."""
        if task.step not in (TAG, UNTAG) and not self._ledger.inputs.calls_known:
            what = "whether jobs without a record were submitted a moment ago is not known yet"
            self._ledger.hold(uuid, "lookup", f"{what}; held: {task.reason}")
            return False
        names = self._reservations.conflict(task)
        if names:
            self._ledger.hold(uuid, "reserved", f"another task uses {names}; held: {task.reason}")
        return not names

    def _reserve(self, incident: Incident, task: Task, found: str = "") -> None:
        """Start a task unless something it uses is reserved; ``found``: its hash."""
        if not self._is_free(incident.uuid, task):
            return
        ledger, uuid = self._ledger, incident.uuid
        self._reservations.reserve(task)
        # Until another node is the master, the maintenance has not begun: all is judged again then.
        if task.step not in AFTERWARDS and task.step != MASTER_FAILOVER:
            ledger.happen(uuid, Event.STARTED, task.reason)
        current = ledger.incidents[uuid]._replace(demoted=incident.demoted)
        submission = Submission(
            str(uuid5(NAMESPACE_URL, f"{uuid} {task.step} {ledger.now}")),
            task.step,
            tuple(sorted(task.nodes)),
            tuple(sorted(task.instances)),
            ledger.now,
            command=task.command,
            each=task.each,
            after=ledger.inputs.last_job,
            size=len(task.jobs),
            task=found,
            agent=task.agent,
        )
        if current.active:
            current = _with_targets(current, task)._replace(note=task.reason)
        ledger.update(current._replace(open=(*current.open, submission), progressed=ledger.now))
        self.started.append(Started(uuid, submission.id, task))


def _with_origin(incident: Incident, world: World) -> Incident:
    """A maintenance of which a task begins now, with how its node was before it, or an earlier one.

    What is started on the node until nothing runs there leaves it as well, and comes back.
    """
    request, node = incident.maintenance, world.nodes.get(incident.node)
    if request is None or node is None or request.worked:
        return incident
    debts = debts_of(world.cluster, node)
    running = (one.name for one in world.running_on(node.name))
    ran = tuple(sorted({*request.ran, *running, *debts.instances}))
    drained = request.drained if incident.state.begun else node.drained and not debts.drained
    return incident._replace(maintenance=request._replace(ran=ran, drained=drained))


def _marked(incident: Incident, mark: str, now: int = 0, *, keep_blocked: bool = False) -> Incident:
    """A maintenance with what its next step waits for: a mark of `Wait`, or empty.

    ``now``: ns since the epoch; ``keep_blocked``: whether it is not known if it can go on.
    """
    request = incident.maintenance
    if request is None:
        return incident
    since = request.blocked if keep_blocked else 0
    blocked = request.blocked or now if mark in (BLOCKED, GIVEN_BACK) else since
    return incident._replace(maintenance=request._replace(ready=mark == READY, blocked=blocked))


def _with_targets(incident: Incident, task: Task) -> Incident:
    """The incident, with the nodes to which each instance is moved now."""
    for name, job in zip(task.each, task.jobs, strict=False):
        before = incident.attempt(name)
        found = [str(one[key]) for one in job for key in _TARGETS if one.get(key)]
        targets = tuple(sorted({*before.targets, *found}))
        incident = incident.with_attempt(before._replace(targets=targets))
    return incident


def _hash(task: Task) -> str:
    """The same for tasks that do the same."""
    done = canonical([task.step, task.command, list(task.jobs)])
    return str(uuid5(NAMESPACE_URL, done.decode()))


def _word_task(incident: Incident, node: Node) -> Task | None:
    """Remove the word that the node is off, which counts no more; one can be set again then."""
    if not incident.answered:
        return None
    words = [tag for tag in incident.stopped_tags if tag in node.tags]
    reason = f"remove {', '.join(words)} from node {node.name}: it was not off, it answered"
    job = [remove_tags("node", node.name, words)]
    return Task(UNTAG, frozenset({node.name}), frozenset(), reason, (job,))


def _tag_task(incident: Incident, node: Node) -> Task | None:
    """What is to be tagged on the node, or removed from it; None when all is as it should be."""
    if incident.active:
        return None
    nodes = frozenset({node.name})
    what = "canceled" if incident.state.withdrawn else "completed"
    if incident.state.withdrawn or (incident.maintenance and incident.state.handled):
        tags = [tag for tag in incident.own_tags if tag in node.tags]
        job = [remove_tags("node", node.name, tags)]
        reason = f"remove {', '.join(tags)} from node {node.name}: the incident was {what}"
        return Task(UNTAG, nodes, frozenset(), reason, (job,)) if tags else None
    if incident.tagged or not incident.state.result:
        return None
    job = [set_tags("node", node.name, [incident.tag])]
    reason = f"set {incident.tag} on node {node.name}"
    return Task(TAG, nodes, frozenset(), reason, (job,))
