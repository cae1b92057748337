"""What the daemon is going to do: its own rounds on the cluster as it is, where nothing fails.

The work of a person on a node under maintenance takes as long as a reboot; no person does anything
else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from ganeti_steward.allocators.jobs.operations import nodes_after
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.opcodes import MOVES, Operation
from ganeti_steward.plugins.maintenance.config import ACT, NO_LOAD, Maintd, Rebalance
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.maintenance.edges.status import wait_line
from ganeti_steward.plugins.maintenance.engine.transitions import FORGOTTEN
from ganeti_steward.plugins.maintenance.forecast.steps import Forecast, Moved, Outcome, Step
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.task import TAG, UNTAG, WORK, Task
from ganeti_steward.plugins.model.works import BY_ADMIN, work_began
from ganeti_steward.plugins.model.world import Observation, Reported, Silent, World
from ganeti_steward.plugins.simulation.assumptions import DAY, SECOND, Assumptions
from ganeti_steward.plugins.simulation.hardware import REBOOT
from ganeti_steward.plugins.simulation.jobs import Row
from ganeti_steward.plugins.simulation.made_cluster import world_of
from ganeti_steward.plugins.simulation.run import SEEN_AFTER, Simulation

#: Nothing fails.
CALM: Final = Assumptions(
    deaths=0,
    ailments=0,
    repairable=0,
    repaired=1,
    flaps=0,
    storms=0,
    cut_offs=0,
    oob_fails=0,
    job_failures=0,
)
#: ns after which the forecast ends; every window opens before.
_LONGEST: Final = 30 * DAY
#: Rounds in a row that begin and change nothing, after which nothing is expected any more.
_QUIET: Final = 300
#: s after ``dead-after`` within which a node is noted as dead that is.
_NOTED_WITHIN: Final = 600
#: What is only written down.
_TAGGING: Final = (TAG, UNTAG)


def start(cluster: Cluster, now: int) -> World:
    """A cluster of any source, without reports; ``now``: ns since the epoch.

    Raises StewardError.
    """
    return world_of(cluster)._replace(now=now)


def forecast(
    world: World, config: Config, assumed: Assumptions, incidents: Iterable[Incident]
) -> Forecast:
    """What is done about these incidents, and about what the world's nodes report, to the end.

    The mode is taken as ``act``.  Jobs and commands that run now are taken as not begun.  Raises
    PluginError.
    """
    settings = config.section(Maintd)._replace(mode=ACT)
    balancing = config.section(Rebalance)._replace(load_data=NO_LOAD, by_load=False)
    sections = {**config.sections, "maintd": settings, "rebalance": balancing}
    begin = World(world.now, world.cluster, world.candidate_pool_size)
    played = _Played(begin, config._replace(sections=sections), assumed)
    played.begin(incidents, world.observations)
    return played.play()


class _Played(Simulation):
    """A simulation in which only a person who works on nodes under maintenance comes."""

    def begin(self, incidents: Iterable[Incident], observations: Mapping[str, Observation]) -> None:
        """Have it begin with what is known."""
        self._steps: dict[str, Step] = {}
        """id of a submission, or uuid of a maintenance that a person works on -> what it does"""
        self._jobs_of: dict[int, str] = {}
        """number of a job -> id of its submission"""
        self._ends: dict[str, Outcome] = {}
        self._waits: dict[str, str] = {}
        """uuid -> what held it back in the last round"""
        self._works: dict[str, str] = {}
        """uuid of a maintenance -> what does the work, as it was requested"""
        self._quiet = 0
        self._earliest = 0
        """the forecast does not end before: something may become an incident until then"""
        self.observers.append(self._follow)
        self._see(observations)
        for one in incidents:
            self.store.write(self._as_begun(one))

    def _see(self, observations: Mapping[str, Observation]) -> None:
        names = {node.uuid: name for name, node in self.cluster.nodes.items()}
        for uuid, seen in observations.items():
            if uuid not in names:
                continue
            if isinstance(seen, Reported) and seen.needs_repair:
                self.hardware.report(names[uuid], seen.status, seen.original)
            elif isinstance(seen, Silent) and seen.gone:
                self.hardware.be_dead(names[uuid], seen.since)
                seconds = self._settings.dead_after + _NOTED_WITHIN
                self._earliest = self._begin + int(seconds * SECOND)

    def _as_begun(self, one: Incident) -> Incident:
        """An incident without its open jobs; a reboot that has begun goes on."""
        request = one.maintenance
        if request is None:
            return one._replace(open=())
        self._works[one.uuid] = request.work
        began = work_began(one) if one.active and not request.worked else 0
        if began and one.node_name in self.cluster.nodes:
            self.hardware.reboot(one.node_name)
        work = BY_ADMIN if request.work == BY_ADMIN else f"command:{REBOOT}"
        return one._replace(open=(), maintenance=request._replace(work=work, begun=began))

    def play(self) -> Forecast:
        """Run until all incidents have ended, or nothing more is to be expected."""
        self._wake(self._next_round_in)
        rounds = 0
        try:
            while (at := self._next()) is not None and at - self._begin < _LONGEST:
                over = rounds and at > self._earliest and not self._open()
                if over or self._quiet > _QUIET:
                    break
                self._happen(at)
                rounds = self.measured.rounds
        finally:
            self._wakeup.close()
        steps = sorted(self._steps.values(), key=lambda one: (one.begun, one.node))
        return Forecast(self._begin, tuple(steps), (*self._ends.values(), *self._left()))

    def _open(self) -> bool:
        return any(one.active for one in self.store.incidents.values())

    def _left(self) -> Iterator[Outcome]:
        for one in self.store.incidents.values():
            if one.active:
                why = self._waits.get(one.uuid) or one.note
                yield Outcome(one.node_name, one.uuid, one.status, 0, why)

    # What happens

    def _notice(self, outcome: Round) -> None:
        """A person works on each node that is ready for it."""
        for one in outcome.incidents.values():
            request = one.maintenance
            if request is None or not (one.active and request.ready) or request.worked:
                continue
            if request.work == BY_ADMIN and one.uuid not in self._steps:
                now, name = self.schedule.now, one.node_name
                reason = f"a person works on {name}"
                self._steps[one.uuid] = Step(name, one.uuid, WORK, reason, now, 0)
                self.hardware.reboot(name)
                self.schedule.after(self._away, partial(self._done, one))

    @property
    def _away(self) -> float:
        """ns"""
        return self._assumed.reboot_minutes * 60 * SECOND

    def _done(self, one: Incident) -> None:
        tags = self.cluster.nodes[one.node_name].tags
        self.cluster.set_tags("node", one.node_name, {*tags, one.done_tag})
        self._wake(self._next_round_in)

    @property
    def _seen_after(self) -> float:
        # The round of a real daemon begins with a job that reads the disks under maintenance.
        return SEEN_AFTER + self._assumed.short_seconds

    def _next_after(self, changed: Round) -> float:
        # Disks are checked again before another node begins.
        ended = any(
            one.before and one.before.maintenance and one.after and not one.after.active
            for one in changed.changes
        )
        return super()._next_after(changed) + (self._seen_after if ended else 0)

    @property
    def _next_round_in(self) -> float:
        """s until the daemon acts on a person's word: half of its interval on average"""
        return self._settings.round_interval / 2 + self._assumed.short_seconds

    def _follow(self, outcome: Round) -> None:
        self._quiet += 1
        if outcome.started or outcome.changes:
            self._quiet = 0
        self._waits = {one.subject: wait_line(one) for one in outcome.held}
        for started in outcome.started:
            incident = outcome.incidents[started.incident]
            if started.task.step not in _TAGGING and outcome.world is not None:
                self._add(started.submission, started.task, incident, outcome.world.cluster)
        for change in outcome.changes:
            before, after = change.before, change.after
            if before and before.active and not (after and after.active):
                self._end(before, after, change.reason)
        for one in outcome.incidents.values():
            if one.maintenance and one.maintenance.worked:
                self._worked(one.uuid)

    def _add(self, submission: str, task: Task, incident: Incident, cluster: Cluster) -> None:
        reason = task.reason
        if task.step == WORK:
            work = self._works.get(incident.uuid, "")
            reason = f"reboot {incident.node_name} ({work})"
        moves = tuple(found for job in task.jobs for one in job if (found := _moved(one, cluster)))
        step = Step(
            incident.node_name, incident.uuid, task.step, reason, self.schedule.now, 0, moves
        )
        self._steps[submission] = step
        numbers = (one.jobs for one in incident.open if one.id == submission)
        self._jobs_of |= dict.fromkeys(next(numbers, ()), submission)

    def _job_ended(self, job: Row) -> None:
        super()._job_ended(job)
        if submission := self._jobs_of.get(job["id"]):
            self._steps[submission] = self._steps[submission]._replace(ended=self.schedule.now)

    def _worked(self, uuid: str) -> None:
        """The work on a node is known to be over."""
        for key, one in self._steps.items():
            if (one.incident, one.step, one.ended) == (uuid, WORK, 0):
                self._steps[key] = one._replace(ended=self.schedule.now)

    def _end(self, before: Incident, after: Incident | None, reason: str) -> None:
        """``after``: None: it is forgotten, because its node is healthy."""
        state, note = (after.status, after.note) if after else (FORGOTTEN, reason)
        well = after is None or after.state.succeeded
        end = Outcome(before.node_name, before.uuid, state, self.schedule.now, note, well)
        self._ends[before.uuid] = end


def _moved(operation: Operation, cluster: Cluster) -> Moved | None:
    """What an operation does to an instance; None: it moves, stops and starts none."""
    kind, name = operation["OP_ID"], operation.get("instance_name", "")
    if name not in cluster.instance_index:
        return None
    one = cluster.instances[cluster.instance_index[name]]
    if kind in MOVES:
        way = MOVES[kind]
        target = nodes_after(one.nodes, operation)[way.copies]
        return Moved(name, way.command, target, one.disk_space * way.copies)
    if kind == "OP_INSTANCE_MOVE":
        return Moved(name, "move", operation["target_node"], one.disk_space)
    word = {"OP_INSTANCE_SHUTDOWN": "shutdown", "OP_INSTANCE_STARTUP": "startup"}.get(kind)
    return Moved(name, word, "", 0) if word else None
