"""Balancing in rounds: when it begins, what it leaves alone, and how much it copies."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from worlds import (
    GROUP,
    SECOND,
    after,
    incident,
    instance,
    node,
    uuid_of,
    with_instance,
    with_node,
    world,
)

from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.opcodes import REPLACE_DISKS
from ganeti_steward.core.model.site_rules import ROLES, Ban
from ganeti_steward.plugins.maintenance.config import Maintd, Rebalance
from ganeti_steward.plugins.maintenance.engine.decision import Inputs
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.maintenance.rebalance.moves import Groups
from ganeti_steward.plugins.maintenance.rebalance.plugin import Rebalancing
from ganeti_steward.plugins.model.incident import OPT_OUT_TAG
from ganeti_steward.plugins.model.routine import RoutineJob
from ganeti_steward.plugins.model.task import RoutinePlan, Task, Wait
from ganeti_steward.plugins.model.world import World

NOW_SETTINGS = Rebalance(hold_time=0)
#: What the plugin says about the group of the tests.
SUBJECT = f"group {GROUP}"
NODES = 6


def uneven(nodes: int = NODES, instances: int = 8, **facts: Any) -> World:
    """All instances on the first two nodes."""
    names = [f"i{k}" for k in range(instances)]
    pairs = [("n1", "n2") if k % 2 else ("n2", "n1") for k in range(instances)]
    made = [instance(name, *pair) for name, pair in zip(names, pairs, strict=True)]
    return world([node(f"n{k}") for k in range(1, nodes + 1)], made, **facts)


def planned(
    seen: World, settings: Rebalance = NOW_SETTINGS, context: Context | None = None
) -> list[RoutinePlan]:
    plugin = Rebalancing()
    plugin.configure(settings)
    return plugin.steward_routine(seen, context or Context())


def tasks(plans: Sequence[RoutinePlan]) -> list[Task]:
    return [one for one in plans if isinstance(one, Task)]


def waits(plans: Sequence[RoutinePlan]) -> dict[str, str]:
    """Subject -> reason."""
    return {one.subject: one.reason for one in plans if isinstance(one, Wait)}


def job(number: int, *nodes: str, **facts: Any) -> RoutineJob:
    made = RoutineJob(number, "rebalance", "balance", "i9", tuple(nodes), ("i9",), status="running")
    return made._replace(**facts)


def test_the_first_moves_of_a_plan() -> None:
    """They share nothing, each says what it gains, and the sum of it is a lower score."""
    plans = planned(uneven())
    found = tasks(plans)
    assert found
    used = [name for one in found for name in one.nodes]
    assert len(used) == len(set(used))
    (reason,) = [one.reason for one in found if one.subject == min(t.subject for t in found)]
    assert reason.startswith(f"move {min(t.subject for t in found)} from n")
    assert "GiB to be copied): score " in reason
    text = waits(plans)[SUBJECT]
    assert text.startswith("score ")
    assert f"above the threshold of 1; {len(found)} of " in text


def test_rounds_even_a_cluster_out() -> None:
    """Through the step: the score falls in every round, until nothing is left to do."""
    settings = Rebalance(hold_time=0, threshold=0.2, copy_per_hour=0)
    config, seen, scores = Maintd(mode="act", routine=("rebalance",)), uneven(), list[float]()
    while True:
        scores.append(Groups(seen, Context(), settings).score(uuid_of(GROUP)) or 0.0)
        decision = step(Inputs(seen), config, lambda *_: (), lambda _, now: planned(now, settings))
        if not decision.routine:
            break
        seen = after(seen, [one for each in decision.routine for one in each.task.jobs])
    assert len(scores) > 2
    assert all(later < sooner for sooner, later in pairwise(scores))
    counts = [sum(one.primary == f"n{k}" for one in seen.instances.values()) for k in range(1, 7)]
    assert max(counts) <= 2


def test_a_balanced_group_is_left_alone() -> None:
    (found,) = planned(uneven(), Rebalance(hold_time=0, threshold=1000))
    assert isinstance(found, Wait)
    assert found.subject == ""
    assert found.reason.startswith("the score is not above the threshold of 1000: g1 (")


def test_the_imbalance_must_last() -> None:
    settings, seen = Rebalance(hold_time=600), uneven()
    (found,) = planned(seen, settings)
    assert found.reason.endswith("above the threshold of 1 for 0 s of the hold time of 600 s")
    for age, expected in ((599, 0), (600, 1)):
        since = {SUBJECT: seen.now - age * SECOND}
        assert bool(tasks(planned(seen._replace(since=since), settings))) == bool(expected)


def test_nothing_is_searched_again_that_was_searched() -> None:
    """Until something has changed, or the interval is over."""
    settings = Rebalance(hold_time=0, min_gain=1000)
    seen = uneven()
    (found,) = planned(seen, settings)
    assert isinstance(found, Wait)
    assert found.reason.endswith("; no move gains 1000")
    since, marked = {SUBJECT: seen.now}, {SUBJECT: {found.mark: seen.now}}
    later = seen._replace(now=seen.now + 60 * SECOND, since=since, marked=marked)
    (again,) = planned(later, settings)
    assert again.reason.endswith("no move gained enough when this was searched 60 s ago")
    assert isinstance(again, Wait)
    assert again.mark == found.mark
    busy = later._replace(reserved_nodes=frozenset({"n3"}))
    assert "no move gains 1000; left out: n3 is in use" in planned(busy, settings)[0].reason
    tomorrow = later._replace(now=seen.now + 3600 * SECOND)
    (late,) = planned(tomorrow, settings)
    assert isinstance(late, Wait)
    assert late.mark != found.mark


def test_jobs_of_the_last_moves_are_waited_for() -> None:
    (found,) = planned(uneven(routine=(job(7, "n5", "n6"),)))
    assert found.reason.endswith("; job 7 of the last moves has not ended")
    (two,) = planned(uneven(routine=(job(7, "n5", "n6"), job(9, "n1", "n6"))))
    assert two.reason.endswith("; jobs 7, 9 of the last moves have not ended")
    other = job(7, "n5", "n6", plugin="harep")
    assert tasks(planned(uneven(routine=(other,))))


@pytest.mark.parametrize("where", ["reserved", "avoided", "opted out"])
def test_nodes_that_are_left_out(where: str) -> None:
    """Nothing comes from them, goes to them, or passes through them."""
    why = {"n3": "has an active incident x (evacuate)"}
    facts = {
        "reserved": {"reserved_nodes": frozenset({"n3"})},
        "avoided": {"avoided_nodes": why},
        "opted out": {"avoided_nodes": {"n3": f"is excluded by the tag {OPT_OUT_TAG}"}},
    }[where]
    plans = planned(uneven(**facts))
    assert tasks(plans)
    assert all("n3" not in one.nodes for one in tasks(plans))
    assert "; left out: n3 " in waits(plans)[SUBJECT]


def test_instances_on_a_node_that_is_left_out_stay() -> None:
    plans = planned(uneven(avoided_nodes={"n1": "has an active incident x (evacuate)"}))
    assert tasks(plans) == []


def test_instances_that_are_left_out() -> None:
    """Others' instances, those an admin excludes, and those whose move has failed."""
    seen = uneven(reserved_instances=frozenset({"i0"}))
    failed = job(9, instances=("i2",), status="error")
    seen = with_instance(seen, "i1", tags=(OPT_OUT_TAG,))._replace(routine=(failed,))
    seen = with_instance(seen, "i3", status="ERROR_down")
    plans = planned(seen)
    assert not {"i0", "i1", "i2", "i3"} & {one.subject for one in tasks(plans)}
    assert waits(plans)[SUBJECT].endswith(
        "left out: i0 is in use by another task, i1 has the tag maintd:off, i2 could not be moved "
        "by job 9 within the last hour, i3 is down"
    )


def test_a_move_that_made_way_for_a_repair_has_not_failed() -> None:
    canceled = job(9, "n6", instances=("i2",), status="canceled")
    assert "left out: i2 could not" in waits(planned(uneven(routine=(canceled,))))[SUBJECT]
    ended = incident("n6")._replace(status="completed")
    assert "left out" not in waits(planned(uneven(routine=(canceled,), incidents=[ended])))[SUBJECT]


def test_the_ceiling_of_copied_gib() -> None:
    """Each instance has 10.1 GiB; what is running and what has ended both count."""
    settings = NOW_SETTINGS._replace(copy_per_hour=31)
    full = planned(uneven(), settings)
    copies = [one for one in tasks(full) if REPLACE_DISKS in str(one.jobs)]
    assert 1 <= len(copies) <= 2
    copied = job(9, status="success", instances=("other",), copied=25 * 1024, plugin="harep")
    plans = planned(uneven(routine=(copied,)), settings)
    assert tasks(plans) == []
    text = waits(plans)[SUBJECT]
    assert "25.0 GiB were copied within the last hour or are being copied" in text
    assert "needs 10.1 GiB, at most 31.0 GiB are copied in an hour" in text
    assert [one.mark for one in plans if isinstance(one, Wait)] == [""]
    canceled = copied._replace(status="canceled")
    assert tasks(planned(uneven(routine=(canceled,)), settings)) == tasks(full)


def test_a_larger_instance_than_the_ceiling_is_not_waited_for() -> None:
    plans = planned(uneven(), NOW_SETTINGS._replace(copy_per_hour=5))
    assert all(REPLACE_DISKS not in str(one.jobs) for one in tasks(plans))
    assert "GiB were copied" not in waits(plans)[SUBJECT]


def test_one_disk_at_a_time_where_the_ceiling_has_no_room_for_two() -> None:
    """Whatever nodes are left out: the plan without a ceiling copies both disks of an instance."""
    for node_left_out in ({}, {"n3": "is ill"}, {"n4": "is ill"}):
        seen = uneven(avoided_nodes=node_left_out)
        (found,) = tasks(planned(seen, NOW_SETTINGS._replace(copy_per_hour=11)))
        assert str(found.jobs).count(REPLACE_DISKS) == 1


def test_kinds_of_move() -> None:
    plans = planned(uneven(), NOW_SETTINGS._replace(disk_moves=False))
    assert REPLACE_DISKS not in str(plans)
    assert tasks(planned(uneven(), NOW_SETTINGS._replace(evac_mode=True))) == []
    at_once = planned(uneven(nodes=12), NOW_SETTINGS._replace(moves_at_once=1))
    assert len(tasks(at_once)) == 1


class Banning:
    """A site rule: nothing may be on the node n3."""

    def bans(self, cluster: object, instance: object) -> tuple[Ban, ...]:
        return tuple(Ban("n3", role, "test", "is not for this") for role in ROLES)

    def costs(self, cluster: object, instance: object) -> dict[tuple[str, str, str], float]:
        return {}


def test_site_rules_hold() -> None:
    plans = planned(uneven(), context=Context(site_rules=Banning()))
    assert tasks(plans)
    assert all("n3" not in one.nodes for one in tasks(plans))


def test_repairs_and_failed_incidents_keep_their_nodes() -> None:
    """Through the step: a node with a failed incident is left alone, too."""
    about = incident("n3")._replace(status="failed", tagged=True, tag="maintd:repairfailed:x")
    seen = with_node(uneven(incidents=[about]), "n3", tags=(about.tag,))
    config = Maintd(mode="act", routine=("rebalance",))
    decision = step(Inputs(seen), config, lambda *_: (), lambda _, at: planned(at))
    assert decision.routine
    assert all("n3" not in one.task.nodes for one in decision.routine)
    assert any("has a failed incident" in one.sentence for one in decision.held)
