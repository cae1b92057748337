"""Loads from htools' utilisation file, beside hbal, which uses the same file."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from balanced_jobs import course
from cluster_text import to_text
from clusters import generate
from hbal_scores import moved, one_group, run_hbal, score, varied
from installed import need
from thorough import seeds

from ganeti_steward.allocators.balancing.group_model import GroupModel
from ganeti_steward.allocators.balancing.planning.plan_balance import plan_balance
from ganeti_steward.allocators.loads.utilisation import (
    Figures,
    read_utilisation,
    with_utilisation,
)
from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.allocators.state.load import load
from ganeti_steward.allocators.text_format import read_text
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.requests import Balance

if TYPE_CHECKING:
    from front import Front

KINDS = ("cpu_load_cv", "mem_load_cv", "disk_load_cv", "net_load_cv")


def figures(cluster: Cluster, seed: int) -> dict[str, Figures]:
    """Loads of most instances; of some only the CPU differs from the others."""
    rng = random.Random(seed)

    def one() -> Figures:
        cpu, memory, disk, network = (
            rng.choice([0.0, 1.0, round(rng.uniform(0, 6), 2)]) for _ in range(4)
        )
        return cpu, memory, disk, network

    return {instance.name: one() for instance in cluster.instances if rng.random() < 0.9}


def usage(path: Path, loads: dict[str, Figures]) -> Path:
    file = path / "usage"
    lines = (f"{name} {' '.join(map(repr, each))}\n" for name, each in loads.items())
    file.write_text("".join(lines))
    return file


@pytest.mark.parametrize("seed", seeds(100, 400))
def test_scores_are_hbals(seed: int, tmp_path: Path) -> None:
    """Of the cluster as it is, and after hbal's moves, with which the loads move."""
    text = varied(to_text(one_group(seed)), seed)
    cluster = read_text(text)
    loads = figures(cluster, seed)
    file, saved = tmp_path / "cluster.data", tmp_path / "saved"
    file.write_text(text)
    wanted = usage(tmp_path, loads)
    options = ("-t", str(file), "-U", str(wanted), "-l", "6", "-S", str(saved))
    first, last, printed = run_hbal(*options)
    found, note = with_utilisation(cluster, read_utilisation(str(wanted)))
    assert note == ""
    assert score(found) == pytest.approx(first, abs=1e-7)
    after = read_text(Path(f"{saved}.balanced").read_text())
    assert score(found, moved(found, after)) == pytest.approx(last, abs=1e-7), printed
    assert score(cluster) != pytest.approx(first, abs=1e-7)


@pytest.mark.parametrize("seed", seeds(100, 400))
def test_moves_are_legal_and_even_out_the_loads(seed: int) -> None:
    cluster = read_text(to_text(generate("--nodes=5", f"--seed={seed}", "--per-node=4")))
    found, _ = with_utilisation(cluster, figures(cluster, seed))
    plan = plan_balance(Balance(max_moves=4), found, Config(), Options())
    carried = course(found, plan.jobs)
    assert carried.violations == []
    assert carried.scores[-1] == pytest.approx(plan.groups[0].score_after, abs=1e-9)


@pytest.mark.parametrize("seed", seeds(20, 100))
def test_a_model_has_the_score_of_its_state(seed: int) -> None:
    rng = random.Random(seed)
    cluster = read_text(to_text(generate("--nodes=5", f"--seed={seed}", "--per-node=4")))
    found, _ = with_utilisation(cluster, figures(cluster, seed))
    state = load(found, None, 4096)
    residents = [one for each in state.residents.values() for one in each]
    model = GroupModel(state, np.arange(state.frame.size), residents)
    everywhere = np.ones(state.frame.size, np.bool_)
    assert model.score == pytest.approx(Scorer(state, everywhere).score, abs=1e-9)
    at = rng.randrange(len(residents))
    nodes = rng.sample(range(state.frame.size), 2)
    secondary = nodes[1] if residents[at].secondary >= 0 else -1
    model.move(at, nodes[0], secondary)
    state = state.removed(residents[at]).placed(residents[at].demand, nodes[0], secondary)
    assert model.score == pytest.approx(Scorer(state, everywhere).score, abs=1e-9)


def test_components_are_named_apart() -> None:
    cluster = read_text(to_text(generate("--nodes=4", "--seed=1", "--per-node=4")))
    found, _ = with_utilisation(cluster, figures(cluster, 1))
    state = load(found, None, 4096)
    scorer = Scorer(state, np.ones(4, np.bool_))
    components = scorer.components()
    assert len({components[kind] for kind in KINDS}) == 4
    assert sum(components.values()) == pytest.approx(scorer.score, abs=1e-9)


def test_loads_of_1_are_those_of_a_cluster_without(tmp_path: Path) -> None:
    cluster = read_text(to_text(generate("--nodes=4", "--seed=1", "--per-node=4")))
    ones = usage(tmp_path, {one.name: (1.0, 1.0, 1.0, 1.0) for one in cluster.instances})
    found, _ = with_utilisation(cluster, read_utilisation(str(ones)))
    assert found.instances == cluster.instances
    assert score(found) == score(cluster)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("a 1 1 1\n", "line 1: an instance name and four figures are expected, found 'a 1 1 1'"),
        ("a 1 1 x 1\n", "line 1: instance 'a': a number from 0 to 1000000 is expected, found 'x'"),
        ("a 1 1 -1 1\n", "found '-1'"),
        ("a 1 nan 1 1\n", "found 'nan'"),
        ("a 1 1 inf 1\n", "found 'inf'"),
        ("a 1 1 1 1\n\nb 1 1 1 1\na 2 1 1 1\n", "line 4: instance 'a': it is there already"),
        ("a 1\nb 2\n", "; line 2: an instance name"),
        ("a 1 1 1 1\n" * 60, "; and 49 more"),
    ],
)
def test_faults_are_named(content: str, fault: str, tmp_path: Path) -> None:
    file = tmp_path / "usage"
    file.write_text(content)
    with pytest.raises(StewardError) as raised:
        read_utilisation(str(file))
    assert fault in str(raised.value)
    assert str(raised.value).startswith("file '")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="No such file"):
        read_utilisation(str(tmp_path / "none"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(StewardError, match="codec can't decode"):
        read_utilisation(str(tmp_path / "binary"))


def test_names_of_no_instance_are_noted() -> None:
    cluster = read_text(to_text(generate("--nodes=4", "--seed=1", "--per-node=4")))
    gone: dict[str, Figures] = {f"gone{at}": (2.0, 1.0, 1.0, 1.0) for at in range(5)}
    found, note = with_utilisation(cluster, gone)
    assert found.instances == cluster.instances
    assert note == (
        "5 lines of the utilisation file ignored, no such instance: gone0, gone1, gone2 and 2 more"
    )


def test_balance_and_check_take_the_file(front: Front, tmp_path: Path) -> None:
    message = generate("--nodes=4", "--seed=1", "--per-node=4")
    text = to_text(message)
    (tmp_path / "cluster.data").write_text(text)
    loads = figures(read_text(text), 1)
    source = ("--text-data", str(tmp_path / "cluster.data"))
    file = ("-U", str(usage(tmp_path, loads | {"gone": (1.0, 1.0, 1.0, 1.0)})))
    for command in ("balance", "check"):
        plain, loaded = front(command, *source), front(command, *source, *file)
        assert plain.out != loaded.out, command
        assert "1 line of the utilisation file ignored, no such instance: gone" in loaded.err
        ignored = front(command, *source, *file, "--option=--ignore-dynu")
        assert (ignored.out, ignored.err) == (plain.out, plain.err)


def test_check_beside_hcheck(front: Front, tmp_path: Path) -> None:
    text = to_text(one_group(3))
    (tmp_path / "cluster.data").write_text(text)
    file = usage(tmp_path, figures(read_text(text), 3))
    options = ("-U", str(file), "--machine-readable")
    theirs = subprocess.run(
        [need("hcheck"), "-t", str(tmp_path / "cluster.data"), *options],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    ours = front("check", "--text-data", str(tmp_path / "cluster.data"), *options).out
    name = "INIT_GROUP_0_SCORE"
    scores = [
        float(line.partition("=")[2])
        for out in (theirs, ours)
        for line in out.splitlines()
        if name in line
    ]
    assert scores[0] == pytest.approx(scores[1], abs=1e-7)
