"""The order of a shutdown, and of the bring-up after it, which is the reverse."""

from __future__ import annotations

from itertools import pairwise

import pytest
from asserting import some
from hypothesis import given
from hypothesis import strategies as st
from small_site import START, STOP, Site
from worlds import changed, instance, node

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.model.cluster import Cluster, Instance
from ganeti_steward.plugins.maintenance.shutdown.acting import Acting, shut_down
from ganeti_steward.plugins.maintenance.shutdown.plan import (
    left_running,
    not_startable,
    own_tags,
    plan_bring_up,
    plan_shutdown,
    start_job,
    start_stages,
    stop_job,
)

ORDERS = st.one_of(st.none(), st.integers(-(10**9) + 1, 10**9 - 1))
STATUSES = {"up": "running", "down": "ADMIN_down", "offline": "ADMIN_offline"}


def made(name: str, order: int | None, state: str) -> Instance:
    tags = ("other", *(() if order is None else (f"order:{order}",)))
    return changed(instance(name, "n1"), tags=tags, state=state, status=STATUSES[state])


def cluster(*instances: Instance) -> Cluster:
    return Cluster([], [node("n1", master=True), node("n2")], instances)


@given(st.lists(st.tuples(ORDERS, st.sampled_from(sorted(STATUSES))), max_size=12))
def test_each_is_stopped_once_and_started_in_the_reverse_order(
    drawn: list[tuple[int | None, str]],
) -> None:
    # One tag at least, or such tags are refused.
    before = cluster(
        made("first", 5, "up"), *(made(f"i{at}", *one) for at, one in enumerate(drawn))
    )
    plan = plan_shutdown(before, {"n1"}, "order:")
    stopped = {one.name: order for order, found in plan.stages.items() for one in found}
    assert list(plan.stages) == sorted(plan.stages)
    assert stopped.keys() == {one.name for one in before.instances if one.up}
    assert plan.instances == len(stopped)
    down = []
    for one in some(before.instances):
        if one.name not in stopped:
            down.append(one)
            continue
        tag, stop = stop_job(one, stopped[one.name], None)
        assert (tag["name"], stop["instance_name"]) == (one.name, one.name)
        tags = (*one.tags, *tag["tags"])
        down.append(changed(one, tags=tags, state="down", status="ADMIN_down"))
    after = cluster(*down)
    started = start_stages(plan_bring_up(after, {"n1"}).instances)
    assert [(order, [one.name for one in found]) for order, found in started.items()] == [
        (order, [one.name for one in found]) for order, found in reversed(plan.stages.items())
    ]
    assert plan_shutdown(after, {"n1"}, "order:").instances == 0


def test_no_job_of_an_order_begins_before_the_one_before_has_ended(small: Site) -> None:
    small.stand_in.pace(0.2)
    small.shutdown("--all", "--order", "order:")
    small.bring_up()
    for kind in (STOP, START):
        jobs = [row for row in small.ended if any(op["OP_ID"] == kind for op in row["ops"])]
        for one, after in some(pairwise(jobs)):
            assert after["start_ts"] >= one["end_ts"]


@pytest.mark.parametrize(
    ("tags", "fault"),
    [
        (("order:1", "order:2"), "a has several orders: order:1, order:2"),
        (("order:first",), "a has the tag order:first: a whole number of at most nine digits"),
        (("order:1234567890",), "a has the tag order:1234567890: "),
    ],
)
def test_orders_that_cannot_be_used(tags: tuple[str, ...], fault: str) -> None:
    one = changed(instance("a", "n1"), tags=tags, status="running")
    with pytest.raises(StewardError, match=fault):
        plan_shutdown(cluster(one), {"n1"}, "order:")
    assert plan_shutdown(cluster(one), {"n1"}, "").instances == 1


@pytest.mark.parametrize(
    ("state", "status", "stopped", "tagged"),
    [
        ("up", "running", True, True),
        ("up", "ERROR_down", True, True),
        ("up", "USER_down", False, False),
        ("up", "ERROR_wrongnode", True, True),
        ("down", "ERROR_up", True, False),
        ("down", "ADMIN_down", False, False),
        ("offline", "ADMIN_offline", False, False),
    ],
)
def test_what_is_stopped_and_started_again(
    state: str, status: str, stopped: bool, tagged: bool
) -> None:
    """What its owner wants to be down is stopped where it runs, and stays down."""
    one = changed(instance("a", "n1"), state=state, status=status)
    plan = plan_shutdown(cluster(one), {"n1"}, "")
    assert (plan.instances == 1) == stopped
    assert (len(stop_job(one, 0, None)) == 2) == tagged


def test_forthcoming_instances_have_nothing_to_stop() -> None:
    one = changed(instance("a", "n1"), forthcoming=True)
    assert plan_shutdown(cluster(one), {"n1"}, "").instances == 0
    assert left_running(cluster(one)) == {}


def test_an_instance_on_the_wrong_node_keeps_both_nodes_on() -> None:
    one = changed(instance("a", "n1", "n2"), status="ERROR_wrongnode")
    assert left_running(cluster(one)) == {"n1": ["a"], "n2": ["a"]}


def test_offline_nodes_are_left_alone() -> None:
    one = changed(instance("a", "n1"), status="ERROR_nodeoffline")
    gone = Cluster([], [changed(node("n1"), offline=True), node("n2")], [one])
    plan = plan_shutdown(gone, {"n1", "n2"}, "")
    assert ([at.name for at in plan.nodes], [at.name for at in plan.offline]) == (["n2"], ["n1"])
    assert (plan.instances, plan.unreached) == (0, ())


def test_an_offline_secondary_holds_nothing_back() -> None:
    one = instance("a", "n1", "n2")
    there = Cluster([], [node("n1"), changed(node("n2"), offline=True)], [one])
    assert not_startable(one, there) == ""


@pytest.mark.parametrize(("state", "status"), [("up", "running"), ("offline", "ADMIN_offline")])
def test_only_the_tag_is_removed_of_what_a_person_has_decided(state: str, status: str) -> None:
    """It was started by hand, or taken out of service."""
    one = changed(instance("a", "n1"), tags=("maintd:bring-up:7",), state=state, status=status)
    (untag,) = start_job(one)
    assert untag["tags"] == own_tags(one.tags) == ["maintd:bring-up:7"]


def test_tags_of_other_forms() -> None:
    """A person has written one by hand; longer words are other tags."""
    one = changed(instance("a", "n1"), tags=("maintd:bring-up:x", "maintd:bring-upper"))
    assert [*start_stages([one])] == [0]
    assert own_tags(one.tags) == ["maintd:bring-up:x"]


def test_an_interrupt_lets_the_running_jobs_end(small: Site) -> None:
    """The jobs of a later order are not begun, and no node is switched off."""
    acting = Acting(
        small.client,
        "test",
        20,
        lambda: int("app.test" in small.done(STOP)),
        dry=False,
    )
    found = acting.read()
    plan = plan_shutdown(found, {one.name for one in found.nodes}, "order:")
    with pytest.raises(StewardError, match="interrupted; the same command goes on from here"):
        shut_down(acting, plan, {}, None)
    assert small.up == {"db.test", "dns.test"}
    assert small.off == set()
    small.shutdown()
    small.bring_up()
    assert small.up == {"app.test", "db.test", "dns.test", "web.test"}
