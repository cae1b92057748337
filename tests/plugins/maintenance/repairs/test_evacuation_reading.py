"""The disks of instances that are going to leave a node are read by short jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from worlds import NOW, incident, instance, node, world

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.jobs import Submitted
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.repairs.reading import read_disks
from ganeti_steward.plugins.model.incident import JOB_SOURCE, PENDING, Incident, Submission
from ganeti_steward.plugins.model.world import World

GOOD = ["/dev/drbd0", 147, 0, None, None, False, 1]
CUT = ["/dev/drbd0", 147, 0, None, None, True, 1]
ILL = incident("n1", status=PENDING)


class Queue:
    """luxid whose queries of disks end as given, each by the other node of the instances."""

    def __init__(self, **ends: Any) -> None:
        """``ends``: name of an instance -> its state on both nodes, or a status of the job."""
        self.ends = ends
        self.jobs: list[Job] = []
        self.trails: list[Sequence[tuple[str, str]]] = []
        self.canceled: list[int] = []

    def submit_with_trails(
        self, jobs: Sequence[Job], trails: Sequence[Sequence[tuple[str, str]]]
    ) -> list[Submitted]:
        self.jobs += jobs
        self.trails += trails
        return [Submitted((number,)) for number, _ in enumerate(self.jobs, 1)]

    def states(self, numbers: Sequence[int]) -> list[JobState]:
        return [self._state(number) for number in numbers]

    def _state(self, number: int) -> JobState:
        names = self.jobs[number - 1][0]["instances"]
        found = self.ends[names[0]]
        if isinstance(found, str):
            return JobState(number, found, "no")
        return JobState(number, "success", results=[{name: self._data(found) for name in names}])

    @staticmethod
    def _data(status: Any) -> Mapping[str, Any]:
        disk = {"dev_type": "drbd", "iv_name": "disk/0", "pstatus": status, "sstatus": status}
        return {"pnode": "n1", "snodes": ["n2"], "run_state": "up", "disks": [disk]}

    def cancel(self, number: int) -> str:
        self.canceled.append(number)
        return ""


def seen(about: Incident = ILL, **of_third: Any) -> World:
    on_them = [
        instance("a", "n1", "n2"),
        instance("b", "n1", "n3"),
        instance("down", "n1", "n2", up=False),
        instance("elsewhere", "n2", "n1"),
        instance("shared", "n1", template="ext"),
    ]
    return world([node("n1"), node("n2"), node("n3", **of_third)], on_them, [about])


def read(queue: Queue, now: World, jobs: Mapping[int, JobState] | None = None) -> Any:
    waited: list[float] = []
    return read_disks(queue, now, jobs or {}, sleep=waited.append)  # type: ignore[arg-type]


def test_running_drbd_primaries_by_their_other_node() -> None:
    queue = Queue(a=GOOD, b=CUT)
    found = read(queue, seen())
    assert [job[0]["instances"] for job in queue.jobs] == [["a"], ["b"]]
    assert queue.trails == [[(JOB_SOURCE, ILL.uuid)]] * 2
    assert found["a"].in_sync
    assert found["a"].at == NOW
    assert found["b"].faults == ("disk/0 has lost its connection",)


def test_a_query_that_fails_hides_no_other() -> None:
    assert set(read(Queue(a="error", b=GOOD), seen())) == {"b"}


def test_one_that_waits_for_locks_is_cancelled() -> None:
    queue = Queue(a="waiting", b=GOOD)
    assert set(read(queue, seen())) == {"b"}
    assert queue.canceled == [1]


def test_a_node_that_does_not_answer_is_not_queried() -> None:
    queue = Queue(a=GOOD)
    assert set(read(queue, seen(offline=True))) == {"a"}


@pytest.mark.parametrize(
    ("status", "ended"), [("running", False), ("success", True), ("error", True)]
)
def test_nothing_is_read_while_a_job_runs(status: str, ended: bool) -> None:
    opened = Submission("s", "move", ("n1", "n2"), ("a",), NOW, jobs=(5,))
    queue = Queue(a=GOOD, b=GOOD)
    found = read(queue, seen(ILL._replace(open=(opened,))), {5: JobState(5, status)})
    assert bool(found) == ended


def test_an_incident_that_waits_is_read_once() -> None:
    queue = Queue(a=GOOD, b=GOOD)
    noted = incident("n1")
    assert read(queue, seen(noted))
    assert not read(queue, seen(noted._replace(synced=(("a", NOW),))))
    assert not read(queue, seen(incident("n1", "live-repair", status=PENDING)))


def test_luxid_does_not_answer() -> None:
    queue = Queue()

    def fail(*_: object) -> Any:
        raise StewardError("luxid is stopped")

    queue.submit_with_trails = fail  # type: ignore[method-assign]
    assert read(queue, seen()) == {}
