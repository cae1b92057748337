"""hbal's scores of a cluster, and Steward's of the same."""

from __future__ import annotations

import random
import re
import subprocess
from typing import Any

import numpy as np
from clusters import generate
from installed import need

from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.allocators.state.load import load
from ganeti_steward.allocators.state.state import State
from ganeti_steward.core.model.cluster import Cluster

Message = dict[str, Any]


def run_hbal(*arguments: str) -> tuple[float, float, str]:
    """hbal's scores before and after its moves, and its whole output."""
    done = subprocess.run([need("hbal"), *arguments], capture_output=True, text=True, check=True)
    printed = done.stdout
    found = re.search(r"[Ii]nitial score:? ([0-9.]+)", printed)
    assert found, printed
    before = float(found[1])
    after = re.search(r"Cluster score improved from [0-9.]+ to ([0-9.]+)", printed)
    return before, float(after[1]) if after else before, printed


def one_group(seed: int) -> Message:
    """A cluster hbal takes without further questions; two instances share no name."""
    rng = random.Random(seed)
    more = [
        ["--offline=1", "--drained=1"],
        ["--down=.3", "--admin-offline=.2", "--forthcoming=.1"],
        ["--excl-tags=.3", "--location-tags"],
        [],
    ][seed % 4]
    nodes, mix = rng.choice([5, 8, 11]), rng.choice(["drbd=1", "drbd=6,plain=3,ext=1"])
    return generate(f"--nodes={nodes}", f"--mix={mix}", f"--seed={seed}", "--per-node=5", *more)


def score(snapshot: Cluster, state: State | None = None) -> float:
    state = state or load(snapshot, "drbd", 0)
    return Scorer(state, np.ones(len(snapshot.nodes), np.bool_)).score


def varied(text: str, seed: int) -> str:
    """Every third instance is not auto-balanced, and nodes have different CPU speeds."""
    rng = random.Random(seed)
    lines = text.split("\n")
    for at, line in enumerate(lines):
        fields = line.split("|")
        if len(fields) == 15:
            fields[-1] = rng.choice(["1.0", "0.5", "1.25", "2.0"])
        elif len(fields) == 13 and rng.random() < 1 / 3:
            fields[5] = "N"
        lines[at] = "|".join(fields)
    return "\n".join(lines)


def moved(before: Cluster, after: Cluster) -> State:
    """The state of ``before`` after moving whatever is elsewhere in ``after``."""
    state = load(before, "drbd", 0)
    for old, new in zip(before.instances, after.instances, strict=True):
        if old.nodes == new.nodes:
            continue
        resident = state.resident(old.name)
        nodes = [before.node_index[name] for name in new.nodes]
        state = state.removed(resident).placed(resident.demand, *nodes)
    return state
