"""The report that the agent serves, when the disk that holds it fails."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ganeti_steward.diagnose.agent import reports as reports_module
from ganeti_steward.diagnose.agent.reports import BadReport, Reports

_T = TypeVar("_T")


class Disk:
    """Answers ``left`` more questions."""

    left = 1000

    def __call__(self, question: Callable[[], _T], /) -> _T:
        if self.left <= 0:
            raise TimeoutError(110, "no answer")
        self.left -= 1
        return question()


def write(path: Path, status: str) -> None:
    report = {
        "name": "diagnose",
        "timestamp": 0,
        "unknown": [],
        "node": "node1",
        "data": {"status": status},
    }
    new = path.with_suffix(".new")
    new.write_text(json.dumps(report))
    new.chmod(0o600)
    os.replace(new, path)


def reported_status(reports: Reports) -> Any:
    return json.loads(reports.text())["data"]["status"]


def test_what_was_read_is_served_while_the_disk_is_dead(tmp_path: Path) -> None:
    path, disk = tmp_path / "report.json", Disk()
    write(path, "Ok")
    reports = Reports(str(path), 900, lambda: 0, lambda _: True, disk)
    assert reported_status(reports) == "Ok"
    write(path, "evacuate")
    disk.left = 0
    assert reported_status(reports) == "Ok"
    # It shows that there is another file, and then nothing more.
    disk.left = 1
    assert reported_status(reports) == "Ok"
    disk.left = 1000
    assert reported_status(reports) == "evacuate"


def test_a_report_that_cannot_be_used_ends_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write(path, "Ok")
    reports = Reports(str(path), 900, lambda: 0, lambda _: True)
    assert reported_status(reports) == "Ok"
    too_long = b'{"name": "diagnose", "data": "' + b"x" * 2**24 + b'"}'
    for raw in (too_long, b"torn"):
        with pytest.raises(BadReport):
            reports.take(raw)
        assert json.loads(reports.text())["data"] is None
        reports.take(path.read_bytes())
        assert reported_status(reports) == "Ok"
    path.write_bytes(too_long)
    report = json.loads(reports.text())
    assert (report["data"], report["unknown"]) == (
        None,
        [
            {
                "source": "diagnose",
                "reason": "the last report cannot be used: it has more than 16777216 bytes",
            }
        ],
    )


def test_a_report_is_written_as_json_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each request, but again when it becomes too old or another one is there."""
    path, now = tmp_path / "report.json", 0
    written = 0

    def counting(value: object) -> bytes:
        nonlocal written
        written += 1
        return json.dumps(value).encode()

    monkeypatch.setattr(reports_module, "canonical", counting)
    write(path, "Ok")
    reports = Reports(str(path), 900, lambda: now, lambda _: True)
    assert {reported_status(reports) for _ in range(50)} == {"Ok"}
    assert written == 1
    now = 901 * 10**9
    assert {json.loads(reports.text())["data"] for _ in range(50)} == {None}
    assert written == 2
    now = 0
    write(path, "evacuate")
    assert {reported_status(reports) for _ in range(50)} == {"evacuate"}
    assert written == 3


@pytest.mark.parametrize(("ahead", "served"), [(59, True), (61, False)])
def test_a_report_may_be_a_minute_ahead_of_the_clock(
    tmp_path: Path, ahead: int, served: bool
) -> None:
    """The clock may have been set back a little."""
    path, now = tmp_path / "report.json", 10**18
    report = {
        "name": "diagnose",
        "timestamp": now + ahead * 10**9,
        "unknown": [],
        "node": "node1",
        "data": {"status": "Ok"},
    }
    path.write_text(json.dumps(report))
    path.chmod(0o600)
    found = json.loads(Reports(str(path), 900, lambda: now, lambda _: True).text())
    assert (found["data"] is not None) is served
    assert [one["reason"] for one in found["unknown"]] == (
        [] if served else ["the last report is from the future"]
    )
