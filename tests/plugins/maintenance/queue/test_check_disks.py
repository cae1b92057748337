"""The plugin that checks the disks of all drbd instances."""

from __future__ import annotations

from typing import Any, Final

import pytest
from worlds import NOW, SECOND, instance, node, world

from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.queue.disk_checks import Plugin
from ganeti_steward.plugins.maintenance.queue.short_jobs import CHECK_DISKS, check_job
from ganeti_steward.plugins.model.routine import RoutineJob

NODES: Final = [node("n1"), node("n2"), node("n3")]
SUBJECT: Final = "disks of instances on n1"


def planned(*instances: Any, nodes: Any = NODES, interval: float = 300, **fields: Any) -> list[Any]:
    """The jobs of the tasks."""
    plugin = Plugin()
    plugin.configure(Maintd(disk_check_interval=interval))
    found = plugin.steward_routine(world(nodes, instances, **fields))
    return [job for task in found for job in task.jobs]  # type: ignore[union-attr]


def check(number: int, age: float, subject: str = SUBJECT, status: str = "success") -> RoutineJob:
    """A job that was submitted so many seconds ago."""
    submitted = NOW - int(age * SECOND)
    job = RoutineJob(number, "harep", CHECK_DISKS, subject, (), ())
    return job._replace(status=status, submitted=submitted)


def test_the_instances_of_each_node_are_checked_in_one_job() -> None:
    both = [instance("b", "n1", "n2"), instance("a", "n1", "n3"), instance("c", "n2", "n3")]
    assert planned(*both) == [check_job(["a", "b"]), check_job(["c"])]


@pytest.mark.parametrize(
    "other",
    [
        instance("x", "n1", template="plain"),
        instance("x", "n1", template="ext"),
        instance("x", "n1", "n2", tags=("maintd:off",)),
        instance("x", "n1", "n2", up=False),
        instance("x", "n1", "n4"),
    ],
)
def test_what_cannot_be_checked_is_left_out(other: Any) -> None:
    """Among those with a node that does not answer: Ganeti's job would fail."""
    nodes = [*NODES, node("n4", missing=("total_memory",))]
    assert planned(instance("a", "n1", "n2"), other, nodes=nodes) == [check_job(["a"])]


@pytest.mark.parametrize(
    ("before", "due"),
    [
        (check(1, 299), False),
        (check(1, 301), True),
        (check(1, 301, status="running"), False),
        (check(1, 10, subject="disks of instances on n2"), True),
    ],
)
def test_they_are_checked_again_after_the_interval(before: RoutineJob, due: bool) -> None:
    """Whichever plugin has checked them."""
    jobs = planned(instance("a", "n1", "n2"), routine=(before,))
    assert jobs == ([check_job(["a"])] if due else [])


def test_after_a_failure_each_is_checked_by_itself() -> None:
    failed = check(1, 10, status="error")
    jobs = planned(instance("a", "n1", "n2"), instance("b", "n1", "n2"), routine=(failed,))
    assert jobs == [check_job(["a"]), check_job(["b"])]


def test_no_interval_means_no_checks() -> None:
    assert planned(instance("a", "n1", "n2"), interval=0) == []
