"""Balancing: legal step by step, never behind hbal, within the limits given."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, Final

import make_cluster
import orjson
import pytest
from ask import need_hail, outcome, steward
from clusters import generate
from replay import Replay
from thorough import often, seeds

from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.allocators.text_format import read_text
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.iallocator.dispatch import dispatch
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.answer import Answer
from ganeti_steward.core.model.explanation import GroupBalance
from ganeti_steward.core.model.opcodes import REPLACE_DISKS
from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.requests import Balance

Message = dict[str, Any]

UNEVEN: Final = ("--mix=drbd=1", "--choices=1", "--per-node=8", "--request=none")
FEATURES: Final = (
    (),
    ("--offline=1",),
    ("--drained=1",),
    ("--excl-tags=.3",),
    ("--location-tags", "--desired-location=.3"),
    ("--migration-tags",),
    ("--missing-mem=2000",),
    ("--down=.2", "--admin-offline=.1"),
    ("--hypervisor=kvm",),
    ("--fill=.85", "--per-node=14"),
)
MIXES: Final = ("drbd=1", "drbd=7,plain=2,ext=1", "drbd=5,ext=5", "ext=1", "drbd=3,diskless=3")


def message(seed: int, *more: str, **request: Any) -> Message:
    """A generated cluster with a balance request."""
    made = generate(f"--seed={seed}", *UNEVEN, *more)
    made["request"] = {"type": "balance", **request}
    return made


def hbal(made: Message, folder: Path, *options: str) -> tuple[float, int, float]:
    """hbal's final score, its number of moves and the GiB it copies."""
    need_hail()
    file = folder / "cluster.data"
    file.write_text(make_cluster.to_text(made))
    done = subprocess.run(
        ["hbal", "-t", str(file), *options], capture_output=True, text=True, check=True, timeout=300
    )
    improved = re.search(r"from [\d.]+ to ([\d.]+)", done.stdout)
    moves = re.findall(r"^ +\d+\. (\S+).*$", done.stdout, re.MULTILINE)
    lines = [line for line in done.stdout.splitlines() if re.match(r" +\d+\. ", line)]
    sizes = {name.split(".")[0]: i["disk_space_total"] for name, i in made["instances"].items()}
    copied = sum(line.count("r:") * sizes[line.split()[1].split(".")[0]] for line in lines)
    if improved is None:
        return score_of(Replay(made)), 0, 0.0
    return float(improved[1]), len(moves), copied / 1024


def score_of(run: Replay) -> float:
    """The score as hbal counts it, of the first group."""
    return Scorer(run.state, run.state.frame.group == 0).score


def copied_by(answer: Message, made: Message) -> float:
    """GiB the jobs of an answer copy."""
    names = [
        operation["instance_name"]
        for job in answer["result"][2]
        for operation in job
        if operation["OP_ID"] == REPLACE_DISKS
    ]
    return sum(made["instances"][name]["disk_space_total"] for name in names) / 1024


@pytest.mark.parametrize("seed", seeds(10, 40))
def test_plan_is_legal(seed: int) -> None:
    made = message(
        seed,
        f"--nodes={often(7, 9, 7)}",
        *FEATURES[seed % len(FEATURES)],
        f"--mix={MIXES[seed % len(MIXES)]}",
    )
    answer = steward(made)
    assert answer["success"], answer["info"]
    moved, failed, jobs = answer["result"]
    start, done = score_of(Replay(made)), Replay(made).run(answer)
    assert failed == []
    assert len(moved) == len(jobs)
    for (name, _, _), job in zip(moved, jobs, strict=True):
        assert {operation["instance_name"] for operation in job} == {name}
    for name, (group, nodes) in {name: entry for name, *entry in moved}.items():
        assert done.nodes_of(name) == nodes
        homes = {made["nodes"][node]["group"] for node in nodes}
        assert [made["nodegroups"][home]["name"] for home in homes] == [group]
    assert score_of(done) < start or not jobs
    assert f"to {score_of(done):.8f}" in answer["info"]


@pytest.mark.parametrize("seed", seeds(3, 10, 20))
def test_never_behind_hbal_on_odd_clusters(seed: int, tmp_path: Path) -> None:
    """By hbal's rules: it has no capacity test, which may refuse what lowers the score most."""
    made = message(
        seed, "--nodes=8", "--per-node=6", *FEATURES[seed % 10], f"--mix={MIXES[seed % 4]}"
    )
    theirs, _, _ = hbal(made, tmp_path)
    mine = Replay(made).run(steward(made, "--no-capacity-checks"))
    assert score_of(mine) <= theirs + 1e-6


@pytest.mark.parametrize("limit", [0, 1, 2, 5, 11])
def test_limit(limit: int) -> None:
    made = message(3, "--nodes=10", max_moves=limit)
    answer = steward(made)
    assert len(answer["result"][2]) <= limit
    Replay(made).run(answer)
    assert bool(answer["result"][2]) == bool(limit)


def ask(made: Message, **wanted: Any) -> tuple[Answer, Replay]:
    """The answer to a balance request with options that only commands can give."""
    cluster, _ = read_message(orjson.dumps(made))
    answer = dispatch(Balance(**wanted), cluster, Config(), Options(), explain=True)
    assert isinstance(answer, Answer), answer.info
    moved, failed, jobs = answer.result  # type: ignore[misc]
    run = Replay(made).run({"result": [moved, failed, jobs]})
    return answer, run


def changes(made: Message, run: Replay) -> dict[str, tuple[list[str], list[str]]]:
    """Instance -> nodes before and after, of those that moved."""
    return {
        name: (instance["nodes"], run.nodes_of(name))
        for name, instance in made["instances"].items()
        if not instance.get("forthcoming") and run.nodes_of(name) != instance["nodes"]
    }


def test_options() -> None:
    made = message(5, "--nodes=7", "--drained=1")
    _, run = ask(made, disk_moves=False)
    assert changes(made, run)
    assert all(set(old) == set(new) for old, new in changes(made, run).values())
    _, run = ask(made, instance_moves=False)
    assert changes(made, run)
    assert all(old[0] == new[0] for old, new in changes(made, run).values())
    some = sorted(made["instances"])[::2]
    _, run = ask(made, select=frozenset(some))
    assert set(changes(made, run)) <= set(some)
    _, run = ask(made, exclude=frozenset(some))
    assert changes(made, run)
    assert not set(changes(made, run)) & set(some)
    drained = {name for name, node in made["nodes"].items() if node["drained"]}
    _, run = ask(made, restricted_migration=True)
    assert any(old[0] != new[0] for old, new in changes(made, run).values())
    for old, new in changes(made, run).values():
        assert old[0] == new[0] or old[0] in drained
    _, run = ask(made, evacuate=True)
    assert changes(made, run)
    assert all(drained & set(old) for old, _ in changes(made, run).values())


def test_least_gain() -> None:
    made = message(6, "--nodes=10")
    few, _ = ask(made, min_gain=0.5, min_gain_limit=100.0)
    many, _ = ask(made)
    assert 0 < len(few.result[2]) < len(many.result[2])  # type: ignore[index]


def test_cheap_moves_are_preferred() -> None:
    failovers = {1.0: 0, 50.0: 0}
    for seed in range(often(3, 6)):
        made = message(seed, "--nodes=9", "--drained=1")
        for factor in failovers:
            _, run = ask(made, disk_factor=factor, max_moves=8)
            moved = changes(made, run).values()
            failovers[factor] += sum(set(old) == set(new) for old, new in moved)
    assert failovers[50.0] > failovers[1.0]


def test_explanations() -> None:
    made = message(7, "--nodes=8")
    answer, run = ask(made)
    (explained,) = answer.explanations
    assert isinstance(explained, GroupBalance)
    assert explained.score_before == pytest.approx(score_of(Replay(made)))
    assert explained.score_after == explained.moves[-1].score == pytest.approx(score_of(run))
    assert 0 < explained.bound < explained.score_after
    assert [move.instance for move in explained.moves] == [name for name, _, _ in answer.result[0]]  # type: ignore[index]
    assert sum(move.copied for move in explained.moves) / 1024 == pytest.approx(
        copied_by({"result": answer.result}, made)
    )


def test_groups_are_balanced_each_by_itself() -> None:
    made = message(8, "--nodes=8", "--groups=2")
    both, run = ask(made)
    for old, new in changes(made, run).values():
        homes = {made["nodes"][node]["group"] for node in (*old, *new)}
        assert len(homes) == 1
    (first, second) = (explained.group for explained in both.explanations)  # type: ignore[union-attr]
    uuids = {group["name"]: uuid for uuid, group in made["nodegroups"].items()}
    one, _ = ask(made, groups=(uuids[second],))
    assert [explained.group for explained in one.explanations] == [second]  # type: ignore[union-attr]
    assert {group for _, group, _ in one.result[0]} == {second}  # type: ignore[index]
    assert first != second


def test_instances_that_are_not_to_be_balanced_stay() -> None:
    made = message(9, "--nodes=6")
    text = make_cluster.to_text(made)
    lines = text.split("\n")
    firm = sorted(made["instances"])[:20]
    lines = [
        line.replace("|Y|", "|N|", 1) if line.split("|")[0] in firm else line for line in lines
    ]
    cluster = read_text("\n".join(lines))
    answer = dispatch(Balance(), cluster, Config(), Options(), explain=False)
    assert isinstance(answer, Answer)
    moved = {name for name, _, _ in answer.result[0]}  # type: ignore[index]
    assert moved
    assert not moved & set(firm)


def test_same_question_same_answer() -> None:
    made = message(10, "--nodes=6")
    other = {**made, "nodes": dict(reversed(made["nodes"].items()))}
    other["instances"] = dict(reversed(made["instances"].items()))
    assert steward(made) == steward(other)
    assert isinstance(outcome(made), Answer)
