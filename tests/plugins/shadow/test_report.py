"""``gnt-steward shadow report``: sums of the comparisons in a log."""

from __future__ import annotations

import gzip
import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from ganeti_steward.core.log import Lines
from ganeti_steward.plugins.shadow.report import comparisons, sums

if TYPE_CHECKING:
    from front import Front

HAIL: Final = "command:/usr/lib/ganeti/iallocators/hail"
_AT: Final = time.mktime((2026, 1, 7, 12, 0, 0, 0, 0, -1))


def line(text: str, after: float = 0, level: int = logging.INFO) -> str:
    """A line as the allocator logs it."""
    record = logging.LogRecord("x", level, "x", 1, text, (), None)
    record.created = _AT + after
    record.msecs = 5
    return Lines().format(record)


def compared(
    outcome: str, score: str = "-/-", *, same: str = "no", shadow: str = HAIL, ms: int = 11
) -> str:
    """``outcome``: the answer, and the shadow's."""
    answered, answer = outcome.split()
    return (
        f"compared={shadow} request=allocate name=new1.lab same={same} answered={answered} "
        f"shadow={answer} score={score} ms={ms}"
    )


LOG: Final = [
    line(compared("a/b a/b", "1.5/1.5", same="yes")),
    line("request type=allocate instance=new1.lab status=0 ms=9", 1),
    line(compared("a/b c/d", "1.9/1.7"), 60),
    line(compared("a/b c/e", "1.9/2.2", ms=400), 120),
    line(compared("a/b b/a", "1.9/1.9", same="tie"), 180),
    line(compared("refused c/d", "-/1.7"), 240),
    line(compared("a/b refused", "1.7/-") + " info=FailMem: 3", 300),
    line(compared("a/b failed", "1.7/-") + " info=plugin x: it took longer than 1 s", 360),
    line(compared("a/b not-mine", "1.7/-"), 420),
    line(compared("count:12 count:11"), 480),
    line(compared("a/b c/d", "1/2", shadow="packed"), 86400 * 2),
    "Traceback of compared= nothing",
]


def test_sums() -> None:
    hail, packed = sums(comparisons(LOG))
    assert (hail.shadow, hail.request, hail.number) == (HAIL, "allocate", 9)
    assert set(hail.outcomes.values()) == {1}
    assert len(hail.outcomes) == 9
    assert hail.lower == pytest.approx((0.2 - 0.3) / 3)
    assert (hail.first, hail.last) == ("2026-01-07 12:00:00", "2026-01-07 12:08:00")
    assert (hail.median, hail.longest) == (11, 400)
    assert {name: n for name, n in packed.outcomes.items() if n} == {"worse": 1}


def test_text(front: Front, tmp_path: Path) -> None:
    file = tmp_path / "steward.log"
    file.write_text("\n".join(LOG))
    done = front("shadow", "report", str(file))
    assert (done.status, done.err) == (0, "")
    first, second = done.out.split("\n\n")
    assert first.startswith(
        f"{HAIL}\nallocate: 9 comparisons from 2026-01-07 12:00:00 to 2026-01-07 12:08:00\n"
    )
    assert "\nbetter  1      11 %  other places with a lower score\n" in first
    assert "\nwhere places differ its score is 0.03333333 higher on average\n" in first
    assert "time: 11 ms in the median, 400 ms at most" in first
    assert second.startswith("packed\nallocate: 1 comparison from 2026-01-09 12:00:00 to ")
    assert "better" not in second
    assert max(map(len, done.out.splitlines())) <= 80


def test_data_and_list(front: Front, tmp_path: Path) -> None:
    file = tmp_path / "steward.log.1.gz"
    file.write_bytes(gzip.compress("\n".join(LOG).encode()))
    rows = json.loads(front("shadow", "report", "--json", str(file)).out)
    assert [(one["shadow"], one["compared"], one["worse"]) for one in rows] == [
        (HAIL, 9, 1),
        ("packed", 1, 1),
    ]
    listed = front("shadow", "report", "-o", "shadow,same", "--separator=|", str(file)).out
    assert listed.splitlines() == ["Shadow|Same", f"{HAIL}|1", "packed|0"]


def test_the_configured_log_with_rotated_files(front: Front, tmp_path: Path) -> None:
    log = tmp_path / "steward.log"
    front.write_configuration("", f'[log]\nfile = "{log}"\n')
    log.write_text("\n".join(LOG[:2]))
    (tmp_path / "steward.log.1").write_text(LOG[2])
    (tmp_path / "steward.log.2.gz").write_bytes(gzip.compress(LOG[3].encode()))
    (row,) = json.loads(front("shadow", "report", "--json").out)
    assert row["compared"] == 3
    # All of it is long ago.
    assert front("shadow", "report", "--days", "1").status == 1


def test_nothing_is_compared(front: Front, tmp_path: Path) -> None:
    file = tmp_path / "steward.log"
    file.write_text(LOG[1])
    done = front("shadow", "report", str(file))
    assert (done.status, done.out) == (1, "")
    assert f"no comparison is in {file}: shadows are configured in [shadow]" in done.err
    missing = front("shadow", "report", str(tmp_path / "none"))
    assert "none: No such file or directory" in missing.err
    broken = tmp_path / "x.gz"
    broken.write_text("no archive")
    assert "x.gz: " in front("shadow", "report", str(broken)).err
    assert "a log" not in missing.err
    damaged = tmp_path / "y.gz"
    damaged.write_bytes(gzip.compress(b"x" * 1000)[:10] + b"y" * 30)
    assert "y.gz: " in front("shadow", "report", str(damaged)).err
    wrong = front("shadow", "report", "--days", "x")
    assert wrong.status == 2
    assert "a number of days above 0 is expected, not 'x'" in wrong.err


def test_no_log_is_configured(front: Front) -> None:
    front.configure()
    assert "no log is configured ([log] file); name one" in front("shadow", "report").err
