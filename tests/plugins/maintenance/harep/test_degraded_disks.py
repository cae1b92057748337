"""Degraded disks: when they are checked, and what is done about them."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from harep_worlds import (
    AT,
    DRAINED,
    OFF,
    done,
    health,
    job_of,
    one_instance,
    plans,
    reason,
    routine,
)
from worlds import SECOND

from ganeti_steward.plugins.maintenance.config import Harep
from ganeti_steward.plugins.maintenance.queue.short_jobs import read_check
from ganeti_steward.plugins.model.disks import DiskHealth
from ganeti_steward.plugins.model.task import Task, Wait
from ganeti_steward.plugins.model.world import Reported, World

_FAULT: Final = "disk/0 is faulty on n2"
_CHECKS: Final = Harep(job_delay=0)
_OF_NODE: Final = "disks of instances on n1"
_FIXED: Final = "result:fix-storage:u:1900:success:3"


def _status(degraded: bool, own: int, sync: float | None = None) -> list[Any]:
    return ["/dev/drbd7", 147, 7, sync, None, degraded, own]


@pytest.mark.parametrize(
    ("primary", "secondary", "expected"),
    [
        (_status(False, 1), _status(False, 1), DiskHealth(5)),
        (
            _status(False, 1),
            _status(True, 4),
            DiskHealth(5, ("disk/0 is faulty on n2",), lost_on=("n2",)),
        ),
        (_status(True, 1), _status(True, 1), DiskHealth(5, ("disk/0 has lost its connection",))),
        (_status(True, 1), None, DiskHealth(5, ("disk/0 is not active on n2",))),
        (
            _status(True, 1, 40.0),
            _status(True, 2, 40.0),
            DiskHealth(5, (), syncing=True, percents=(40.0,)),
        ),
        (
            _status(True, 4),
            _status(False, 1),
            DiskHealth(5, ("disk/0 is faulty on n1",), primary_good=False, lost_on=("n1",)),
        ),
    ],
)
def test_what_a_check_says(primary: Any, secondary: Any, expected: DiskHealth) -> None:
    disk = {"iv_name": "disk/0", "dev_type": "drbd", "pstatus": primary, "sstatus": secondary}
    one = {"pnode": "n1", "snodes": ["n2"], "run_state": "up", "disks": [disk]}
    found = read_check([{"i1": one, "bad": {"run_state": "up", "disks": 3}}, None], 5)
    minors = tuple((node, 7) for node, side in (("n1", primary), ("n2", secondary)) if side)
    assert found == {"i1": expected._replace(nodes=("n1", "n2"), minors=minors)}


def test_a_check_without_the_primary_says_nothing() -> None:
    """The node was set offline between the plan and the job: the earlier check stays the last."""
    sides = {"pstatus": None, "sstatus": _status(True, 1)}
    disk = {"iv_name": "disk/0", "dev_type": "drbd", **sides}
    one = {"pnode": "n1", "snodes": ["n2"], "run_state": None, "disks": [disk]}
    assert read_check([{"i1": one}], 5) == {}


def test_the_instances_of_a_node_are_checked_together() -> None:
    (plan,) = plans(one_instance(("fix-storage",)), _CHECKS)
    assert isinstance(plan, Task)
    assert (plan.subject, plan.step) == (_OF_NODE, "check-disks")
    (operation,) = job_of(plan)
    assert operation["OP_ID"] == "OP_INSTANCE_QUERY_DATA"
    assert operation["instances"] == ["i1"]


@pytest.mark.parametrize(
    ("own", "more"),
    [
        ((), {}),
        (("suspend",), {}),
        (("fix-storage",), {"up": False}),
        (("fix-storage",), {"template": "plain"}),
        (("fix-storage", "result:migrate:u:1:failure:"), {}),
        (("fix-storage",), {"routine": (routine(7, "check-disks", subject=_OF_NODE),)}),
        (
            ("fix-storage",),
            {"routine": (routine(7, "check-disks", subject=_OF_NODE, status="success"),)},
        ),
    ],
)
def test_no_check_without_use(own: tuple[str, ...], more: dict[str, Any]) -> None:
    found = plans(one_instance(own, **more), _CHECKS)
    assert not [plan for plan in found if done(plan) == "QUERY_DATA"]


def test_a_check_is_repeated_after_the_interval() -> None:
    last = routine(7, "check-disks", subject=_OF_NODE, status="success")
    seen = one_instance(("fix-storage",), routine=(last,), seconds=AT + 895)
    assert [done(plan) for plan in plans(seen, _CHECKS)] == ["QUERY_DATA"]


def test_after_a_failed_check_each_instance_is_checked_by_itself() -> None:
    last = routine(7, "check-disks", subject=_OF_NODE, status="error")
    seen = one_instance(("fix-storage",), routine=(last,))
    (plan,) = plans(seen, _CHECKS)
    assert plan.subject == "disks of i1"
    again = routine(8, "check-disks", subject="disks of i1", status="error")
    assert not plans(seen._replace(routine=(last, again)), _CHECKS)


def test_disks_are_checked_again_after_their_repair() -> None:
    last = routine(7, "check-disks", subject=_OF_NODE, status="success")
    own = ("fix-storage", "result:fix-storage:u:2000:success:8")
    before = health(_FAULT, seconds=AT - 5)
    seen = one_instance(own, routine=(last,), disks=before)
    assert [done(plan) for plan in plans(seen, _CHECKS)] == ["QUERY_DATA"]


@pytest.mark.parametrize(
    ("own", "disks", "expected"),
    [
        (("fix-storage",), health(_FAULT), "ACTIVATE_DISKS"),
        (("fix-storage",), health(_FAULT, syncing=True), ""),
        (("fix-storage",), health(), ""),
        ((), health(_FAULT), "nothing"),
        (("fix-storage", "result:fix-storage:u:1900:failure:3"), health(_FAULT), "nothing"),
        # Still degraded after they were activated: replaced, and after that left for a day.
        (("fix-storage", _FIXED), health(_FAULT, seconds=1899), ""),
        (("fix-storage", _FIXED), health(_FAULT), "REPLACE_DISKS"),
        (("fix-storage", "result:fix-storage:u:1900:success:3+4"), health(_FAULT), "nothing"),
        (("fix-storage", "result:migrate:u:1900:success:3"), health(_FAULT), "ACTIVATE_DISKS"),
    ],
)
def test_the_steps_of_a_repair(
    own: tuple[str, ...], disks: dict[str, DiskHealth], expected: str
) -> None:
    settings = Harep(job_delay=0, disk_check_interval=0, replace_after=100)
    found = plans(one_instance(own, disks=disks), settings)
    assert "; ".join(map(done, found)) == expected


def test_a_day_later_degraded_disks_are_activated_again() -> None:
    own = ("fix-storage", "result:fix-storage:u:1900:success:3+4")
    late = 1900 + 86400
    seen = one_instance(own, disks=health(_FAULT, seconds=late), seconds=late)
    assert [done(plan) for plan in plans(seen)] == ["ACTIVATE_DISKS"]


def test_disks_are_replaced_only_after_some_time() -> None:
    seen = one_instance(("fix-storage", _FIXED), disks=health(_FAULT))
    assert "replaced in 3500 s" in reason(seen)


@pytest.mark.parametrize(
    ("good", "mode"), [(True, "replace_new_secondary"), (False, "replace_auto")]
)
def test_the_side_that_is_bad_is_replaced(good: bool, mode: str) -> None:
    settings = Harep(job_delay=0, disk_check_interval=0, replace_after=0, iallocator="steward")
    seen = one_instance(("fix-storage", _FIXED), disks=health(_FAULT, primary_good=good))
    ((operation,),) = (job_of(plan) for plan in plans(seen, settings))
    assert operation["mode"] == mode
    assert operation.get("iallocator") == ("steward" if good else None)


def test_the_tag_of_a_replacement_names_both_jobs() -> None:
    seen = one_instance(
        ("fix-storage", _FIXED), disks=health(_FAULT), routine=(routine(9, "replace-degraded"),)
    )
    (plan,) = plans(seen)
    assert ":1995:3+9, - result:fix-storage:u:1900:success:3" in done(plan)


def test_a_node_that_is_down_goes_before_its_disks() -> None:
    seen = one_instance(("failover",), primary=OFF, disks=health(_FAULT))
    assert [done(plan) for plan in plans(seen)] == ["FAILOVER"]


@pytest.mark.parametrize(
    ("own", "disks", "more", "expected"),
    [
        (("failover",), health(), {}, "MIGRATE"),
        (("failover",), health(_FAULT), {}, "ACTIVATE_DISKS"),
        (("failover",), health(syncing=True), {}, "nothing"),
        # Repaired, and not checked since.
        (("failover", _FIXED), health(_FAULT, seconds=1899), {}, "nothing"),
        (("failover", _FIXED), health(seconds=1899), {}, "MIGRATE"),
        (("failover", _FIXED), health(_FAULT, seconds=1899), {"up": False}, "MIGRATE"),
    ],
)
def test_disks_go_before_a_move_off_a_drained_node(
    own: tuple[str, ...], disks: dict[str, DiskHealth], more: dict[str, Any], expected: str
) -> None:
    seen = one_instance(own, primary=DRAINED, disks=disks, **more)
    assert [done(plan) for plan in plans(seen)] == [expected]


# Synchronizations that stall, and copies that are left to a person

_BOTH: Final = (("n1", 7), ("n2", 9))
_STALLED: Final = DiskHealth(
    AT * SECOND, (), syncing=True, percents=(40.0,), since=1, still=3600 * SECOND, stalled=True
)


@pytest.mark.parametrize(
    ("own", "more", "expected"),
    [
        ((), {}, "ACTIVATE_DISKS"),
        # A new secondary costs an incomplete copy only.
        ((_FIXED,), {"now": 6000}, "REPLACE_DISKS"),
        # The other copy may be the only good one.
        ((_FIXED,), {"now": 6000, "primary_good": False}, "nothing"),
        ((), {"primary_good": False}, "nothing"),
        ((), {"stalled": False, "still": 0}, "nothing"),
    ],
)
def test_a_synchronization_that_stalls(
    own: tuple[str, ...], more: dict[str, Any], expected: str
) -> None:
    now = more.pop("now", AT)
    disks = _STALLED._replace(at=now * SECOND, **more)
    found = plans(one_instance(("fix-storage", *own), now=now * SECOND, disks={"i1": disks}))
    assert [done(one).split(" ")[0].split("(")[0] for one in found] == (
        [expected] if expected != "nothing" or more.get("stalled", True) else []
    )
    if expected == "nothing" and found:
        assert "the copy on n1 is not complete itself" in found[0].reason


def _reporting(world: World, node: str, fault: str) -> World:
    uuid = next(one.uuid for one in world.cluster.nodes if one.name == node)
    details = [{"source": "drbd", "status": "live-repair", "details": {"faults": [fault]}}]
    original = json.dumps({"status": "live-repair", "details": details}).encode()
    return world._replace(observations={uuid: Reported(original, "live-repair", "", AT * SECOND)})


@pytest.mark.parametrize("own", [(), (_FIXED,)])
@pytest.mark.parametrize(
    ("node", "fault", "left"),
    [
        ("n1", "split brain: minor 7", True),
        ("n2", "split brain: minor 9", True),
        # Devices of others.
        ("n2", "split brain: minor 7", False),
        ("n1", "stands alone: minor 7", False),
        ("n1", "split brain: minor 77", False),
    ],
)
def test_a_split_brain_is_left_to_a_person(
    own: tuple[str, ...], node: str, fault: str, left: bool
) -> None:
    disks = DiskHealth(AT * SECOND, ("disk/0 has lost its connection",), minors=_BOTH)
    world = one_instance(("fix-storage", *own), now=6000 * SECOND, disks={"i1": disks})
    (plan,) = plans(_reporting(world, node, fault))
    assert (done(plan) == "nothing") == left
    if left:
        assert f"{node} reports a split brain of its disks" in plan.reason


def test_a_lost_connection_is_no_reason_to_give_up_a_copy_without_a_report() -> None:
    """Both copies may be good: only their nodes could say that there is no split brain."""
    disks = DiskHealth(AT * SECOND, ("disk/0 has lost its connection",), minors=_BOTH)
    world = one_instance(("fix-storage",), now=6000 * SECOND, disks={"i1": disks})
    (plan,) = plans(world)
    assert done(plan).startswith("ACTIVATE_DISKS")
    world = one_instance(("fix-storage", _FIXED), now=6000 * SECOND, disks={"i1": disks})
    (plan,) = plans(world)
    assert isinstance(plan, Wait)
    assert "no agent of n1 and n2 reports, so it may be a split brain" in plan.reason
    for node in ("n1", "n2"):
        (plan,) = plans(_reporting(world, node, "no quorum"))
        assert done(plan).startswith("REPLACE_DISKS")
    (plan,) = plans(_reporting(world, "n3", "no quorum"))
    assert isinstance(plan, Wait)


def test_without_a_good_copy_nothing_is_done() -> None:
    faults = ("disk/0 is faulty on n1", "disk/0 is faulty on n2")
    disks = DiskHealth(AT * SECOND, faults, primary_good=False, lost_on=("n1", "n2"))
    for own in ((), (_FIXED,)):
        (plan,) = plans(one_instance(("fix-storage", *own), now=6000 * SECOND, disks={"i1": disks}))
        assert done(plan) == "nothing"
        assert "no copy of its disks is good" in plan.reason
