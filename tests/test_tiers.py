"""What each tier runs, what slow tests are, and that an interrupt leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest
from asserting import some
from interrupted import Interrupted
from paths import ROOT
from slow_tests import lines_of
from thorough import dice, often, seeds
from tier_parts import slow_tests
from time_limits import Limits


def test_how_often() -> None:
    assert [often(usual, 5000, tier=1) for usual in (400, 25, 3, 2, 1, 0)] == [40, 3, 3, 2, 1, 0]
    assert [often(25, 5000, tier=tier) for tier in (2, 3)] == [25, 5000]
    assert often(7, 9, 6, tier=1) == 6
    # A step, or a list, is as usual.
    assert often(3, 1, tier=1) == 3
    assert often([1.5], [1.5, 2], tier=1) == [1.5]


def test_seeds_of_the_first_tier_change_with_the_day() -> None:
    assert [*seeds(4, 10, 5, tier=2)] == [5, 6, 7, 8]
    assert [*seeds(4, 10, 5, tier=3)] == [*range(5, 15)]
    days = [seeds(4, 10, 5, tier=1, seed=20260101 + day) for day in range(100)]
    assert {len({*one}) for one in days} == {3}
    assert {number for one in days for number in one} == {*range(5, 15)}
    assert seeds(4, 10, 5, tier=1, seed=1) == seeds(4, 10, 5, tier=1, seed=1)


def test_what_is_drawn_changes_with_the_day_in_the_first_tier_only() -> None:
    drawn = {dice(7, tier=1, seed=day).random() for day in range(10)}
    assert len(drawn) == 10
    assert {dice(7, tier=2, seed=day).random() for day in range(10)} == {dice(7, tier=3).random()}


def test_which_lines_the_list_of_slow_tests_gets() -> None:
    cpu = {"a::one": 2.04, "a::two": 1.9, "b::each[x]": 3, "b::each[y]": 2}
    cpu |= {"b::some[x]": 3, "b::some[y]": 0.1}
    assert [*lines_of(cpu)] == [
        "    2.0  a::one\n",
        "    2.5  b::each\n",
        "    3.0  b::some[x]\n",
    ]


def test_slow_tests_exist() -> None:
    """`contrib/test --write-slow` writes the list again."""
    for nodeid in some(slow_tests()):
        file, _, name = nodeid.partition("::")
        function = name.partition("[")[0].rpartition("::")[2]
        assert re.search(rf"\b{function}\b", (ROOT / file).read_text()), nodeid


def test_a_test_that_hangs_fails() -> None:
    limits = Limits()
    before = signal.getsignal(signal.SIGUSR2)
    limits.start()
    try:
        with (
            pytest.raises(pytest.fail.Exception, match=r"not ended after 0\.1 s"),
            limits.limited(0.1),
        ):
            time.sleep(3600)
    finally:
        signal.signal(signal.SIGUSR2, before)


#: Parts in place of those of a tier.
PARTS: Final = """
import sys
from run_tier import Part, one_run, run_all
def part(text, status=0, **more):
    return Part(text.split()[0], ("sh", "-c", f"echo {text}; exit {status}"), **more)
with one_run() as run:
    sys.exit(run_all(run, [PARTS]))
"""


def run_of(parts: str) -> subprocess.CompletedProcess[str]:
    """A run of these parts, in a process of its own, as it takes the status of any child."""
    return subprocess.run(
        [sys.executable, "-c", PARTS.replace("PARTS", parts)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests/support/tiers")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.parametrize(
    ("parts", "status", "last", "ended"),
    [
        (
            "part('one 3 passed'), part('two 2 passed 1 skipped')",
            0,
            "5 passed, 0 failed, 1 skipped",
            2,
        ),
        ("part('one 3 passed', 0, tier=1), part('two 2 passed')", 0, "5 passed, 0 failed", 2),
        (
            "part('one 2 failed 3 passed', 1, tier=1), part('two 2 passed')",
            1,
            "3 passed, 2 failed",
            1,
        ),
        ("part('one 2 failed 3 passed', 1), part('two 2 passed')", 1, "5 passed, 2 failed", 2),
        # As contrib/check: nothing follows it, and it counts as one failure.
        (
            "part('check', 1, tier=1, beside=True), part('one 3 passed', tier=1), part('two')",
            1,
            "3 passed, 1 failed",
            2,
        ),
        ("part('crashed', 139), part('two 2 passed 1 error', 1)", 139, "2 passed, 2 failed", 2),
    ],
)
def test_the_parts_of_a_tier(parts: str, status: int, last: str, ended: int) -> None:
    """A failure of tier 1 ends the run; the last line counts all."""
    done = run_of(parts)
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[-1]) == (status, last), done
    assert len(re.findall(r"^--- (?:one|two|check|crashed): ", done.stdout, re.M)) == ended


def test_what_a_part_leaves_is_ended() -> None:
    done = run_of("Part('one', ('sh', '-c', 'setsid sleep 3600 >/dev/null 2>&1 & echo 1 passed'))")
    assert re.fullmatch(r"ended what was left: process \d+: (setsid )?sleep 3600\n", done.stderr)
    assert done.stdout.endswith("\n1 passed, 0 failed\n")


@pytest.mark.parametrize("whom", ["all", "contrib/test", "the main process of pytest", "a worker"])
def test_an_interrupt_leaves_nothing(tmp_path: Path, whom: str) -> None:
    with Interrupted(tmp_path / "notes", "test_hangs") as run:
        run.wait_until_started(2)
        run.interrupt(whom)
        output = run.end()
        assert "KeyboardInterrupt" in output, output
        assert run.left() == []
        assert sorted(run.notes("cleaned")) == ["cleaned up 1", "cleaned up 2"]
