"""A simulated cluster for the step: nodes, instances, a job queue, and records that survive.

Everything is in memory, and every job ends when the test says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from small_repair import plan
from worlds import changed, instance, node

from ganeti_steward.core.model.cluster import HYPERVISOR_FIGURES, Cluster, Group
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.plugins.maintenance.config import ACT, Maintd
from ganeti_steward.plugins.maintenance.engine.decision import (
    NEVER_CAME,
    CommandResult,
    Decision,
    Inputs,
    Lasting,
    Recent,
    Started,
)
from ganeti_steward.plugins.maintenance.engine.ledger import with_commands
from ganeti_steward.plugins.maintenance.engine.routine import RoutinePlanner, no_routine
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.maintenance.engine.tasks import Planner
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.routine import RoutineJob
from ganeti_steward.plugins.model.task import (
    Task,
)
from ganeti_steward.plugins.model.world import (
    Observation,
    Reported,
    Silent,
    World,
    diagnose_object,
)

SECOND = 10**9
CONFIG = Maintd(
    mode=ACT,
    hold_time=0,
    healthy_delay=600,
    most_nodes=1,
    storm_share=1,
    incident_pause=0,
    command_again_after=0,
)

#: They have no figures: their node daemons do not answer.
_SILENT: Any = {**dict.fromkeys(("memory", "disk", "cpus"), 0), "missing": HYPERVISOR_FIGURES}


def diagnose(status: str, **more: object) -> bytes:
    """A diagnose object in its canonical form."""
    return json.dumps({"status": status, **more}, sort_keys=True, separators=(",", ":")).encode()


class QueuedJob:
    """A job of the simulated queue."""

    def __init__(
        self, incident: str, submission: str, task: Task, job: list[Any], plugin: str = ""
    ) -> None:
        """``incident``: empty for routine work, which has a ``plugin``."""
        self.incident, self.submission, self.task, self.job = incident, submission, task, job
        self.plugin = plugin
        self.status = "queued"
        self.error = ""


class Maintained:
    """The cluster, what nodes report, and the records; `round` runs one step and acts on it."""

    def __init__(self, nodes: int = 4, instances: int = 4, config: Maintd = CONFIG) -> None:
        names = [f"node{i}" for i in range(1, nodes + 1)]
        self.config = config
        self.planner: Planner = plan
        self.now = 1_700_000_000 * SECOND
        self.nodes = {
            f"uuid-{name}": changed(
                node(name, **_SILENT), uuid=f"uuid-{name}", group="group", master=name == "node1"
            )
            for name in names
        }
        homes = {f"inst{i}": names[1 + i % (nodes - 1)] for i in range(instances)}
        self.instances = {name: instance(name, home) for name, home in homes.items()}
        self.groups: dict[str, Group] = {}
        self.cluster_tags: set[str] = set()
        self.observations: dict[str, Observation] = {}
        self.records: dict[str, Incident] = {}
        self.queue: dict[int, QueuedJob] = {}
        self.results: dict[str, CommandResult] = {}
        self.commands: dict[str, tuple[str, str]] = {}
        """submission id -> node and command"""
        self.found: dict[str, tuple[int, ...]] = {}
        self.decisions: list[Decision] = []
        self.polling = True
        self.routine: RoutinePlanner = no_routine
        self.since: Mapping[str, Lasting] = {}
        self.recent = Recent()
        self.calls_known = True

    # What happens outside

    def name(self, node: str) -> str:
        return self.nodes[f"uuid-{node}"].name

    def report(self, node: str, original: bytes) -> None:
        data = diagnose_object(original)
        self.observations[f"uuid-{node}"] = Reported(
            original, data["status"], data.get("command", ""), self.now
        )

    def silence(self, node: str) -> None:
        self.observations[f"uuid-{node}"] = Silent(self.now, "no connection")

    def change(self, node: str, **facts: Any) -> None:
        uuid = f"uuid-{node}"
        self.nodes[uuid] = changed(self.nodes[uuid], **facts)

    def tag(self, node: str, tag: str) -> None:
        self.change(node, tags=(*self.nodes[f"uuid-{node}"].tags, tag))

    def untag(self, node: str, tag: str) -> None:
        self.change(node, tags=tuple({*self.nodes[f"uuid-{node}"].tags} - {tag}))

    def wait(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)

    # The daemon

    def world(self) -> World:
        return World(
            self.now,
            Cluster(
                self.groups.values(),
                self.nodes.values(),
                self.instances.values(),
                sorted(self.cluster_tags),
            ),
            incidents=dict(self.records),
            observations={uuid: self._polled(one) for uuid, one in self.observations.items()},
            routine=tuple(self._routine_jobs()),
        )

    def _routine_jobs(self) -> Iterable[RoutineJob]:
        """What the queue shows of routine work; here a job is kept for ever."""
        for number, job in self.queue.items():
            if not job.incident:
                yield RoutineJob(
                    number,
                    job.plugin,
                    job.task.step,
                    job.task.subject,
                    tuple(sorted(job.task.nodes)),
                    tuple(sorted(job.task.instances)),
                    status=job.status,
                    error=job.error,
                )

    def _polled(self, found: Observation) -> Observation:
        """What the last poll has shown: agents that answer report the present."""
        if isinstance(found, Reported) and self.polling:
            return found._replace(at=self.now)
        return found

    def inputs(self) -> Inputs:
        jobs = {
            number: JobState(number, job.status, job.error) for number, job in self.queue.items()
        }
        return Inputs(
            self.world(),
            jobs,
            dict(self.results),
            dict(self.found),
            calls_known=self.calls_known,
            since=self.since,
            recent=self.recent,
        )

    def decide(self) -> Decision:
        return step(self.inputs(), self.config, self.planner, self.routine)

    def round(self, *, crash: str = "") -> Decision:
        """One round; ``crash``: where the daemon dies: "records", "submitted" or "" for nowhere."""
        self.wait(1)
        decision = self.decide()
        self.decisions.append(decision)
        self.since, self.recent = decision.since, decision.recent
        self.found = {}
        for incident in decision.records:
            self.records[incident.uuid] = incident
        for uuid in decision.removed:
            del self.records[uuid]
        if crash == "records":
            self._restart()
            return decision
        numbers = {one.submission: self._submit(one) for one in decision.started}
        for each in decision.routine:
            self._queued("", each.submission, each.task, each.plugin)
        if crash == "submitted":
            self._restart()
            return decision
        for one in decision.started:
            self._record(one, numbers[one.submission])
        self.recent = with_commands(self.recent, decision.started, self.records, self.now)
        for number in decision.cancels:
            job = self.queue[number]
            job.status = "canceled" if job.status in ("queued", "waiting") else job.status
        return decision

    def _submit(self, started: Started) -> tuple[int, ...]:
        task = started.task
        if task.command:
            incident = self.records[started.incident]
            self.commands[started.submission] = (task.agent or incident.node_name, task.command)
        return self._queued(started.incident, started.submission, task)

    def _queued(
        self, incident: str, submission: str, task: Task, plugin: str = ""
    ) -> tuple[int, ...]:
        numbers = []
        for job in task.jobs:
            number = len(self.queue) + 1
            self.queue[number] = QueuedJob(incident, submission, task, list(job), plugin)
            numbers.append(number)
        return tuple(numbers)

    def _record(self, started: Started, numbers: tuple[int, ...]) -> None:
        incident = self.records[started.incident]
        opened = tuple(
            one._replace(jobs=numbers) if one.id == started.submission else one
            for one in incident.open
        )
        self.records[incident.uuid] = incident._replace(
            jobs=(*incident.jobs, *numbers), open=opened
        )

    def _restart(self) -> None:
        """What a new daemon finds out about submissions whose jobs were not recorded.

        It has forgotten all that is not recorded.

        The agents know their commands: those that they got run on.
        """
        self.recent = Recent()
        for incident in self.records.values():
            for one in incident.open:
                if one.command and one.id not in self.commands:
                    self.results[one.id] = CommandResult(False, "it never came", NEVER_CAME)
                elif not one.command and not one.jobs:
                    self.found[one.id] = tuple(
                        number for number, job in self.queue.items() if job.submission == one.id
                    )

    # The job queue

    def pending_jobs(self) -> list[int]:
        return [n for n, job in self.queue.items() if job.status in ("queued", "running")]

    def start(self, number: int) -> None:
        if self.queue[number].status == "queued":
            self.queue[number].status = "running"

    def end(self, number: int, error: str = "") -> None:
        """A job ends; what it does is done unless it fails."""
        job = self.queue[number]
        job.status, job.error = ("error", error) if error else ("success", "")
        for operation in () if error else job.job:
            self._operate(operation)

    def _operate(self, operation: Mapping[str, Any]) -> None:
        kind = operation["OP_ID"]
        if kind == "OP_INSTANCE_MIGRATE":
            name, target = operation["instance_name"], operation["target_node"]
            if name in self.instances:
                self.instances[name] = self.instances[name]._replace(nodes=(target,))
            return
        if operation.get("kind") == "instance":
            one, tags = self.instances[operation["name"]], operation["tags"]
            left = [tag for tag in one.tags if tag not in tags]
            self.instances[one.name] = one._replace(
                tags=(*left, *(tags if kind == "OP_TAGS_SET" else ()))
            )
            return
        uuid = next(
            (
                uuid
                for uuid, node in self.nodes.items()
                if node.name == (operation.get("node_name") or operation.get("name"))
            ),
            None,
        )
        if uuid is None:
            return
        node = self.nodes[uuid]
        if kind == "OP_TAGS_SET":
            node = node._replace(tags=(*node.tags, *operation["tags"]))
        elif kind == "OP_TAGS_DEL":
            node = node._replace(tags=tuple({*node.tags} - {*operation["tags"]}))
        elif operation.get("offline"):
            node = node._replace(offline=True, drained=False)
        else:
            node = node._replace(drained=True)
        self.nodes[uuid] = node

    def run(self, rounds: int = 60) -> None:
        """Rounds in which every job and command succeeds, until nothing changes."""
        for _ in range(rounds):
            before = dict(self.records)
            self.round()
            ended = self.pending_jobs()
            for number in ended:
                self.end(number)
            waiting = set(self.commands) - set(self.results)
            for submission in waiting:
                self.results[submission] = CommandResult(True, "exit status 0")
            if not (ended or waiting) and before == self.records:
                return

    # What tests look at

    def incident(self, node: str, action: str = "") -> Incident:
        (found,) = (
            one
            for one in self.records.values()
            if one.node == f"uuid-{node}" and one.action.endswith(action)
        )
        return found

    def held(self) -> dict[str, str]:
        """Brake -> sentence, of the last round."""
        return {one.brake: one.sentence for one in self.decisions[-1].held}


EVACUATE = diagnose("evacuate", details="fan")
WORSE = diagnose("evacuate-failover", details="fan and power")
REPAIR = diagnose("live-repair", command="fix-nic")
OK = diagnose("Ok")


def evacuating(config: Maintd = CONFIG, node: str = "node2") -> Maintained:
    """One node reports evacuate, and one round has passed."""
    cluster = Maintained(config=config)
    cluster.report(node, EVACUATE)
    cluster.round()
    return cluster
