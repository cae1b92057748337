"""Degraded disks: when they are checked, and what is done about them."""

from __future__ import annotations

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

from ganeti_steward.plugins.maintenance.config import Harep
from ganeti_steward.plugins.maintenance.queue.short_jobs import read_check
from ganeti_steward.plugins.model.disks import DiskHealth
from ganeti_steward.plugins.model.task import Task

_FAULT: Final = "disk/0 is faulty on n2"
_CHECKS: Final = Harep(job_delay=0)
_OF_NODE: Final = "disks of instances on n1"
_FIXED: Final = "result:fix-storage:u:1900:success:3"


def _status(degraded: bool, own: int, sync: float | None = None) -> list[Any]:
    return ["/dev/drbd0", 147, 0, sync, None, degraded, own]


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
        (_status(True, 1, 40.0), _status(True, 2, 40.0), DiskHealth(5, (), syncing=True)),
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
    assert found == {"i1": expected._replace(nodes=("n1", "n2"))}


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
