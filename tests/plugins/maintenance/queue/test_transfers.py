"""Migrations that copy memory, by the logs of their jobs, and which of them are slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from daemons import luxid
from worlds import SECOND, incident

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.plugins.maintenance.queue.transfers import late_jobs, transfer_in, transfers
from ganeti_steward.plugins.model.incident import Submission
from ganeti_steward.plugins.model.progress import Transfer

if TYPE_CHECKING:
    from pathlib import Path

#: Texts of Ganeti's lib/cmdlib/instance_migration.py, with what comes before them.
BEGUN: Final = [
    (1, "Migrating instance web.lab"),
    (2, "* checking disk consistency between source and target"),
    (3, "* migrating instance to node2.lab"),
    (4, "* starting memory transfer"),
]
COPIED: Final = [
    *BEGUN,
    (14, "* memory transfer progress: 61.25 %"),
    (24, "* memory transfer progress: 118.40 %"),
]


@pytest.mark.parametrize(
    ("log", "found"),
    [
        ([], None),
        (BEGUN[:3], None),
        (BEGUN, Transfer(4)),
        (COPIED, Transfer(4, 118.4)),
        ([*COPIED, (30, "* memory transfer has switched to postcopy")], Transfer(4, 118.4)),
        ([*COPIED, (30, "* memory transfer complete")], None),
        ([*COPIED, (30, "Migration failed, aborting")], None),
        # Of an operation before.
        ([*COPIED, (30, "* memory transfer complete"), (31, "* done"), *BEGUN], Transfer(4)),
        ([(1, "* memory transfer progress: 61.25 %")], None),
        ([*BEGUN, (14, "* memory transfer progress: nan %")], Transfer(4)),
    ],
)
def test_what_a_log_shows(log: list[tuple[int, str]], found: Transfer | None) -> None:
    assert transfer_in(log) == found


def test_logs_of_luxid(tmp_path: Path) -> None:
    """Each operation has its own log; of an unknown job there is none."""
    log = [[number, [at, 500], "message", text] for number, (at, text) in enumerate(COPIED)]
    log.append([9, [25, 0], "remote-import", {"disks": []}])
    calls: list[Any] = []

    def answer(method: str, arguments: Any) -> Any:
        calls.append((method, arguments))
        return [[7, [[], log]], [8, [[]]], [9, None]]

    with luxid(tmp_path, answer) as daemon:
        luxi = Luxi(daemon.path)
        assert transfers([7, 8, 9], luxi) == {7: Transfer(4 * SECOND + 500_000, 118.4)}
    assert calls == [("QueryJobs", [[7, 8, 9], ["id", "oplog"]])]


@pytest.mark.parametrize(
    "given", [5, [["x", "y"]], [[7, 5]], [[7, [5]]], [[7, [[[1, 5, "message", "x"]]]]], {"data": 5}]
)
def test_an_answer_of_another_form(tmp_path: Path, given: Any) -> None:
    with (
        luxid(tmp_path, lambda method, arguments: given) as daemon,
        pytest.raises(StewardError, match="this is not what Ganeti 3 returns"),
    ):
        transfers([7], Luxi(daemon.path))


def test_which_jobs_are_late() -> None:
    """Those that run, and that were handed over long ago."""
    jobs = {number: JobState(number, "running") for number in (1, 2, 4)}
    jobs[3] = JobState(3, "waiting")
    old = Submission("s1", "move", (), (), 100, jobs=(3, 2, 1, 9))
    new = Submission("s2", "move", (), (), 101, jobs=(4,))
    found = incident("n1", open=(old, new))
    assert late_jobs([found], jobs, 100) == [1, 2]
    assert late_jobs([found], jobs, 99) == []
