"""What plugins may not do, whatever action the incident has and whatever a step is called."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import pytest
from maintained import CONFIG, EVACUATE, OK, REPAIR, WORSE, Maintained
from worlds import group, node, uuid_of

from ganeti_steward.allocators.jobs.operations import failover, migrate
from ganeti_steward.core.model.cluster import Cluster, Node
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.effects import effects_of
from ganeti_steward.plugins.maintenance.engine.brake_case import RepairCase
from ganeti_steward.plugins.maintenance.engine.decision import Decision, PluginPlan
from ganeti_steward.plugins.maintenance.engine.effect_brakes import BY_EFFECTS, facts_of
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.operations import set_role, set_tags
from ganeti_steward.plugins.model.task import Task
from ganeti_steward.plugins.model.world import World

STEPS: Final = ("fix", "move", "tag", "untag", "open-volume", "drain")


def op(name: str, /, **more: Any) -> dict[str, Any]:
    return {"OP_ID": f"OP_{name}", **more}


def task(*job: dict[str, Any], nodes: str = "", instances: str = "", step: str = "fix") -> Task:
    names = frozenset(nodes.split()), frozenset(instances.split())
    return Task(step, *names, "fix it", [list(job)], subject="thing")


class Cluster4(Maintained):
    """Four nodes that all report Ok; inst0 runs on node2, inst1 on node3, inst2 on node4."""

    def __init__(self, **config: Any) -> None:
        super().__init__(nodes=4, instances=3, config=CONFIG._replace(**config))
        for number in (1, 2, 3, 4):
            self.report(f"node{number}", OK)

    def repaired(self, plan: Task, report: bytes = REPAIR, node: str = "node2") -> Decision:
        """A round in which a plugin plans this for an incident."""
        self.report(node, report)
        return self.planned(plan)

    def planned(self, plan: Task) -> Decision:
        self.planner = lambda incident, world: [PluginPlan("plugin", plan)]
        return self.round()

    def routinely(self, plan: Task) -> Decision:
        """A round in which a plugin of routine work plans this."""
        self.config = self.config._replace(routine=("plugin",))
        self.routine = lambda name, world: [plan]
        return self.round()


DANGERS: Final = {
    "power-cycled": op("NODE_POWERCYCLE", node_name="NODE"),
    "out of band": op("OOB_COMMAND", node_names=["NODE"], command="power-off"),
    "drained": set_role("NODE", "drained"),
    "offline": set_role("NODE", "offline"),
    "removed": op("NODE_REMOVE", node_name="NODE"),
    "no vm": op("NODE_SET_PARAMS", node_name="NODE", vm_capable=False),
    "a program": op("RESTRICTED_COMMAND", nodes=["NODE"], command="x"),
}


def danger(name: str, node: str) -> dict[str, Any]:
    return {
        key: node if value == "NODE" else [node] if value == ["NODE"] else value
        for key, value in DANGERS[name].items()
    }


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", DANGERS)
def test_the_master_keeps_role_and_power(name: str, step: str) -> None:
    cluster = Cluster4()
    plan = task(danger(name, "node1"), nodes="node1", step=step)
    decision = cluster.repaired(plan, node="node1")
    assert (decision.started, set(cluster.held())) == ((), {"master"})
    assert "node1 is the master" in cluster.held()["master"]
    assert cluster.repaired(plan._replace(nodes=frozenset({"node1", "node2"}))).started == ()
    other = Cluster4()
    assert (other.routinely(plan).routine, set(other.held())) == ((), {"master"})


@pytest.mark.parametrize("name", DANGERS)
def test_other_nodes_are_named_observed_and_not_excluded(name: str) -> None:
    def held(*, nodes: str = "node2 node3", **more: Any) -> set[str]:
        cluster = Cluster4()
        for each, facts in more.items():
            cluster.change(each, **facts)
        if not more:
            cluster.silence("node3")
        plan = task(danger(name, "node3"), nodes=nodes, instances="inst1")
        decision = cluster.repaired(plan)
        found = set(cluster.held())
        assert bool(decision.started) != bool(found)
        other = Cluster4()
        other.nodes, other.observations = cluster.nodes, {**cluster.observations}
        other.report("node2", OK)
        assert bool(other.routinely(plan).routine) != bool(found)
        assert not found or set(other.held()) == found
        return found

    assert held(node4={"tags": frozenset({"x"})}) == set()
    assert held() == {"silent"}
    assert held(node3={"tags": frozenset({"maintd:off"})}) == {"opt-out"}
    assert held(nodes="node2", node4={}) == {"not-named"}


def test_a_node_group_that_is_excluded() -> None:
    cluster = Cluster4()
    cluster.groups["other"] = group("other", "other", ["maintd:off"])
    cluster.change("node3", group="other")
    cluster.repaired(task(set_role("node3", "drained"), nodes="node2 node3"))
    assert cluster.held() == {
        "opt-out": "node group other has the tag maintd:off; held: fix it",
    }


def test_the_power_of_a_silent_node_with_a_live_repair() -> None:
    """It may be fine.  An evacuation that has begun goes on."""
    plan = task(op("NODE_POWERCYCLE", node_name="node2"), nodes="node2", instances="inst0")
    for report, held in ((REPAIR, {"silent"}), (WORSE, set[str]())):
        cluster = Cluster4()
        cluster.repaired(task(op("TEST_DELAY", duration=1), nodes="node2"), report)
        cluster.end(1)
        cluster.silence("node2")
        assert bool(cluster.planned(plan).started) != bool(held)
        assert set(cluster.held()) == held


@pytest.mark.parametrize(
    "operation",
    [
        migrate("inst1", "node4"),
        failover("inst1", "node4"),
        op("INSTANCE_SHUTDOWN", instance_name="inst1"),
        op("INSTANCE_REBOOT", instance_name="inst1"),
        op("INSTANCE_REPLACE_DISKS", instance_name="inst1"),
        op("INSTANCE_REMOVE", instance_name="inst1"),
        op("NODE_EVACUATE", node_name="node3", mode="all"),
        op("NODE_POWERCYCLE", node_name="node3"),
    ],
    ids=lambda one: one["OP_ID"],
)
def test_instances_are_named_and_not_excluded(operation: dict[str, Any]) -> None:
    nodes = "node2 node3 node4"
    for instances, tags, held in (
        ("inst1", frozenset[str](), set[str]()),
        ("", frozenset[str](), {"not-named"}),
        ("inst1", frozenset({"maintd:off"}), {"opt-out"}),
    ):
        cluster = Cluster4()
        cluster.instances["inst1"] = cluster.instances["inst1"]._replace(tags=tags)
        plan = task(operation, nodes=nodes, instances=instances)
        assert bool(cluster.repaired(plan).started) != bool(held)
        assert set(cluster.held()) == held
        other = Cluster4()
        other.instances = cluster.instances
        assert bool(other.routinely(plan).routine) != bool(held)
        assert set(other.held()) == held


def test_targets_are_named_and_not_excluded() -> None:
    plan = task(migrate("inst1", "node4"), nodes="node2 node3 node4", instances="inst1")
    for nodes, tags, held in (
        ("node2 node3 node4", frozenset[str](), set[str]()),
        ("node2 node3", frozenset[str](), {"not-named"}),
        ("node2 node4", frozenset[str](), {"not-named"}),
        ("node2 node3 node4", frozenset({"maintd:off"}), {"opt-out"}),
    ):
        for routine in (False, True):
            cluster = Cluster4()
            cluster.change("node4", tags=tags)
            mine = plan._replace(nodes=frozenset(nodes.split()))
            if routine:
                assert bool(cluster.routinely(mine).routine) != bool(held)
            else:
                assert bool(cluster.repaired(mine).started) != bool(held)
            assert set(cluster.held()) == held


@pytest.mark.parametrize("name", ["CLUSTER_DESTROY", "CLUSTER_SET_PARAMS", "NEW_IN_4_0"])
def test_what_affects_the_whole_cluster_or_is_unknown(name: str) -> None:
    cluster = Cluster4()
    plan = task(op(name), nodes="node2")
    assert cluster.repaired(plan).started == ()
    sentence = f"OP_{name} affects the whole cluster, or what it does is not known; held: fix it"
    assert cluster.held() == {"whole-cluster": sentence}
    other = Cluster4()
    assert (other.routinely(plan).routine, other.held()) == ((), cluster.held())


@pytest.mark.parametrize(
    "operation",
    [
        set_tags("node", "node2", ["maintd:stopped:uuid-node2"]),
        op("TAGS_DEL", kind="cluster", name=None, tags=["maintd:pause:works"]),
        op("TAGS_DEL", kind="node", name="node3", tags=["maintd:off"]),
        set_tags("cluster", "", ["maintd:approve:7"]),
    ],
)
def test_tags_that_are_the_word_of_a_person(operation: dict[str, Any]) -> None:
    cluster = Cluster4()
    assert cluster.repaired(task(operation, nodes="node2")).started == ()
    assert set(cluster.held()) == {"person"}
    other = Cluster4()
    assert (other.routinely(task(operation)).routine, set(other.held())) == ((), {"person"})
    assert other.routinely(task(set_tags("node", "node2", ["mine"]))).routine


def test_a_step_called_tag_is_no_tag() -> None:
    """Tags pass the windows, whatever else is called so does not."""
    closed = Cluster4(windows=("Mon 00:00-00:01",))
    plan = task(failover("inst1"), nodes="node3", instances="inst1", step="tag")
    assert (closed.routinely(plan).routine, set(closed.held())) == ((), {"window"})


# Instances that may run twice

STARTS: Final = {
    "failover": failover("inst1", "node4"),
    "migrate": migrate("inst1", "node4"),
    "evacuate": op("NODE_EVACUATE", node_name="node3", mode="all", remote_node="node4"),
    "group": op("GROUP_EVACUATE", group_name="group"),
    "recreate": op("INSTANCE_RECREATE_DISKS", instance_name="inst1", iallocator="hail"),
    "new primary": op("INSTANCE_SET_PARAMS", instance_name="inst1", pnode="node4"),
    "import": op("INSTANCE_CREATE", instance_name="inst1", mode="import", pnode="node4"),
    "remove": op("INSTANCE_REMOVE", instance_name="inst1", ignore_failures=True),
    "move": op("INSTANCE_MOVE", instance_name="inst1", target_node="node4"),
    "other group": op("INSTANCE_CHANGE_GROUP", instance_name="inst1"),
}
SENTENCE: Final = (
    "node3 is offline, and whether inst1 still runs there is not known: nothing is started "
    "elsewhere before it is confirmed to be off; gnt-node add-tags node3 maintd:stopped:{}"
)


@pytest.mark.parametrize("name", STARTS)
def test_nothing_is_started_a_second_time(name: str) -> None:
    everything = "inst0 inst1 inst2" if name == "group" else "inst1"
    plan = task(STARTS[name], nodes="node1 node2 node3 node4", instances=everything)
    for routine in (False, True):
        cluster = Cluster4()
        cluster.change("node3", offline=True)

        def started(cluster: Cluster4 = cluster, routine: bool = routine) -> bool:
            if routine:
                return bool(cluster.routinely(plan).routine)
            return bool(cluster.repaired(plan, EVACUATE).started)

        assert not started()
        assert cluster.held() == {"stopped": SENTENCE.format("uuid-node3")}
        cluster.tag("node3", "maintd:stopped:uuid-node2")
        assert not started(), "the tag of another node"
        cluster.tag("node3", "maintd:stopped:uuid-node3")
        assert started()


def test_the_incident_of_the_node_is_in_the_sentence() -> None:
    cluster = Cluster4()
    cluster.change("node3", offline=True)
    plan = task(STARTS["failover"], nodes="node3 node4", instances="inst1")
    assert not cluster.repaired(plan, WORSE, "node3").started
    incident = cluster.incident("node3")
    assert cluster.held() == {"stopped": SENTENCE.format(incident.uuid)}
    cluster.tag("node3", f"maintd:stopped:{incident.uuid}")
    assert cluster.planned(plan).started


def test_the_out_of_band_program_confirms_for_ten_minutes() -> None:
    cluster = Cluster4()
    cluster.change("node3", offline=True)
    plan = task(STARTS["failover"], nodes="node3 node4", instances="inst1")
    cluster.repaired(plan, WORSE, "node3")
    (uuid, incident), *_ = cluster.records.items()
    cluster.records[uuid] = incident._replace(off_at=cluster.now - 599 * 10**9)
    assert cluster.planned(plan).started, "one second passes"
    late = Cluster4()
    late.change("node3", offline=True)
    late.repaired(plan, WORSE, "node3")
    late.records = {uuid: incident._replace(off_at=late.now - 600 * 10**9)}
    assert not late.planned(plan).started


def test_a_task_that_sets_the_primary_offline_first() -> None:
    cluster = Cluster4()
    job = (set_role("node3", "offline"), STARTS["failover"])
    plan = task(*job, nodes="node2 node3 node4", instances="inst1")
    assert not cluster.repaired(plan).started
    assert set(cluster.held()) == {"stopped"}


def test_instances_that_are_not_to_run_are_moved() -> None:
    """But not moved and started."""
    for job, held in (
        ((STARTS["failover"],), set[str]()),
        ((STARTS["failover"], op("INSTANCE_STARTUP", instance_name="inst1")), {"stopped"}),
    ):
        cluster = Cluster4()
        cluster.change("node3", offline=True)
        cluster.instances["inst1"] = cluster.instances["inst1"]._replace(state="down")
        plan = task(*job, nodes="node2 node3 node4", instances="inst1")
        assert bool(cluster.repaired(plan).started) != bool(held)
        assert set(cluster.held()) == held


@pytest.mark.parametrize("operation", ["FAILOVER", "MOVE"])
def test_the_state_of_disks_is_not_ignored(operation: str) -> None:
    job = op(f"INSTANCE_{operation}", instance_name="inst1", ignore_consistency=True)
    plan = task(job, nodes="node2 node3", instances="inst1")
    cluster = Cluster4()
    assert not cluster.repaired(plan).started
    assert set(cluster.held()) == {"consistency"}
    cluster.tag("node3", "maintd:stopped:uuid-node3")
    assert cluster.planned(plan).started


# Master candidates

KINDS: Final = [
    {"master_candidate": c, "offline": o, "drained": d, "master_capable": m}
    for c, o, d, m in product((False, True), repeat=4)
    if not (c and (o or d or not m))
]


def after_ganeti(nodes: list[Node], lost: str, pool: int) -> int:
    """Candidates that remain: Ganeti promotes until there are as many as wanted."""
    rest = [one for one in nodes if one.name != lost and not (one.offline or one.drained)]
    now = sum(one.master_candidate is True for one in rest)
    spare = sum(one.master_capable is not False and not one.master_candidate for one in rest)
    return max(now, min(pool, now + spare))


def test_the_last_candidate_in_every_world() -> None:
    """The master never stays alone where it was not, and another node could join it."""
    tried = held = 0
    plan = task(set_role("n1", "drained"), nodes="n1")
    master = node("n0", master=True, master_candidate=True)
    brakes = [one for one in BY_EFFECTS if "candidate" in one.__name__]
    for count in range(1, 5):
        for combination in product(KINDS, repeat=count):
            made = [node(f"n{i}", **kind) for i, kind in enumerate(combination, 1)]
            nodes = [master, *made]
            for pool in (1, 2, 3, 10):
                world = World(0, Cluster((), nodes, ()), candidate_pool_size=pool)
                case = RepairCase(
                    incident=Incident("i", uuid_of("n1"), "n1", b"{}", "evacuate"),
                    node=made[0],
                    world=world,
                    config=Maintd(),
                    utc_offset=0,
                    next=plan,
                    effects=effects_of(plan.jobs, facts_of(world)),
                )
                before = sum(one.master_candidate is True for one in nodes)
                after = after_ganeti(nodes, "n1", pool)
                expected = before > 1 == after < pool and made[0].master_candidate and count > 1
                found = [one for brake in brakes if (one := brake(case))]
                assert bool(found) == expected, (combination, pool)
                tried, held = tried + 1, held + expected
    assert (tried > 10_000, held > 500) == (True, True), (tried, held)


def test_candidates_that_are_being_evacuated_do_not_count() -> None:
    cluster = Maintained(nodes=3, instances=0, config=CONFIG._replace(most_nodes=3))
    for name in ("node1", "node2", "node3"):
        cluster.change(name, master_candidate=True)
    cluster.report("node2", EVACUATE)
    cluster.report("node3", EVACUATE)
    decision = cluster.round()
    assert len(decision.started) == 1
    sentence = cluster.held()["candidate-pool"]
    assert sentence.startswith("1 of 3 master candidates would be left, and no other node can")
    (number,) = cluster.pending_jobs()
    cluster.end(number)
    cluster.round()
    assert "candidate-pool" in cluster.held()
