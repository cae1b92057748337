"""Balancing clusters with many features at once, beside hbal and beside a plain greedy search."""

from __future__ import annotations

import pytest
from balanced_jobs import Job, course
from beside_hbal import SLACK, compared_groups, everything, made
from greedy import greedy_score
from installed import need
from test_balance_cases import planned
from test_beside_hbal import WANTED
from thorough import often, seeds

from ganeti_steward.allocators.jobs.job_sets import job_sets
from ganeti_steward.allocators.text_format import read_text
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.requests import Balance

#: Clusters on which plans were once worse than greedy ones, and two more.
SEEDS = (0, 6, 7, 15, 33, 58)


def tiny(seed: int) -> str:
    """A cluster with migration tags and every second one of all other features."""
    wanted = dict.fromkeys([*everything(seed, (4, 5)), "--migration-tags", "--per-node=3"])
    return made([*wanted])


def backwards(cluster: Cluster, jobs: list[Job]) -> list[Job]:
    """The jobs with those of each set in the opposite order."""
    return [job for some in job_sets(cluster, jobs) for job in reversed(some)]


def violations(cluster: Cluster, jobs: list[Job]) -> list[str]:
    """Broken rules within the groups; the order within a set may pass through a lower score."""
    groups = range(len(cluster.groups))
    found = [course(cluster, jobs, group=group).violations for group in groups]
    return [one for some in found for one in some if not one.startswith("ends at")]


@pytest.mark.parametrize("seed", [*SEEDS, *range(100, often(100, 200))])
def test_no_worse_than_hbal_and_than_greedy(seed: int) -> None:
    """Where hbal's plan is legal; greedy keeps to the same rules as the plan."""
    need("hbal")
    text = tiny(seed)
    cluster = read_text(text)
    for at, result in enumerate(compared_groups(f"seed {seed}", text, *WANTED[0])):
        assert result.faults == []
        assert result.mine.scores[-1] <= greedy_score(cluster, at) + SLACK


def test_another_order_of_hbals_moves_copies_less() -> None:
    """By their gains, one of them copies disks twice that it could copy once."""
    need("hbal")
    wanted = everything(30316)
    (result, *_) = compared_groups("30316", made(wanted), Balance(), [])
    assert result.faults == []
    assert result.legal


@pytest.mark.parametrize("seed", seeds(4, 100))
def test_a_set_may_be_done_in_any_order(seed: int) -> None:
    """No order of the jobs of a set breaks a rule or leaves anything newly stuck."""
    cluster = read_text(tiny(seed))
    jobs = planned(cluster)
    assert violations(cluster, jobs) == []
    assert violations(cluster, backwards(cluster, jobs)) == []
