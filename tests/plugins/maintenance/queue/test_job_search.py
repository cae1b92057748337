"""Finding jobs by their reasons, in a queue that is read in pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from daemons import luxid

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.maintenance.queue.job_search import FoundJob, jobs_with_reason, last_job

MAINTD = "gnt:daemon:maintd"


def operation(*reasons: tuple[str, str]) -> dict[str, Any]:
    return {"OP_ID": "OP_TEST_DELAY", "reason": [[source, text, 1] for source, text in reasons]}


QUEUE: dict[int, list[Any]] = {
    2: ["success", [operation((MAINTD, "u1"), ("luxid", "x"))]],
    3: ["error", [operation(("gnt:user", "u1"))]],
    5: ["running", [operation(("gnt:user", MAINTD)), operation(("a", "b"), (MAINTD, "u2"))]],
    6: ["queued", []],
    11: ["queued", [operation((MAINTD, "u1"))]],
}


def answer(method: str, arguments: list[Any]) -> Any:
    """As luxid answers the two conditions that are used."""
    what, fields, condition = arguments
    assert (method, what) == ("Query", "job")
    if fields == ["id"]:
        assert condition[:2] == [">", "id"]
        # luxid gives them in no promised order.
        return {"data": [[[0, n]] for n in reversed(QUEUE) if n > condition[2]]}
    assert fields == ["id", "status", "ops"]
    _, (_, _, first), (_, _, last) = condition
    assert condition == ["&", [">=", "id", first], ["<=", "id", last]]
    pairs = ((n, job) for n, job in QUEUE.items() if first <= n <= last)
    return {"data": [[[0, n], [0, job[0]], [0, job[1]]] for n, job in pairs]}


@pytest.mark.parametrize(
    ("source", "text", "after", "found"),
    [
        (MAINTD, None, 0, [2, 5, 11]),
        (MAINTD, "u1", 0, [2, 11]),
        (MAINTD, "u2", 0, [5]),
        (MAINTD, "u1", 2, [11]),
        (MAINTD, "u", 0, []),
        (MAINTD, "b", 0, []),
        ("gnt:daemon", None, 0, []),
        (MAINTD, None, 11, []),
    ],
)
@pytest.mark.parametrize("page", [1, 2, 100])
def test_the_jobs_of_a_reason(
    tmp_path: Path, source: str, text: str | None, after: int, found: list[int], page: int
) -> None:
    with luxid(tmp_path, answer) as daemon:
        jobs = jobs_with_reason(Luxi(daemon.path), source, text, after=after, page=page)
    assert [job.number for job in jobs] == found
    rows = sum(number > after for number in QUEUE)
    assert len(daemon.requests) == 1 + -(-rows // page)


def test_what_is_known_of_a_job(tmp_path: Path) -> None:
    with luxid(tmp_path, answer) as daemon:
        (job,) = jobs_with_reason(Luxi(daemon.path), MAINTD, "u2")
    assert job == FoundJob(
        5,
        "running",
        ("OP_TEST_DELAY", "OP_TEST_DELAY"),
        (
            (Reason("gnt:user", MAINTD, 1),),
            (Reason("a", "b", 1), Reason(MAINTD, "u2", 1)),
        ),
    )


@pytest.mark.parametrize("damage", [None, [{}], [5], [{"OP_ID": "x", "reason": [[1]]}]])
def test_a_job_that_cannot_be_read_hides_no_other(tmp_path: Path, damage: Any) -> None:
    good = [operation((MAINTD, "u"))]

    def broken(method: str, arguments: list[Any]) -> Any:
        if arguments[1] == ["id"]:
            return {"data": [[[0, 1]], [[0, 2]]]}
        # A damaged file has no values, with status 3.
        bad = [[0, 1], [3, None], [3, None]] if damage is None else [[0, 1], [0, "x"], [0, damage]]
        return {"data": [bad, [[0, 2], [0, "queued"], [0, good]]]}

    with luxid(tmp_path, broken) as daemon:
        jobs = jobs_with_reason(Luxi(daemon.path), MAINTD)
    assert [job.number for job in jobs] == [2]


@pytest.mark.parametrize(
    ("text", "number"),
    [("35\n", 35), ("0", 0), ("", None), ("x\n", None), ("-1\n", None), ("1\n2\n", None)],
)
def test_the_last_job(tmp_path: Path, text: str, number: int | None) -> None:
    assert last_job(str(tmp_path)) is None
    (tmp_path / "queue").mkdir()
    (tmp_path / "queue/serial").write_text(text)
    assert last_job(str(tmp_path)) == number
