"""Judges jobs by what their operations do, when a daemon hands them over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from fault_world.checks.effects import Effect, changes, effects_of, only_tags
from fault_world.checks.seen import repaired
from fault_world.checks.tasks import OwnJob, Tasks, nanoseconds
from fault_world.checks.texts import shown, texts
from fault_world.clock import SECOND
from ganeti_steward.core.model.finding import EVACUATE_FAILOVER
from ganeti_steward.plugins.maintenance.queue.submit import SUBMISSION_SOURCE
from ganeti_steward.plugins.model.incident import DEAD, JOB_SOURCE, STOPPED_TAG
from ganeti_steward.plugins.model.routine import ROUTINE_SOURCE

if TYPE_CHECKING:
    from fault_world.checks.answers import Answers
    from fault_world.checks.seen import Seen
    from fault_world.daemon import Daemon
    from fault_world.world import World

Operation = Mapping[str, Any]
Require = Callable[[str, bool, str], None]

#: Seconds for which disks have to have been good before it counts that they were: they are queried
#: by jobs, and what these found is used for a while.
_GOOD_FOR: Final = 180.0
#: MiB that placement leaves for a node itself with the hypervisor kvm, whatever it needs.
_NODE_MEMORY: Final = 4096
#: ns after which all that daemons know of a node was reported since only the master lost it.
_LONG: Final = 400 * SECOND
#: As many jobs that have ended are kept.
_KEPT: Final = 50


class Jobs:
    """The jobs of the daemons of one world."""

    def __init__(self, world: World, require: Require) -> None:
        self._world, self._require = world, require
        self._handed_over: Counter[str] = Counter()
        """id of a submission -> how many calls have handed it over"""
        self._open: list[OwnJob] = []
        self._ended: list[OwnJob] = []
        """the last ones that have ended"""
        self._reports: dict[str, int] = {}
        """node -> when its agent last reported a fault"""
        self._grounds: dict[str, bool] = {}
        """incident -> whether its node had reported a fault when the repair was begun"""
        self._good: dict[str, int] = {}
        """instance -> since when daemons can see that both copies are good, on the same nodes"""
        self._off: set[str] = set()
        """names of the nodes that are off by the tag of a person, when they were seen last"""
        self._unseen_since: set[str] = set()
        """those of them that no daemon has seen answer since"""
        self._tasks = Tasks(world, require)
        self._out: dict[str, str] = {}
        """node -> the incident for which it was taken out of service"""

    # What is known

    def reported(self, node: str) -> None:
        """The agent of a node reports a fault."""
        self._reports[node] = self._world.clock.now

    def saw(self, seen: Seen) -> None:
        """A daemon has read the cluster."""
        self._good = {name: self._good.get(name, seen.at) for name in seen.good}
        ganeti = self._world.ganeti
        off = {row["name"] for row in ganeti.nodes if _is_off_by_word(row["tags"])}
        self._unseen_since = {
            name
            for name in off & {*self._unseen_since, *off - self._off}
            if not ganeti.answers(name)
        }
        self._off = off

    @property
    def open(self) -> list[OwnJob]:
        """Those that have not ended."""
        luxid = self._world.luxid
        ended = {number for number, row in luxid.queue.rows.items() if row["end_ts"]}
        ended |= luxid.never_stored | luxid.purged.keys()
        self._ended += [one for one in self._open if one.number in ended]
        del self._ended[:-_KEPT]
        self._open = [one for one in self._open if one.number not in ended]
        return self._open

    def _unseen(self, seen: Seen) -> list[OwnJob]:
        """Those that have ended since a daemon began to read the cluster: it cannot see it."""
        rows = ((one, self._world.luxid.job(one.number)) for one in self._ended)
        return [one for one, row in rows if row and nanoseconds(row["end_ts"]) > seen.at]

    # Submissions

    def submitted(
        self, numbers: Sequence[int], jobs: Sequence[Sequence[Operation]], caller: Daemon
    ) -> None:
        """A daemon hands jobs over."""
        seen = caller.seen
        acting = [(one, job) for one, job in zip(numbers, jobs, strict=True) if _changes(job)]
        if not acting:
            return
        if seen is None:
            self._require("recorded-first", False, "jobs before the cluster was read")
            return
        own = [self._own(number, job) for number, job in acting]
        self._announced([number for number, _ in acting], [job for _, job in acting])
        self._require("paused", not seen.paused, shown(acting[0][1]))
        for one, (_, job) in zip(own, acting, strict=True):
            if one.acts and one.incident and _is_work(job):
                self._world.checks.canceled.begins(one.incident, shown(job))
            self._judge(one, job, seen)
            self._copies(one, job, seen, caller.answers)
        for submission in dict.fromkeys(one.submission for one in own if one.incident):
            parts = [at for at, one in enumerate(own) if one.submission == submission]
            self._tasks.begun([own[at] for at in parts], [acting[at][1] for at in parts])
        self._memory([job for _, job in acting], seen)
        if any(one.incident and one.acts and self._is_new(one, caller) for one in own):
            self._world.checks.begun.is_no_storm(caller.answers, seen)
        self._limits(own)

    def _is_new(self, own: OwnJob, caller: Daemon) -> bool:
        """Whether the round that decided on a job is the last one that has looked at reports."""
        record = self._world.checks.records.get(own.incident, {})
        at = next((one["at"] for one in record.get("open", ()) if one["id"] == own.submission), 0)
        return at >= caller.answers.observed_at

    def _own(self, number: int, job: Sequence[Operation]) -> OwnJob:
        found = texts(job)
        incident = found.get(JOB_SOURCE, "") if SUBMISSION_SOURCE in found else ""
        submission = found.get(SUBMISSION_SOURCE, "")
        checks = self._world.checks
        record = checks.records.get(incident) or checks.former.get(incident, {})
        step = next((one["step"] for one in record.get("open", ()) if one["id"] == submission), "")
        node = record.get("node_name", "")
        names = frozenset(op["instance_name"] for op in job if op.get("instance_name"))
        acts = not all(map(only_tags, job))
        return OwnJob(
            number, incident, submission, step, node, names, self._nodes(job, names), acts
        )

    def _nodes(self, job: Sequence[Operation], instances: frozenset[str]) -> frozenset[str]:
        """The nodes that a job changes, and those of its instances."""
        ganeti = self._world.ganeti
        rows = [ganeti.instance(name) for name in instances if ganeti.has_instance(name)]
        effects = effects_of(job, ganeti)
        named = {op["node_name"] for op in job if op.get("node_name")}
        targets = {one.target for one in effects if one.target}
        return frozenset(named.union(targets, *((row["pnode"], *row["snodes"]) for row in rows)))

    def _announced(self, numbers: Sequence[int], jobs: Sequence[Sequence[Operation]]) -> None:
        """Each submission is in a record, and handed over for the first time."""
        ids = {}
        for job in jobs:
            found = texts(job)
            known = SUBMISSION_SOURCE in found or ROUTINE_SOURCE in found
            self._require("recorded-first", known, f"nothing announces {shown(job)}")
            if SUBMISSION_SOURCE in found:
                ids[found[SUBMISSION_SOURCE]] = found.get(JOB_SOURCE, "")
        for number, job in zip(numbers, jobs, strict=True):
            if submission := texts(job).get(SUBMISSION_SOURCE):
                self._world.checks.results.handed_over(submission, [number])
        for submission, incident in ids.items():
            self._handed_over[submission] += 1
            times = self._handed_over[submission]
            self._require("submitted-once", times == 1, f"submission {submission} twice")
            checks = self._world.checks
            announced = [one["id"] for one in checks.records.get(incident, {}).get("open", ())]
            # A person may have deleted the record since it was written.
            gone = incident in checks.deleted and submission in checks.announced
            text = f"the record of {incident} does not announce {submission}"
            self._require("recorded-first", gone or submission in announced, text)

    def _judge(self, own: OwnJob, job: Sequence[Operation], seen: Seen) -> None:
        for one in self.open:
            both = sorted(one.instances & own.instances)
            self._require("one-task", not both, f"{both} in jobs {one.number} and {own.number}")
        self._tasks.judge(own, job, seen, [*self._open, *self._unseen(seen)])
        self._open.append(own)
        effects = effects_of(job, self._world.ganeti)
        for operation, effect in zip(job, effects, strict=True):
            text = shown([operation])
            touched = {*effect.out, effect.instance, effect.target}
            self._require("opted-out", touched.isdisjoint(seen.excluded), text)
            self._require("master-kept", effect.out.isdisjoint(seen.masters), text)
            if operation.get("offline"):
                self._set_offline(operation["node_name"], seen, text)
            self._target(own, effect, seen, text)
            self._out_of_service(own, effect, seen, text)

    def _set_offline(self, node: str, seen: Seen, text: str) -> None:
        """A node that runs is set offline when nothing on it can be moved any more."""
        running = sorted(name for name, where in seen.runs if where == node)
        runs = node not in self._world.ganeti.off
        # A person has switched it off; whether it is on again no daemon has seen.
        known = node not in self._unseen_since
        self._require("emptied", not (runs and running and known), f"{text}: {running} run on it")

    def begun(self, incident: str, record: Mapping[str, Any], seen: Seen) -> None:
        """A daemon has recorded that a repair is begun: whether its node reports a fault."""
        if incident in self._grounds:
            return
        settings = self._world.settings
        life = settings.report_max_age + 2 * settings.poll_interval + settings.poll_time_limit
        last = self._reports.get(record["node_name"])
        limit = (life + self._world.jumped) * SECOND
        recent = last is not None and seen.at - last <= limit
        confirmed = incident in seen.confirmed
        requested = incident in self._world.checks.requested
        # That nothing of it has answered is judged when the repair is begun.
        dead = record["action"] == DEAD
        self._grounds[incident] = recent or confirmed or requested or dead

    def _target(self, own: OwnJob, effect: Effect, seen: Seen, text: str) -> None:
        target = effect.target
        if effect.instance in self._moved(seen):
            # Others have moved it since the cluster was read: it would go elsewhere.
            return
        # The round that hands it over may have ended an incident itself, before.
        ill = seen.repaired & repaired(self._world.checks.known()) - {own.node}
        bad = target in seen.out or target in ill
        which = "out of service" if target in seen.out else "with an incident"
        self._require("target-healthy", not (target and bad), f"{text}: {target} is {which}")

    def _moved(self, seen: Seen) -> set[str]:
        """Names of the instances that have another primary than the daemon could see."""
        rows = self._world.ganeti.instances
        return {row["name"] for row in rows if seen.primaries.get(row["name"]) != row["pnode"]}

    def _seen_by_others(self, node: str) -> bool:
        """Whether for long only the master has not reached a node, and other candidates do."""
        world, master = self._world, self._world.ganeti.master
        since = world.cut_paths.get(frozenset({node, master}))
        witnesses = [
            row["name"]
            for row in world.ganeti.nodes
            if row["master_candidate"] and not row["offline"] and row["name"] not in (node, master)
        ]
        reached = any(world.reach(one, node) for one in witnesses)
        return reached and since is not None and world.clock.now - since > _LONG

    def _out_of_service(self, own: OwnJob, effect: Effect, seen: Seen, text: str) -> None:
        if not effect.out:
            return
        grounds = effect.out == {own.node} and self._grounds.get(own.incident, False)
        self._require("reported", grounds, text)
        record = self._world.checks.records.get(own.incident, {})
        by_itself = record.get("action") in (EVACUATE_FAILOVER, DEAD)
        switched = self._world.settings.fence != "off" and by_itself
        if effect.powered and by_itself and self._world.settings.fence == "confirm":
            permitted = own.incident in seen.permitted
            self._require("dead", permitted, f"{text}, which no person has permitted")
        if effect.powered and record.get("action") == DEAD:
            linked = self._world.ganeti.linked(own.node)
            self._require("dead", not linked, f"{text} while DRBD of it is connected to {linked}")
            self._require("dead", not self._seen_by_others(own.node), f"{text}, which others reach")
        if effect.powered and (record.get("maintenance") or {}).get("work") == "power":
            self._world.checks.reboots.requested(own.node, seen)
            switched = True
        self._require("reported", switched or not effect.powered, text)
        size = self._world.ganeti.info["candidate_pool_size"]
        lost = effect.out & seen.pool.candidates
        few = bool(lost) and not seen.pool.enough_without(lost, size)
        self._require("candidates", not few, f"{text} leaves the master alone")
        new, waiting = effect.out - seen.out, {*self._waiting(own), *effect.out}
        most = self._world.settings.most_waiting
        text = f"{sorted(waiting)} are out of service"
        self._require("limits", not new or len(waiting) <= most, text)
        self._out |= dict.fromkeys(effect.out, own.incident)

    def _waiting(self, own: OwnJob) -> list[str]:
        """Nodes that were taken out of service, until a person knows: for a repair by repairs."""
        checks, rows = self._world.checks, self._world.ganeti.nodes
        nodes = {row["name"] for row in rows if row["drained"] or row["offline"]}
        self._out = {
            node: incident
            for node, incident in self._out.items()
            if checks.records.get(incident, {}).get("status") in ("pending", "completed", "failed")
            and not (checks.records[incident].get("acknowledged") or incident in checks.deleted)
            and node in nodes
        }
        requested = checks.requested if not self._planned(own) else set()
        return [node for node, incident in self._out.items() if incident not in requested]

    def _copies(self, own: OwnJob, job: Sequence[Operation], seen: Seen, answers: Answers) -> None:
        """An instance on an ill node leaves by its good copy, which is not given up first."""
        if job[0].get("mode") != "replace_new_secondary":
            return
        name = job[0]["instance_name"]
        since, nodes = self._good.get(name), seen.secondaries.get(name)
        if since is None or nodes is None or seen.at - since < _GOOD_FOR * SECOND:
            return
        primary, secondary = nodes
        record = self._world.checks.records.get(own.incident, {})
        if any(one["instance"] == name and one["tried"] for one in record.get("attempts", ())):
            # It could not be moved there: another node is tried.
            return
        # Nodes whose incidents the same round may have ended, or begun.
        all_repaired = seen.was_repaired | repaired(self._world.checks.records)
        reported = {node for node, one in answers.observed.items() if one.is_ill}
        unfit = all_repaired | seen.out | seen.ill | seen.excluded | reported
        takes = secondary not in unfit and self._has_room(secondary, name)
        left = primary == own.node and takes
        text = f"{name} stays on {primary} and its good copy on {secondary} is given up"
        self._require("copies-kept", not left, text)

    def _has_room(self, node: str, name: str) -> bool:
        """Whether a node has the memory of an instance left, where all of its own are started."""
        ganeti = self._world.ganeti
        rows = [row for row in ganeti.instances if row["pnode"] == node]
        needed = sum(row["beparams"]["maxmem"] for row in (*rows, ganeti.instance(name)))
        return bool(needed < ganeti.node(node)["mtotal"] - _NODE_MEMORY)

    def _memory(self, jobs: Sequence[Sequence[Operation]], seen: Seen) -> None:
        """All that is moved to a node has room there."""
        ganeti, more = self._world.ganeti, Counter[str]()
        for effect in (one for job in jobs for one in effects_of(job, ganeti)):
            if effect.runs and effect.target and ganeti.has_instance(effect.instance):
                row = ganeti.instance(effect.instance)
                if row["admin_state"] == "up" and row["pnode"] != effect.target:
                    more[effect.target] += row["beparams"]["maxmem"]
        for node, memory in more.items():
            text = f"{memory} MiB more on {node}"
            self._require("target-healthy", memory <= seen.memory.get(node, memory), text)

    def _limits(self, own: Sequence[OwnJob]) -> None:
        # Of a record that people have deleted the daemon does not know for whom its jobs are.
        repairs = [one for one in self.open if one.incident not in self._world.checks.deleted]
        acts = any(one.acts and one.node for one in own)
        for planned in (False, True):
            nodes = {one.node for one in repairs if one.acts and self._planned(one) == planned}
            text = f"jobs of {'maintenances' if planned else 'repairs'} of {sorted(nodes)} run"
            few = len(nodes - {""}) <= self._world.settings.most_nodes
            self._require("limits", not acts or few, text)

    def _planned(self, own: OwnJob) -> bool:
        """Whether a job is one of a maintenance that a person has requested."""
        return own.incident in self._world.checks.requested


def _is_work(job: Sequence[Operation]) -> bool:
    """Whether a job is part of a repair; volumes that it has closed are opened after its end."""
    return all(one["OP_ID"] != "OP_NODE_MODIFY_STORAGE" for one in job)


def _is_off_by_word(tags: Sequence[str]) -> bool:
    return any(tag.startswith(STOPPED_TAG) for tag in tags)


def _changes(job: Sequence[Operation]) -> bool:
    return any(map(changes, job))
