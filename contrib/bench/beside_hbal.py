#!/usr/bin/env python3
"""Compare balancing plans with hbal's on generated clusters, and list every violation.

Needs hbal (Debian's ganeti) and runs from a checkout, in an environment with Steward and what its
tests need: the judge that carries plans out is that of the tests.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import make_cluster
from hbal_plan import HbalPlan, run_hbal

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/support/cluster"))

from balanced_jobs import Course, course

from ganeti_steward.allocators.text_format import read_text
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.iallocator.dispatch import dispatch
from ganeti_steward.core.model.answer import Answer
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.requests import Balance

MIXES: Final = ("drbd=1", "drbd=7,plain=2,diskless=1", "drbd=7,plain=2,ext=1", "drbd=5,ext=5")
#: Chance -> option of make_cluster.py.
FEATURES: Final = (
    (0.15, "--offline=1"),
    (0.25, "--drained=1"),
    (0.2, "--excl-tags=.3"),
    (0.15, "--location-tags"),
    (0.15, "--desired-location=.3"),
    (0.15, "--migration-tags"),
    (0.15, "--missing-mem=2000"),
    (0.15, "--forthcoming=.1"),
    (0.15, "--down=.2"),
    (0.1, "--hypervisor=kvm"),
)
#: Larger differences of scores count; hbal prints eight digits.
SLACK: Final = 1e-6


class Result(NamedTuple):
    """One cluster."""

    name: str
    theirs: Course
    mine: Course
    faults: list[str]
    seconds: float
    """CPU time of the plan"""
    features: tuple[str, ...] = ()
    """the options it was made with"""

    @property
    def legal(self) -> bool:
        """Whether hbal's plan keeps to the rules."""
        return not any("job" in fault for fault in self.theirs.violations)

    @property
    def ratio(self) -> float:
        """The final score beside hbal's."""
        here, there = self.mine.scores[-1], self.theirs.scores[-1]
        return 1.0 if max(here, there) < SLACK else here / max(there, SLACK)


def small(seed: int) -> list[str]:
    """Options of a small cluster, of any kind."""
    rng = random.Random(seed)
    options = [
        f"--seed={seed}",
        f"--nodes={rng.choice([4, 5, 6, 8])}",
        f"--per-node={rng.choice([2, 4, 5, 8])}",
        f"--mix={rng.choice(MIXES)}",
        f"--choices={rng.choice([1, 1, 3])}",
        f"--fill={rng.choice([0.4, 0.55, 0.8])}",
    ]
    return [*options, *(option for chance, option in FEATURES if rng.random() < chance)]


#: Options of make_cluster.py, each of which every second cluster of `everything` has.
ALL_FEATURES: Final = (
    "--offline=1",
    "--drained=1",
    "--excl-tags=.3",
    "--location-tags",
    "--desired-location=.3",
    "--migration-tags",
    "--missing-mem=2000",
    "--forthcoming=.1",
    "--down=.2",
    "--hypervisor=kvm",
    "--groups=2",
)
ALL_MIXES: Final = ("drbd=1", "drbd=6,plain=2,ext=1,sharedfile=1,diskless=1", "drbd=5,ext=5")


def everything(seed: int, nodes: tuple[int, ...] = (4, 5, 6, 8)) -> list[str]:
    """Options of a cluster with many features at once."""
    rng = random.Random(f"everything {seed}")
    features = [option for option in ALL_FEATURES if rng.random() < 0.5]
    groups = 2 if "--groups=2" in features else 1
    return [
        f"--seed={seed}",
        f"--nodes={rng.choice(nodes) * groups}",
        f"--per-node={rng.choice([2, 4, 5, 8])}",
        f"--mix={rng.choice(ALL_MIXES)}",
        f"--choices={rng.choice([1, 1, 3])}",
        f"--fill={rng.choice([0.4, 0.55, 0.8])}",
        *features,
    ]


def ten_of_everything(seed: int) -> list[str]:
    """The same with ten nodes."""
    return everything(seed, (10,))


def middling(seed: int) -> list[str]:
    """The same with 20 to 40 nodes."""
    return everything(seed, (20, 30, 40))


def ten_nodes(seed: int) -> list[str]:
    """Options of a very uneven cluster of ten nodes: every other one all drbd."""
    mix = "drbd=1" if seed % 2 == 0 else "drbd=7,plain=2,diskless=1"
    return [f"--seed={seed}", "--nodes=10", "--per-node=8", "--choices=1", f"--mix={mix}"]


def made(options: list[str]) -> str:
    """A generated cluster in htools' text format."""
    parsed = make_cluster.parser().parse_args([*options, "--request=none"])
    return make_cluster.to_text(make_cluster.build(parsed))


def compared(name: str, text: str, request: Balance, hbal_options: list[str]) -> Result:
    """Both plans for one cluster of one group, carried out."""
    return compared_groups(name, text, request, hbal_options)[0]


def compared_groups(
    name: str, text: str, request: Balance, hbal_options: list[str], features: Sequence[str] = ()
) -> list[Result]:
    """Both plans for each group of a cluster, carried out; not where hbal takes too long."""
    cluster = read_text(text)
    results = []
    for at, group in enumerate(cluster.groups):
        try:
            theirs = _hbals(text, cluster, [*hbal_options, "-G", group.name])
        except subprocess.TimeoutExpired as err:
            print(f"{name} {group.name}: left out, hbal takes over {err.timeout:.0f} s", flush=True)
            continue
        before = time.process_time()
        jobs = _stewards(cluster, request._replace(groups=frozenset({group.uuid})))
        seconds = time.process_time() - before
        their_course = course(cluster, theirs.jobs, one_job=False, group=at)
        mine = course(cluster, jobs, group=at)
        faults = list(_faults(their_course, theirs, mine))
        title = name if len(cluster.groups) == 1 else f"{name} {group.name}"
        results.append(Result(title, their_course, mine, faults, seconds, tuple(features)))
    return results


def _hbals(text: str, cluster: Cluster, options: list[str]) -> HbalPlan:
    names = [node.name for node in cluster.nodes]
    names += [instance.name for instance in cluster.instances]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.data"
        file.write_text(text)
        return run_hbal(file, names, options)


def _stewards(cluster: Cluster, request: Balance) -> list[list[dict[str, Any]]]:
    outcome = dispatch(request, cluster, Config(), Options(), explain=False)
    if not isinstance(outcome, Answer):
        raise SystemExit(f"no plan: {outcome.info}")
    jobs: list[list[dict[str, Any]]] = outcome.result[2]  # type: ignore[index]
    return jobs


def _faults(theirs: Course, plan: HbalPlan, mine: Course) -> Iterator[str]:
    yield from mine.violations
    illegal = [one for one in theirs.violations if not one.startswith("ends at")]
    if illegal:
        return
    if mine.scores[-1] > plan.end + SLACK:
        yield f"ends at {mine.scores[-1]:.8f}, hbal at {plan.end:.8f}"
    elif mine.copied_at(plan.end) > theirs.copied[-1] + SLACK:
        here, there = mine.copied_at(plan.end), theirs.copied[-1]
        yield f"copies {here:.1f} GiB to hbal's score, hbal {there:.1f}"


def main() -> int:
    """Compare, and print a line per violation and the means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=int, default=250, help="number of small clusters")
    parser.add_argument("--ten", type=int, default=20, help="number of clusters of ten nodes")
    parser.add_argument("--all", type=int, default=0, help="number of clusters of all features")
    parser.add_argument("--all-ten", type=int, default=0, help="the same with ten nodes")
    parser.add_argument("--middling", type=int, default=0, help="the same with 20 to 40 nodes")
    parser.add_argument("--seed", type=int, default=1000, help="the first seed")
    parser.add_argument("--defaults", action="store_true", help="with the limits of the defaults")
    parser.add_argument("-l", "--max-length", type=int, help="the same limit on moves for both")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each cluster")
    options = parser.parse_args()
    request = Balance(max_moves=options.max_length)
    if not options.defaults:
        request = request._replace(min_gain=0.0, min_gain_per_gib=0.0)
    theirs = [] if options.max_length is None else ["-l", str(options.max_length)]
    if not options.defaults:
        theirs += ["-g", "0"]
    failed = False
    for title, maker, count in (
        ("small", small, options.small),
        ("ten", ten_nodes, options.ten),
        ("all", everything, options.all),
        ("all ten", ten_of_everything, options.all_ten),
        ("middling", middling, options.middling),
    ):
        results = []
        for seed in range(options.seed, options.seed + count):
            wanted = maker(seed)
            found = compared_groups(f"{title} {seed}", made(wanted), request, theirs, wanted)
            results += found
            for result in found:
                _print(result, always=options.verbose)
        failed = failed or any(result.faults for result in results)
        if results:
            print(_summary(title, results), flush=True)
            print(*_by_feature(results), sep="\n", flush=True)
    return int(failed)


def _print(result: Result, *, always: bool) -> None:
    for fault in result.faults:
        print(f"{result.name}: {fault}", flush=True)
    if always:
        (here, there), copied = (one.scores[-1] for one in result[2:0:-1]), result.mine.copied[-1]
        at, their_copied = result.mine.copied_at(there), result.theirs.copied[-1]
        print(
            f"{result.name}: score {result.mine.scores[0]:.4f} -> {here:.4f}, hbal {there:.4f}; "
            f"GiB {copied:.0f} ({at:.0f} to hbal's score), hbal {their_copied:.0f}; "
            f"{result.seconds:.2f} CPU s",
            flush=True,
        )


def _by_feature(results: list[Result]) -> Iterator[str]:
    """For each feature: number of groups and mean ratio, of all and where hbal's is legal."""
    features = {
        one.partition("=")[0] if "mix" not in one else one for r in results for one in r.features
    }
    sizes = {"--seed", "--nodes", "--per-node", "--choices", "--fill"}
    for feature in ["", *sorted(features - sizes)]:
        having = [r for r in results if any(one.startswith(feature) for one in r.features)]
        legal = [one for one in having if one.legal]
        means = (sum(one.ratio for one in some) / max(len(some), 1) for some in (having, legal))
        counts = (len(having), len(legal))
        shown = ", ".join(f"{n}: {mean:.3f}" for n, mean in zip(counts, means, strict=True))
        worse = sum(one.ratio > 1 + SLACK for one in having)
        title = feature or "all"
        yield f"  {title:48} {shown} ({worse} worse)"


def _summary(title: str, results: list[Result]) -> str:
    legal = [one for one in results if one.legal]
    ratios = [one.ratio for one in legal]
    copied = sum(one.mine.copied[-1] for one in legal), sum(one.theirs.copied[-1] for one in legal)
    faults = sum(bool(one.faults) for one in results)
    return (
        f"{title}: {len(results)} clusters, {faults} with violations; where hbal's plan is legal "
        f"({len(legal)}): mean ratio of final scores {sum(ratios) / max(len(ratios), 1):.3f}, "
        f"GiB {copied[0]:.0f} beside {copied[1]:.0f}; "
        f"{sum(one.seconds for one in results):.1f} CPU s"
    )


if __name__ == "__main__":
    sys.exit(main())
