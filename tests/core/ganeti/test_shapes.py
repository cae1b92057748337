"""Answers of another form than Ganeti's are errors of ours, whichever call they are for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from daemons import luxid

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.shapes import checked, job_number

DELAY = {"OP_ID": "OP_TEST_DELAY"}
ODD: tuple[Any, ...] = (5, "x", [[5]], [["x", "y", "z", "u"]], {"data": 5}, {"data": [5]})
CALLS: dict[str, Callable[[Luxi], object]] = {
    "rows": lambda luxi: luxi.rows("job", ("id",)),
    "submit": lambda luxi: luxi.submit([[DELAY]], "why"),
    "states": lambda luxi: luxi.states([7]),
    "ends": lambda luxi: luxi.ends([7]),
}


@pytest.mark.parametrize("answer", ODD)
@pytest.mark.parametrize("call", CALLS)
def test_luxid(tmp_path: Path, call: str, answer: Any) -> None:
    with (
        luxid(tmp_path, lambda method, arguments: answer) as daemon,
        pytest.raises(StewardError, match="this is not what Ganeti 3 returns"),
    ):
        CALLS[call](Luxi(daemon.path))


@pytest.mark.parametrize("answers", [[[True, 1]], [[True, 1]] * 3, [[True, "7"]] * 2])
def test_each_job_has_an_answer(tmp_path: Path, answers: list[Any]) -> None:
    """Otherwise it is not known which jobs were taken."""
    with (
        luxid(tmp_path, lambda method, arguments: answers) as daemon,
        pytest.raises(StewardError, match="this is not what Ganeti 3 returns"),
    ):
        Luxi(daemon.path).submit([[DELAY], [DELAY]], "why")


@pytest.mark.parametrize(
    ("what", "row"),
    [
        ("node", {"name": None}),
        ("node", {"name": "a", "tags": "b"}),
        ("node", {"offline": 1}),
        ("node", {"mfree": "5"}),
        ("instance", {"snodes": [5]}),
        ("instance", {"uuid": None}),
        ("job", {"id": "5"}),
        ("cluster", {"tags": {}}),
        ("cluster", {"tags": None}),
        ("cluster", {"beparams": {}}),
        ("filter", {"uuid": 5}),
    ],
)
def test_fields_of_another_type(what: str, row: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"a {what}"):
        checked(what, row)


def test_fields_that_are_good() -> None:
    for what, row in (
        ("instance", {"name": None, "uuid": "u", "oper_ram": None, "nic.ips": [None, "1.2.3.4"]}),
        ("node", {"name": "a", "mfree": 5.5, "unknown": object()}),
        ("lock", {"name": 5}),
    ):
        assert checked(what, row) is row


@pytest.mark.parametrize("value", [0, -5, True, "5", 5.0, None])
def test_numbers_of_jobs(value: object) -> None:
    with pytest.raises(ValueError, match="as the number of a job"):
        job_number(value)


@pytest.mark.parametrize("field", ["tags", "beparams", "candidate_pool_size"])
def test_what_every_cluster_has(tmp_path: Path, field: str) -> None:
    """A reader that does not look whether it is there raises an error of ours."""
    with (
        luxid(tmp_path, lambda method, arguments: {"name": "c"}) as daemon,
        pytest.raises(StewardError, match=f"this is not what Ganeti 3 returns \\(no {field}\\)"),
    ):
        Luxi(daemon.path).info()[field]
