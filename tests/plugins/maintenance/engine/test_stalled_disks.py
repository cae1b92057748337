"""How long disks are synchronized without progress, from what checks of them find."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from worlds import SECOND, instance, node, world

from ganeti_steward.plugins.maintenance.engine.copies import LastSeen, seen_now, with_progress
from ganeti_steward.plugins.model.disks import DiskHealth, split_brains

LIMIT = 1800.0
START = 1_700_000_000
TWO = (("n1", 3), ("n2", 5))
WORLD = world([node("n1"), node("n2")], [instance("a", "n1", "n2")])


class Checks:
    """Rounds of the daemon, each with a check of the disks."""

    def __init__(self) -> None:
        self.seen, self.now = LastSeen(), START

    def check(self, percent: float, *, seconds: int = 60, **more: Any) -> DiskHealth:
        """What a round knows; ``seconds``: since the last one, as the clock has it."""
        self.now += seconds
        at = self.now * SECOND
        fields = {"syncing": True, "percents": (percent,), "minors": TWO, "nodes": ("n1", "n2")}
        now = WORLD._replace(now=at, disks={"a": DiskHealth(at, **(fields | more))})
        self.seen = seen_now(self.seen, now, LIMIT)
        return with_progress(now, self.seen)["a"]


def test_without_progress_it_stalls() -> None:
    checks = Checks()
    found = [checks.check(100.0) for _ in range(40)]
    assert [one.stalled for one in found] == [False] * 30 + [True] * 10
    assert found[0].progress == "its disks are being synchronized, for 0 s now; 100 % is done"
    assert found[10].progress == "its disks are being synchronized, for 600 s now; 100 % is done"
    assert found[-1].progress == (
        "its disks are being synchronized, for 2340 s now; 100 % is done; it stalls: no "
        "progress for 2340 s; see /proc/drbd: minor 3 on n1, minor 5 on n2"
    )
    assert checks.check(100.0, minors=()).progress.endswith("no progress for 2400 s")
    moved = checks.check(100.1, seconds_left=90)
    assert (moved.stalled, moved.still) == (False, 0)
    assert moved.progress.endswith("; 100.1 % is done, 90 s are left")
    assert checks.check(0, syncing=False) == DiskHealth(
        checks.now * SECOND, percents=(0,), minors=TWO, nodes=("n1", "n2")
    )
    assert checks.check(1.0).since == checks.now * SECOND


@pytest.mark.parametrize("seed", range(50))
def test_with_progress_it_never_does(seed: int) -> None:
    """At random: progress, rounds that are late, ends, clocks that are set, another secondary."""
    chance, checks = Random(seed), Checks()
    percent, still, nodes = 0.0, 0, ("n1", "n2")
    for _ in range(300):
        seconds = chance.choice((60, 60, 60, 300))
        still += seconds
        if still > 1100 or chance.random() < 0.3:
            percent, still = (percent + 0.1 * chance.randrange(1, 40)) % 100.0, 0
        if chance.random() < 0.02:
            nodes = ("n1", chance.choice(("n2", "n3")))
        jump = chance.choice((-9000, 9000)) if chance.random() < 0.01 else 0
        # One jump counts as one gap.
        still += min(max(jump, 0), 600)
        found = checks.check(
            percent, seconds=seconds + jump, syncing=chance.random() > 0.02, nodes=nodes
        )
        assert not found.stalled
        assert found.since <= checks.now * SECOND


def test_a_clock_that_jumps_stalls_nothing() -> None:
    checks = Checks()
    assert not any(checks.check(5.0).stalled for _ in range(10))
    assert not checks.check(5.0, seconds=90_000).stalled
    back = checks.check(5.0, seconds=-180_000)
    assert (back.stalled, back.since) == (False, back.at)
    assert [checks.check(5.0).stalled for _ in range(20)][-1]


def test_another_secondary_begins_again() -> None:
    checks = Checks()
    assert [checks.check(50.0).stalled for _ in range(40)][-1]
    other = checks.check(50.0, nodes=("n1", "n3"))
    assert (other.stalled, other.still, other.since) == (False, 0, other.at)


def test_the_same_check_again_changes_nothing() -> None:
    checks = Checks()
    checks.check(5.0)
    first = checks.check(5.0)
    again = WORLD._replace(now=first.at + SECOND, disks={"a": first._replace(since=0, still=0)})
    assert with_progress(again, seen_now(checks.seen, again, LIMIT)) == {"a": first}
    older = again._replace(disks={"a": first._replace(at=first.at - SECOND)})
    assert with_progress(older, seen_now(checks.seen, older, LIMIT)) == older.disks


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (
            b'{"details": [{"source": "drbd", "details": {"faults": ["split brain: minor 3"]}},'
            b'{"source": "drbd", "details": {"faults": ["split brain: minor 12", "no quorum"]}}]}',
            {3, 12},
        ),
        (b'{"details": [{"source": "x", "details": {"faults": ["split brain: minor 3"]}}]}', set()),
        (b'{"status": "Ok"}', set()),
        (b'{"details": "text"}', set()),
        (b'{"details": [{"source": "drbd", "details": {"sha256": "0", "size": 9000}}]}', set()),
        (b'{"details": [{"source": "drbd", "details": {"faults": [3]}}]}', set()),
        (b"[", set()),
    ],
)
def test_what_a_report_says_of_split_brains(report: bytes, expected: set[int]) -> None:
    assert split_brains(report) == expected
