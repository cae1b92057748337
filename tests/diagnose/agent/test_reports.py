"""The report that the agent serves, when the disk that holds it fails."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ganeti_steward.diagnose.agent.reports import Reports

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
