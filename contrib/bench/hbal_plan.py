"""hbal's plan for a cluster in htools' text format, as jobs of Ganeti's operations."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from ganeti_steward.allocators.jobs.operations import migrate, replace_secondary

#: One line of hbal's plan: number, instance, nodes before and after, score, actions.
_MOVE: Final = re.compile(r"^ +\d+\. (\S+) .*=> (\S+) +([\d.]+) a=(.*)$")
_IMPROVED: Final = re.compile(r"from ([\d.]+) to ([\d.]+)")
_INITIAL: Final = re.compile(r"Initial score: ([\d.]+)")


class HbalPlan(NamedTuple):
    """What hbal would do."""

    start: float
    """the group's score before"""
    end: float
    """the group's score after, as hbal counts it"""
    jobs: list[list[dict[str, Any]]]
    """one per move, in order"""
    names: list[str]
    """the instance of each job"""


def run_hbal(file: Path, names: Sequence[str], options: Sequence[str] = ()) -> HbalPlan:
    """hbal's plan; ``names``: full names of all nodes and instances; hbal prints short ones."""
    command = ["hbal", "-t", str(file), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    # hbal cuts the suffix that all names share.
    full = {name: name for name in names}
    full |= {name.partition(".")[0]: name for name in names}
    moves = [match for line in done.stdout.splitlines() if (match := _MOVE.match(line))]
    improved, initial = _IMPROVED.search(done.stdout), _INITIAL.search(done.stdout)
    start = float(initial[1]) if initial else 0.0
    jobs = [[_operation(full[move[1]], word, full) for word in move[4].split()] for move in moves]
    end = float(improved[2]) if improved else start
    return HbalPlan(start, end, jobs, [full[move[1]] for move in moves])


def _operation(instance: str, word: str, full: dict[str, str]) -> dict[str, Any]:
    kind, _, node = word.partition(":")
    if kind == "r":
        return replace_secondary(instance, full[node])
    return migrate(instance, full[node]) if kind == "fa" else migrate(instance)
