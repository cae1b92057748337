"""The jobs that have not ended: also one that is stored after a job of a higher number."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import clusters
from standin import StandIn
from standin_server import serving

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.plugins.maintenance.queue.orphans import OpenJobs


class Queue(Luxi):
    """A queue whose jobs the test stores and ends, in any order."""

    def __init__(self) -> None:
        super().__init__("/nowhere")
        self.status: dict[int, str] = {}
        self.archived: dict[int, str] = {}
        self.read: list[int] = []
        """numbers of the jobs whose files were read"""

    def rows(
        self, what: str, fields: Sequence[str], condition: Sequence[Any] | None = None
    ) -> list[dict[str, Any]]:
        assert condition is not None
        if condition[0] == "|":
            found = {**self.archived, **self.status}
            numbers = [one[2] for one in condition[1:]]
            self.read += numbers
            return [{"id": one, "status": found.get(one), "ops": []} for one in numbers]
        since = condition if condition[0] == ">=" else condition[1]
        numbers = [one for one in self.status if one >= since[2]]
        if condition[0] == "&":
            self.read += numbers
            words = {one[2] for one in condition[2][1:]}
            numbers = [one for one in numbers if self.status[one] in words]
        return [{"id": one, "status": self.status[one], "ops": []} for one in numbers]


def numbers(jobs: OpenJobs) -> list[int]:
    return [row["id"] for row in jobs.read()]


def test_a_lower_number_is_stored_later() -> None:
    queue = Queue()
    jobs = OpenJobs(queue)
    queue.status[6] = "queued"
    assert numbers(jobs) == [6]
    queue.status[5] = "queued"
    assert numbers(jobs) == [5, 6]
    queue.status[6] = "success"
    queue.status[8] = "running"
    assert numbers(jobs) == [5, 8]
    queue.status[5] = "success"
    assert numbers(jobs) == [8]
    queue.status[7] = "waiting"
    assert numbers(jobs) == [7, 8]
    assert jobs.last == 8


def test_what_has_ended_is_not_read_again() -> None:
    queue = Queue()
    jobs = OpenJobs(queue)
    queue.status = dict.fromkeys(range(1, 50), "success") | {50: "running", 51: "error"}
    assert numbers(jobs) == [50]
    queue.read.clear()
    assert numbers(jobs) == [50]
    assert queue.read == [50, 51]
    queue.status[50] = "success"
    assert numbers(jobs) == []
    queue.read.clear()
    assert numbers(jobs) == []
    assert queue.read == []


def test_archived_jobs_are_not_missing() -> None:
    queue = Queue()
    jobs = OpenJobs(queue)
    queue.archived = dict.fromkeys(range(1, 90), "success")
    queue.status = {90: "running"}
    assert numbers(jobs) == [90]
    queue.read.clear()
    assert numbers(jobs) == [90]
    assert queue.read == [90]
    queue.archived[90] = queue.status.pop(90)
    assert numbers(jobs) == []
    assert jobs.last == 90


def test_only_the_highest_missing_numbers_are_looked_for() -> None:
    queue = Queue()
    jobs = OpenJobs(queue)
    queue.status = {100_000: "running"}
    assert numbers(jobs) == [100_000]
    assert len(queue.read) == 1001
    queue.status[99_500] = "queued"
    assert numbers(jobs) == [99_500, 100_000]


def test_numbers_that_are_given_out_again() -> None:
    """By a master that had no copy of the queue: those of its jobs are lower than others."""
    queue, given = Queue(), [3]
    jobs = OpenJobs(queue, lambda: given[0])
    queue.status = dict.fromkeys(range(1, 36), "success")
    assert (numbers(jobs), jobs.last) == ([], 3)
    given[0], queue.status[4] = 4, "running"
    assert (numbers(jobs), jobs.last) == ([4], 4)
    given[0], queue.status[4], queue.status[5] = 5, "success", "queued"
    assert (numbers(jobs), jobs.last) == ([5], 5)


def test_a_number_that_was_given_out_and_is_stored_later() -> None:
    queue, given = Queue(), [2]
    jobs = OpenJobs(queue, lambda: given[0])
    queue.status = {1: "success"}
    assert (numbers(jobs), jobs.last) == ([], 2)
    given[0], queue.status[3] = 3, "queued"
    assert numbers(jobs) == [3]
    queue.status[2] = "queued"
    assert numbers(jobs) == [2, 3]


def test_of_the_stand_in(tmp_path: Path) -> None:
    stand_in = StandIn(clusters.generate("--nodes=3", "--groups=1", "--mix=drbd=1"))
    stand_in.pace(3600)
    delay = {"OP_ID": "OP_TEST_DELAY", "duration": 1, "reason": []}
    with serving(tmp_path, stand_in) as luxi:
        jobs = OpenJobs(luxi)
        assert (numbers(jobs), jobs.last) == ([], 0)
        luxi.call("SubmitManyJobs", [[delay]] * 3)
        stand_in.queue.rows[2]["status"] = "success"
        assert numbers(jobs) == [1, 3]
