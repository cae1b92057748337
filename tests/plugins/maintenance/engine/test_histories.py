"""Random histories of a cluster: what must hold after each step, and that everything ends."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from maintained import CONFIG, Maintained, diagnose
from thorough import often
from worlds import changed

from ganeti_steward.plugins.maintenance.config import OBSERVE
from ganeti_steward.plugins.maintenance.engine.brake_case import is_under_repair
from ganeti_steward.plugins.maintenance.engine.decision import CommandResult, Decision, Started
from ganeti_steward.plugins.model.incident import CANCELED, FAILED
from ganeti_steward.plugins.model.task import TAG, UNTAG
from ganeti_steward.plugins.model.world import Reported

OK = diagnose("Ok")
SUSPECT = diagnose("suspect", details="disk")
OBJECTS = (
    diagnose("live-repair", command="fix-nic"),
    diagnose("live-repair"),
    diagnose("evacuate", details="fan"),
    diagnose("evacuate", details="disk"),
    diagnose("evacuate-failover", details="power"),
)
NODES = tuple(f"node{i}" for i in range(1, 6))
NODE = st.sampled_from(NODES)
PICK = st.integers(0, 1000)


class Histories(RuleBasedStateMachine):
    """A cluster to which anything happens; the daemon may die between any two writes."""

    cluster: Maintained

    @initialize(
        most=st.integers(1, 3), waiting=st.integers(1, 5), storm=st.sampled_from([0.5, 1.0, 1.0])
    )
    def begin(self, most: int, waiting: int, storm: float) -> None:
        config = CONFIG._replace(
            most_nodes=most, most_waiting=waiting, storm_share=storm, hold_time=2
        )
        self.cluster = Maintained(nodes=5, instances=6, config=config)
        self.ended: set[str] = set()
        """incidents that were canceled or have failed"""

    # What happens outside

    @rule(nodes=st.lists(NODE, min_size=1, max_size=3), original=st.sampled_from(OBJECTS))
    def nodes_fall_ill(self, nodes: list[str], original: bytes) -> None:
        for node in nodes:
            before = self.cluster.observations.get(f"uuid-{node}")
            if not (isinstance(before, Reported) and before.needs_repair):
                self.report(node, original)
        self.rounds(3)

    @rule(node=NODE, original=st.sampled_from((*OBJECTS, OK, SUSPECT)))
    def another_report(self, node: str, original: bytes) -> None:
        self.report(node, original)
        self.rounds(1)

    def report(self, node: str, original: bytes) -> None:
        if f"uuid-{node}" in self.cluster.nodes:
            self.cluster.report(node, original)

    @rule(rounds=st.integers(1, 8))
    def everything_succeeds(self, rounds: int) -> None:
        for _ in range(rounds):
            for number in self.cluster.pending_jobs():
                self.cluster.end(number)
            self.commands_end(True)
            self.rounds(1)

    @rule(node=NODE)
    def silence(self, node: str) -> None:
        self.cluster.silence(node)

    @rule(seconds=st.sampled_from([1, 10, 700]))
    def wait(self, seconds: int) -> None:
        self.cluster.wait(seconds)
        self.rounds(1)

    @rule(picks=st.lists(PICK, min_size=1, max_size=6), broken=st.integers(0, 12))
    def jobs_end(self, picks: list[int], broken: int) -> None:
        for i, pick in enumerate(picks):
            pending = self.cluster.pending_jobs()
            if pending:
                self.cluster.end(pending[pick % len(pending)], "broken" if i == broken else "")
                self.rounds(1)

    @rule(pick=PICK)
    def job_starts(self, pick: int) -> None:
        pending = self.cluster.pending_jobs()
        if pending:
            self.cluster.start(pending[pick % len(pending)])

    @rule()
    def commands_fail(self) -> None:
        self.commands_end(False)

    def commands_end(self, ok: bool) -> None:
        for submission in set(self.cluster.commands) - set(self.cluster.results):
            self.cluster.results[submission] = CommandResult(ok, "exit status")

    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        incidents = sorted(self.cluster.records.values())
        found = incidents[pick % len(incidents)] if incidents else None
        if found and found.node in self.cluster.nodes:
            self.cluster.tag(found.node.removeprefix("uuid-"), found.cancel_tag)

    @rule(pick=PICK)
    def acknowledge(self, pick: int) -> None:
        incidents = sorted(self.cluster.records.values())
        found = incidents[pick % len(incidents)] if incidents else None
        if found and found.node in self.cluster.nodes:
            self.cluster.untag(found.node.removeprefix("uuid-"), found.tag)

    @rule(node=NODE, pick=PICK)
    def node_leaves(self, node: str, pick: int) -> None:
        if pick % 20 == 0 and len(self.cluster.nodes) > 3 and node != "node1":
            self.cluster.nodes.pop(f"uuid-{node}", None)
            self.cluster.instances = {
                name: one for name, one in self.cluster.instances.items() if one.primary != node
            }

    @rule(brake=st.sampled_from(["pause", "observe"]))
    def brakes_for_a_while(self, brake: str) -> None:
        cluster, config = self.cluster, self.cluster.config
        cluster.cluster_tags = {"maintd:pause:works"} if brake == "pause" else set()
        cluster.config = config._replace(mode=OBSERVE) if brake == "observe" else config
        self.rounds(2)
        cluster.cluster_tags, cluster.config = set(), config

    # The daemon

    def rounds(self, number: int) -> None:
        for _ in range(number):
            self.round("")

    @rule(crash=st.sampled_from(["records", "submitted"]))
    def crash(self, crash: str) -> None:
        self.round(crash)
        self.round("")

    def round(self, crash: str) -> None:
        before = dict(self.cluster.records)
        under_repair = {one.node for one in before.values() if is_under_repair(one)}
        world = self.cluster.world()
        decision = self.cluster.round(crash=crash)
        repairs = [one for one in decision.started if one.task.step not in (TAG, UNTAG)]
        self._check_tasks(decision)
        for one in repairs:
            self._check_start(one, under_repair)
        for uuid, incident in before.items():
            node, after = world.nodes.get(incident.node), self.cluster.records.get(uuid)
            if node and after and incident.cancel_tag in node.tags:
                assert after.status == CANCELED, "a brake blocked a cancel"
        self.ended |= {one.uuid for one in decision.records if one.status in (CANCELED, FAILED)}

    def _check_tasks(self, decision: Decision) -> None:
        config, cluster = self.cluster.config, self.cluster
        if config.mode == OBSERVE or cluster.cluster_tags:
            assert not decision.started
        open_before = {
            name
            for uuid, one in cluster.records.items()
            for submission in one.open
            if submission.id not in {each.submission for each in decision.started}
            for name in (*submission.nodes, *submission.instances)
        }
        used: set[str] = set()
        for started in decision.started:
            names = started.task.nodes | started.task.instances
            assert not names & used, "two tasks of a round share a node or an instance"
            assert not names & open_before, "a task uses what another one still uses"
            used |= names

    def _check_start(self, started: Started, under_repair: set[str]) -> None:
        incident = self.cluster.records[started.incident]
        assert started.incident not in self.ended, "an action for a canceled or failed incident"
        if incident.node not in under_repair:
            report = self.cluster.observations[incident.node]
            assert isinstance(report, Reported), "an action without an observation"
            assert report.original == incident.original, "an action without an observation"

    @invariant()
    def at_most_so_many_nodes_are_under_repair(self) -> None:
        if hasattr(self, "cluster"):
            nodes = {one.node for one in self.cluster.records.values() if is_under_repair(one)}
            assert len(nodes) <= self.cluster.config.most_nodes

    @invariant()
    def at_most_so_many_nodes_wait_for_a_person(self) -> None:
        if hasattr(self, "cluster"):
            nodes = self.cluster.nodes.values()
            out = {one.name for one in nodes if one.drained or one.offline}
            mine = {
                name
                for one in self.cluster.records.values()
                if not one.state.handled
                for name in one.demoted
            }
            assert len(mine & out) <= self.cluster.config.most_waiting

    @invariant()
    def no_incident_is_about_a_suspicion(self) -> None:
        if hasattr(self, "cluster"):
            assert all(one.action != "suspect" for one in self.cluster.records.values())

    @invariant()
    def nothing_is_submitted_twice(self) -> None:
        if hasattr(self, "cluster"):
            seen = [(job.submission, str(job.job)) for job in self.cluster.queue.values()]
            assert len(seen) == len(set(seen))
            commands = list(self.cluster.commands)
            assert len(commands) == len(set(commands))

    def teardown(self) -> None:
        """When nothing happens any more and everything succeeds, every incident ends."""
        if not hasattr(self, "cluster"):
            return
        cluster = self.cluster
        cluster.cluster_tags = set()
        cluster.config = cluster.config._replace(
            mode="act", storm_share=1, hold_time=0, most_waiting=5
        )
        for uuid, node in list(cluster.nodes.items()):
            cluster.nodes[uuid] = changed(node, master=False)
            if isinstance(cluster.observations.get(uuid), Reported):
                continue
            cluster.report(uuid.removeprefix("uuid-"), OK)
        for _ in range(4):
            cluster.wait(700)
            cluster.run(200)
        left = [one for one in cluster.records.values() if one.open or one.active]
        assert not left, cluster.held()


Histories.TestCase.settings = settings(
    max_examples=often(30, 20_000),
    stateful_step_count=40,
)
TestHistories = Histories.TestCase


def test_the_order_of_arrival_does_not_matter() -> None:
    """The same incidents in another order of arrival end alike."""
    ends = []
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        cluster = Maintained(nodes=5, instances=6)
        reports = (("node2", OBJECTS[2]), ("node3", OBJECTS[0]), ("node4", OBJECTS[4]))
        for i in order:
            cluster.report(*reports[i])
            cluster.round()
        cluster.run(200)
        roles = {node.name: (node.offline, node.drained) for node in cluster.nodes.values()}
        found = sorted((one.node_name, one.action, one.status) for one in cluster.records.values())
        ends.append((roles, found))
    assert ends[0] == ends[1] == ends[2]
