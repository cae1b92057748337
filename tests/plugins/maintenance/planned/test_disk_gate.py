"""No maintenance begins before ``gnt-cluster verify-disks`` is clean, on the whole cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from maintained import CONFIG
from upkept import Upkept
from worlds import instance, node, uuid_of, world

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.jobs import Submitted
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.repairs.disk_gate import verify_disks
from ganeti_steward.plugins.model.world import World

WORLD = world(
    [node("n1", group="a"), node("n2", group="a"), node("n3", group="b"), node("n4", group="c")],
    [instance("one", "n1", "n2"), instance("two", "n2", "n1"), instance("plain", "n3")],
)
CLEAN = [{}, [], {}]


class Queue:
    """luxid whose checks of node groups end as given."""

    def __init__(self, *ends: Any) -> None:
        """``ends``: the result of each job, or its status."""
        self.ends = ends
        self.jobs: list[Job] = []
        self.canceled: list[int] = []

    def submit_with_trails(self, jobs: Sequence[Job], trails: Sequence[Any]) -> list[Submitted]:
        assert len(jobs) == len(trails)
        self.jobs += jobs
        return [Submitted((number,)) for number, _ in enumerate(jobs, 1)]

    def states(self, numbers: Sequence[int]) -> list[JobState]:
        return [self._state(number, self.ends[number - 1]) for number in numbers]

    @staticmethod
    def _state(number: int, end: Any) -> JobState:
        if isinstance(end, str):
            return JobState(number, end, "no such group")
        return JobState(number, "success", results=[end])

    def cancel(self, number: int) -> str:
        self.canceled.append(number)
        return ""


def verify(*ends: Any) -> tuple[str, ...]:
    return verify_disks(Queue(*ends), WORLD, sleep=lambda seconds: None)  # type: ignore[arg-type]


def test_each_node_group_with_instances_is_verified() -> None:
    queue = Queue(CLEAN, CLEAN)
    assert verify_disks(queue, WORLD, sleep=lambda seconds: None) == ()  # type: ignore[arg-type]
    assert queue.jobs == [
        [{"OP_ID": "OP_GROUP_VERIFY_DISKS", "group_name": name}] for name in ("a", "b")
    ]
    assert verify_disks(Queue(), world([node("n1")])) == ()  # type: ignore[arg-type]


def test_what_is_found_is_named() -> None:
    lost = {"two": [[uuid_of("n1"), "vg/a"], [uuid_of("n1"), "vg/b"], [uuid_of("n2"), "vg/c"]]}
    assert verify([{uuid_of("n2"): "no route"}, ["two", "one"], lost], CLEAN) == (
        "gnt-cluster verify-disks cannot read the volumes of n2: no route",
        "gnt-cluster verify-disks: the disks must be activated of 2 instances: one, two",
        "gnt-cluster verify-disks: volumes are missing of 1 instance: two (on n1 and n2)",
    )
    many = [f"i{number}" for number in range(9)]
    (sentence,) = verify([{"gone": "x"}, [], {}], CLEAN)
    assert sentence.endswith("cannot read the volumes of gone: x")
    (sentence,) = verify(CLEAN, [{}, many, {}])
    assert sentence.endswith("9 instances: i0, i1, i2, i3, i4 and 4 more")


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ("error", "job 2 ended with error: no such group"),
        ("waiting", "job 2 did not end within 20 s: another job may hold its locks"),
        ([], "job 2 did not return what Ganeti 3 returns (ValueError)"),
        ([[], [], {}], "job 2 did not return what Ganeti 3 returns (AttributeError)"),
        ([{}, [], {"one": [3]}], "job 2 did not return what Ganeti 3 returns (TypeError)"),
    ],
)
def test_what_is_not_known_is_not_clean(end: Any, why: str) -> None:
    assert verify(CLEAN, end) == (f"gnt-cluster verify-disks of node group b has no result: {why}",)


def test_luxid_does_not_answer() -> None:
    queue = Queue()

    def fail(*_: object) -> Any:
        raise StewardError("luxid is stopped")

    queue.submit_with_trails = fail  # type: ignore[method-assign]
    found = verify_disks(queue, WORLD)  # type: ignore[arg-type]
    assert found == ("gnt-cluster verify-disks has no result: luxid is stopped",)


# In the engine

SEEN = "gnt-cluster verify-disks: the disks must be activated of 1 instance: drbd3"


def having(cluster: Upkept, unclean: tuple[str, ...] | None) -> Callable[[], World]:
    """A reading of the world with this result; the one before."""
    before = cluster.world
    cluster.world = lambda: before()._replace(unclean=unclean)  # type: ignore[method-assign]
    return before


@pytest.mark.parametrize(
    ("unclean", "why"),
    [((SEEN,), SEEN), (None, "gnt-cluster verify-disks is run in the next round")],
)
def test_nothing_begins_unless_it_is_clean(unclean: tuple[str, ...] | None, why: str) -> None:
    cluster = Upkept()
    cluster.request("node2")
    before = having(cluster, unclean)
    for _ in range(3):
        assert cluster.round().started == ()
        assert cluster.held() == {"gate": f"the maintenance of node2 waits: {why}"}
    cluster.world = before  # type: ignore[method-assign]
    assert cluster.round().started
    # What has begun goes on.
    having(cluster, unclean)
    cluster.run()
    assert cluster.running_on("node2") == []


def test_what_waits_for_something_else_does_not_wait_for_the_next_round() -> None:
    cluster = Upkept(config=CONFIG._replace(windows=()))
    cluster.request("node2")
    cluster.request("node3")
    cluster.round()
    having(cluster, None)
    cluster.round()
    assert "most-nodes" in cluster.held()
    assert "gate" not in cluster.held()
