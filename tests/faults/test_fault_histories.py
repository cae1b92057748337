"""Histories of a simulated cluster in which everything can fail: no invariant is broken."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from fault_world.history import Played, play
from paths import ROOT
from thorough import often, seeds

#: Rounds that are played at least: about 30 s of one processor, or an hour and more.
ROUNDS = often(4000, 1_000_000)
#: The seed of the first history; 1 but in tier 1.
FIRST = seeds(1, 100_000, 1)[0]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Faults are logged in thousands."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


def _report(played: Played) -> str:
    again = f"contrib/simulate-faults --seed {played.seed}"
    return "\n".join([*played.narrative[-30:], f"{played.broken}; all of it: {again}"])


def test_no_invariant_is_broken() -> None:
    rounds, seed, faults = 0, FIRST, 0
    while rounds < ROUNDS:
        played = play(str(seed))
        assert played.broken is None, _report(played)
        rounds, faults, seed = rounds + played.rounds, faults + len(played.faults), seed + 1
    print(f"{seed - FIRST} histories, {rounds} rounds, {faults} faults")


def test_a_seed_is_always_the_same_history() -> None:
    """Also in another process, whose sets have another order."""
    program = "import logging; logging.disable(50); from fault_world.__main__ import main; "
    outputs = [
        subprocess.run(
            [sys.executable, "-c", f"{program} main(['--seed', '9'])"],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": "tests/support"},
            cwd=ROOT,
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].count("\n") > 50
