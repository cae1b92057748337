"""What jobs that checked disks found is kept as long as the job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.plugins.maintenance.engine.decision import RoutineStarted
from ganeti_steward.plugins.maintenance.queue.routine_jobs import RoutineJobs
from ganeti_steward.plugins.maintenance.queue.short_jobs import CHECK_DISKS, check_job
from ganeti_steward.plugins.maintenance.queue.submit import trail
from ganeti_steward.plugins.model.disks import DiskHealth
from ganeti_steward.plugins.model.task import Task

_SECOND: Final = 10**9
_GOOD: Final = ["/dev/drbd0", 147, 0, None, None, False, 1]
_BAD: Final = ["/dev/drbd0", 147, 0, None, None, True, 4]


class _Queue:
    """A luxid with two ended checks of one instance."""

    def __init__(self) -> None:
        self.found = {1: _BAD, 2: _GOOD}

    def rows(self, what: str, fields: Sequence[str], condition: Any = None) -> list[dict[str, Any]]:
        task = Task(CHECK_DISKS, frozenset(), frozenset(), "check", [check_job(["i1"])])
        reasons = trail(RoutineStarted("harep", "id", task), 0)
        return [
            {
                "id": number,
                "status": "success",
                "ops": [
                    {
                        "OP_ID": "OP_INSTANCE_QUERY_DATA",
                        "reason": [[*one, number * _SECOND] for one in reasons],
                    }
                ],
            }
            for number in self.found
            if condition[0] == "&" or condition[2] < number
        ]

    def states(self, numbers: Sequence[int]) -> list[JobState]:
        return [JobState(one, "success", results=[self._data(self.found[one])]) for one in numbers]

    def ends(self, numbers: Sequence[int]) -> dict[int, int]:
        return {number: number * 100 * _SECOND for number in numbers}

    def _data(self, secondary: list[Any]) -> dict[str, Any]:
        disk = {"iv_name": "disk/0", "dev_type": "drbd", "pstatus": _GOOD, "sstatus": secondary}
        return {"i1": {"pnode": "n1", "snodes": ["n2"], "run_state": "up", "disks": [disk]}}


def test_the_last_check_counts() -> None:
    queue = _Queue()
    jobs = RoutineJobs(cast("Luxi", queue), lambda: True)
    minors = (("n1", 0), ("n2", 0))
    assert jobs.look(300 * _SECOND).disks == {
        "i1": DiskHealth(2 * _SECOND, nodes=("n1", "n2"), minors=minors)
    }
    # The first one is forgotten before the second, an hour after its end.
    assert [one.number for one in jobs.look(3750 * _SECOND).jobs] == [2]
    assert jobs.look(3900 * _SECOND).disks == {}


def test_an_earlier_check_counts_for_what_a_later_one_leaves_out() -> None:
    queue = _Queue()
    jobs = RoutineJobs(cast("Luxi", queue), lambda: True)
    del queue.found[2]
    assert jobs.look(0).disks["i1"].faults == ("disk/0 is faulty on n2",)
