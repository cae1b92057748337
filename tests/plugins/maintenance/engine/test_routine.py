"""Routine work in the step: after the repairs, with what they leave free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from maintained import CONFIG, EVACUATE, OK, Maintained
from worlds import group, instance, node, world

from ganeti_steward.allocators.jobs.operations import failover, migrate, replace_secondary
from ganeti_steward.plugins.maintenance.engine.decision import RoutineStarted
from ganeti_steward.plugins.maintenance.engine.routine import copied_mib
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.model.incident import FAILED, OPT_OUT_TAG
from ganeti_steward.plugins.model.operations import set_tags
from ganeti_steward.plugins.model.task import RoutinePlan, Task, Wait
from ganeti_steward.plugins.model.world import World

ACTING = CONFIG._replace(routine=("first", "second"))


def task(*nodes: str, instance: str = "inst0", subject: str = "") -> Task:
    job = [{**migrate(instance), "target_node": nodes[-1]}]
    reason = f"move {instance}"
    return Task("move", frozenset(nodes), frozenset({instance}), reason, [job], subject=subject)


class Plans:
    """What each plugin plans, and the worlds in which it was called."""

    def __init__(self, **plans: Sequence[RoutinePlan]) -> None:
        self.plans = plans
        self.worlds: list[tuple[str, World]] = []

    def __call__(self, plugin: str, world: World) -> Sequence[RoutinePlan]:
        self.worlds.append((plugin, world))
        return self.plans.get(plugin, ())

    def since(self, plugin: str) -> list[dict[str, int]]:
        """What was remembered for the plugin in each round."""
        return [dict(seen.since) for name, seen in self.worlds if name == plugin]


def working(config: Any = ACTING, **plans: Sequence[RoutinePlan]) -> tuple[Maintained, Plans]:
    cluster = Maintained(config=config)
    cluster.routine = made = Plans(**plans)
    for plan in (one for given in plans.values() for one in given if isinstance(one, Task)):
        # The instance is on a node that the task names.
        for name in plan.instances & cluster.instances.keys():
            primary = cluster.instances[name].primary
            if primary not in plan.nodes and plan.nodes:
                facts = cluster.instances[name]._replace(nodes=(min(plan.nodes),))
                cluster.instances[name] = facts
    return cluster, made


def names(started: Sequence[RoutineStarted]) -> list[str]:
    return [one.name for one in started]


def test_plugins_work_in_their_order_and_share_nothing() -> None:
    both = task("node2", "node3"), task("node4", instance="inst1", subject="inst1")
    cluster, plans = working(first=both, second=[task("node3", instance="inst3")])
    decision = cluster.round()
    assert names(decision.routine) == ["first cluster", "first inst1"]
    assert len({one.submission for one in decision.routine}) == 2
    assert [plugin for plugin, _ in plans.worlds] == ["first", "second"]
    seen = plans.worlds[1][1]
    assert seen.reserved_nodes == {"node2", "node3", "node4"}
    assert seen.reserved_instances == {"inst0", "inst1"}
    assert cluster.held() == {"reserved": "another task uses node3; held: move inst3"}


def test_tasks_of_one_plugin_may_share_nodes() -> None:
    """But no instance, and no node with another plugin or a repair."""
    shared = [
        task("node2", "node3")._replace(shares_nodes=True),
        task("node3", instance="inst1", subject="inst1")._replace(shares_nodes=True),
        task("node3", subject="again")._replace(shares_nodes=True),
        task("node3", instance="inst2", subject="alone"),
    ]
    cluster, _ = working(first=shared, second=[shared[1]._replace(instances=frozenset())])
    assert names(cluster.round().routine) == ["first cluster", "first inst1"]
    reserved = [one.sentence for one in cluster.decisions[-1].held if one.brake == "reserved"]
    assert reserved == [
        "another task uses inst0; held: move inst0",
        "another task uses node3; held: move inst2",
        "another task uses node3; held: move inst1",
    ]
    # Also beside those of an earlier round that still run.
    cluster.routine = Plans(first=[task("node3", instance="inst2")._replace(shares_nodes=True)])
    assert names(cluster.round().routine) == ["first cluster"]


def test_nothing_is_called_that_is_not_configured() -> None:
    cluster, plans = working(CONFIG, first=[task("node2")])
    assert cluster.round().routine == ()
    assert plans.worlds == []


def test_repairs_come_first() -> None:
    cluster, plans = working(first=[task("node2", "node3")])
    cluster.report("node2", EVACUATE)
    assert cluster.round().routine == ()
    seen = plans.worlds[0][1]
    assert "node2" in seen.reserved_nodes & set(seen.avoided_nodes)
    assert cluster.held()["reserved"] == "another task uses node2; held: move inst0"


def test_routine_jobs_that_have_not_started_make_way() -> None:
    """Those that run go on, and the repair waits for them."""
    cluster, plans = working(first=[task("node2", "node3"), task("node4", instance="inst1")])
    cluster.round()
    cluster.start(2)
    plans.plans = {}
    cluster.report("node2", EVACUATE)
    cluster.report("node4", EVACUATE)
    assert cluster.round().cancels == (1,)
    assert (cluster.queue[1].status, cluster.queue[2].status) == ("canceled", "running")
    started = [one.task.nodes for one in cluster.round().started]
    assert started == [frozenset({"node2"})]


def test_observe_mode_cancels_nothing() -> None:
    cluster, plans = working(first=[task("node2", "node3")])
    cluster.round()
    plans.plans = {}
    cluster.config = ACTING._replace(mode="observe")
    cluster.report("node2", EVACUATE)
    assert cluster.round().cancels == ()
    assert cluster.queue[1].status == "queued"


def test_jobs_that_run_keep_what_they_use() -> None:
    cluster, plans = working(first=[task("node2", "node3")])
    cluster.round()
    cluster.round()
    assert cluster.held() == {"reserved": "another task uses node2, node3, inst0; held: move inst0"}
    cluster.end(1)
    assert len(cluster.round().routine) == 1
    assert plans.worlds[-1][1].routine[0].status == "success"


def test_a_node_under_repair_is_left_to_its_repair() -> None:
    """Also where the repair does nothing in this round."""
    cluster, _ = working(ACTING._replace(hold_time=600), first=[task("node2", "node3")])
    cluster.report("node2", EVACUATE)
    cluster.round()
    (incident,) = cluster.records.values()
    assert cluster.held()["under-repair"] == (
        f"an incident is active on node2 ({incident.uuid}); held: move inst0"
    )


@pytest.mark.parametrize(
    "where", ["node node3", "node group rack1", "instance inst0"], ids=lambda one: one.split()[-2]
)
def test_opt_out(where: str) -> None:
    cluster, _ = working(first=[task("node2", "node3")])
    tags = frozenset({OPT_OUT_TAG})
    if where == "node node3":
        cluster.tag("node3", OPT_OUT_TAG)
    elif where == "node group rack1":
        cluster.groups["group"] = group("group", "rack1", tags)
    else:
        cluster.instances["inst0"] = cluster.instances["inst0"]._replace(tags=tags)
    assert cluster.round().routine == ()
    assert cluster.held() == {"opt-out": f"{where} has the tag maintd:off; held: move inst0"}


def test_observe_shows_what_would_be_done() -> None:
    """What would collide with that is no part of it."""
    both = {"first": [task("node2")], "second": [task("node2", instance="inst1")]}
    cluster, _ = working(ACTING._replace(mode="observe"), **both)
    decision = cluster.round()
    assert [one.reason for one in decision.observed] == ["move inst0"]
    assert [tuple(one[:3]) for one in decision.held] == [
        ("first cluster", "observe", "the mode is observe, it would: move inst0"),
        ("second cluster", "reserved", "another task uses node2; held: move inst1"),
    ]


def test_pause_and_window_hold_it() -> None:
    closed = ACTING._replace(windows=("Mon 00:00-00:01",))
    cluster, _ = working(closed, first=[task("node2")])
    cluster.cluster_tags.add("maintd:pause:new-switch")
    assert cluster.round().routine == ()
    assert set(cluster.held()) == {"pause", "window"}


def test_tags_are_set_outside_the_windows() -> None:
    tag = Task(
        "tag", frozenset(), frozenset(), "tag inst0", [[set_tags("instance", "inst0", ["x"])]]
    )
    closed = ACTING._replace(windows=("Mon 00:00-00:01",))
    cluster, _ = working(closed, first=[tag, task("node2", subject="inst0")])
    assert names(cluster.round().routine) == ["first cluster"]


def test_disks_are_checked_outside_the_windows() -> None:
    """It changes nothing, and without it copies of a dead node are not known to be in sync."""
    jobs = [[{"OP_ID": "OP_GROUP_VERIFY_DISKS", "group_name": "default"}]]
    check = Task("check-disks", frozenset(), frozenset(), "check disks", jobs)
    closed = ACTING._replace(windows=("Mon 00:00-00:01",))
    cluster, _ = working(closed, first=[check, task("node2")])
    assert names(cluster.round().routine) == ["first cluster"]
    assert set(cluster.held()) == {"window"}


def test_in_a_storm_nothing_is_planned() -> None:
    cluster, plans = working(ACTING._replace(storm_share=0.1), first=[task("node4")])
    for name in ("node2", "node3"):
        cluster.report(name, EVACUATE)
    cluster.round()
    assert plans.worlds == []
    held = [one for one in cluster.decisions[-1].held if one.subject == "first cluster"]
    assert [one.brake for one in held] == ["storm"]


def test_what_is_left_out_is_reported() -> None:
    cluster, _ = working(first=[Wait("it is balanced"), Wait("no secondary", "inst1")])
    assert [tuple(one[:3]) for one in cluster.round().held] == [
        ("first cluster", "wait", "it is balanced"),
        ("first inst1", "wait", "no secondary"),
    ]


def test_how_long_something_lasts_is_remembered_for_each_plugin() -> None:
    wait = [Wait("it has to last", "inst1")]
    cluster, plans = working(first=wait, second=wait)
    cluster.round()
    since = {"inst1": cluster.now}
    plans.plans = {"first": wait}
    cluster.round()
    cluster.round()
    assert plans.since("first") == [{}, since, since]
    assert plans.since("second") == [{}, since, {}]


def test_a_doubtful_submission_is_waited_for() -> None:
    """What lasts meanwhile goes on to last."""
    cluster, plans = working(first=[Wait("it has to last", "inst1")])
    cluster.round()
    since, cluster.calls_known = {"inst1": cluster.now}, False
    plans.plans = {"first": [task("node2")]}
    assert cluster.round().routine == ()
    assert set(cluster.held()) == {"lookup"}
    cluster.calls_known = True
    assert names(cluster.round().routine) == ["first cluster"]
    assert plans.since("first") == [{}, since]


@pytest.mark.parametrize("replaced", [False, True])
def test_nothing_goes_to_a_node_whose_repair_failed(replaced: bool) -> None:
    """Neither where the task names it, nor where it is the secondary that an instance has."""
    cluster, plans = working()
    cluster.instances["inst0"] = instance("inst0", "node3", "node2")
    cluster.change("node3", missing=())
    cluster.report("node2", EVACUATE)
    cluster.round()
    found = cluster.incident("node2")
    cluster.records[found.uuid] = found._replace(status=FAILED, open=())
    cluster.report("node2", OK)
    cluster.run()
    job = [replace_secondary("inst0", "node4")] if replaced else []
    used = frozenset({"node2", "node3", "node4"})
    move = Task("move", used, frozenset({"inst0"}), "move inst0", [[*job, migrate("inst0")]])
    plans.plans = {"first": [move]}
    assert len(cluster.round().routine) == replaced
    sentence = f"node2 has a failed incident {found.uuid}; held: move inst0"
    assert cluster.held().get("failed-target") == (None if replaced else sentence)


def test_what_a_repair_has_left_on_an_offline_node_stays_there() -> None:
    """Its copy may be an old one."""
    cluster, plans = working()
    cluster.instances["inst0"] = instance("inst0", "node2", "node3")
    cluster.report("node2", EVACUATE)
    cluster.round()
    found = cluster.incident("node2")
    left = (("inst0", "later data would be lost"),)
    cluster.records[found.uuid] = found._replace(status=FAILED, open=(), unmovable=left)
    cluster.report("node2", OK)
    cluster.run()
    cluster.change("node2", offline=True)
    cluster.tag("node2", f"maintd:stopped:{found.uuid}")
    used = frozenset({"node2", "node3"})
    plans.plans = {
        "first": [Task("move", used, frozenset({"inst0"}), "move inst0", [[failover("inst0")]])]
    }
    assert cluster.round().routine == ()
    assert cluster.held()["unmovable"] == (
        f"incident {found.uuid} of node2 has left inst0 there (later data would be lost); "
        "held: move inst0"
    )


def test_repairs_wait_for_a_doubtful_submission() -> None:
    """Its jobs may use the same nodes and instances."""
    cluster, _ = working()
    cluster.calls_known = False
    cluster.report("node2", EVACUATE)
    decision = cluster.round()
    assert decision.started == ()
    held = [one.sentence for one in decision.held if one.brake == "lookup"]
    assert any(one.endswith("is not known yet; held: drain") for one in held)
    cluster.calls_known = True
    assert len(cluster.round().started) == 1


def test_a_record_that_cannot_be_read_holds_its_node() -> None:
    cluster, _ = working(first=[task("node2")], second=[task("node3", instance="inst1")])
    inputs = cluster.inputs()._replace(unreadable={"uuid-node2": "the record r is damaged"})
    decision = step(inputs, cluster.config, cluster.planner, cluster.routine)
    assert names(decision.routine) == ["second cluster"]
    assert [one.brake for one in decision.held] == ["record"]


def test_what_a_job_copies() -> None:
    made = [instance("a", "n1", "n2"), instance("b", "n1", template="ext")]
    cluster = world([node("n1"), node("n2"), node("n3")], made).cluster
    space = cluster.instance("a").disk_space
    assert space > 0
    assert copied_mib([migrate("a"), replace_secondary("a", "n3")], cluster) == space
    assert copied_mib([migrate("b", "n2")], cluster) == 0
