"""Clusters on which balancing once fell short: what is possible there, and how it may get there."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pytest
from balanced_jobs import Course, course
from paths import DATA

from ganeti_steward.allocators.jobs.operations import nodes_after
from ganeti_steward.allocators.text_format import read_text
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.iallocator.dispatch import dispatch
from ganeti_steward.core.model.answer import Answer
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.opcodes import REPLACE_DISKS
from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.requests import Balance


class Case(NamedTuple):
    """A file of tests/data/balance and the score that is possible."""

    file: str
    score: float
    """hbal's final score, but where hbal leaves more instances stuck"""
    limit: int | None = None
    forced: bool = False


CASES: Final = (
    Case("raises-score", 1.53132127),
    Case("drained-primary", 2.12518882),
    Case("drained-migration-tags", 9.96018619),
    Case("forthcoming", 0.0),
    Case("there-and-back", 2.98),
    Case("local-optimum-drained", 0.26606742),
    Case("soft-errors", 0.23138069, forced=True),
    Case("limit-16", 0.84317889, limit=16),
)


def cluster(name: str) -> Cluster:
    """A cluster of tests/data/balance."""
    return read_text((DATA / f"balance/{name}.data").read_text())


def planned(of: Cluster, *, forced: bool = False, **wanted: Any) -> list[Any]:
    """The jobs of the plan."""
    options = Options(ignore_soft_errors=forced)
    answer = dispatch(Balance(**wanted), of, Config(), options, explain=False)
    assert isinstance(answer, Answer), answer.info
    jobs: list[Any] = answer.result[2]  # type: ignore[index]
    return jobs


def carried_out(case: Case, **wanted: Any) -> Course:
    """The course of the plan for a case, which copies nothing twice to fail over."""
    found = cluster(case.file)
    jobs = planned(found, forced=case.forced, max_moves=case.limit, **wanted)
    for job in jobs:
        check_copies(found, job)
    assert case.limit is None or len(jobs) <= case.limit
    return course(found, jobs, forced=case.forced)


def check_copies(found: Cluster, job: Any) -> None:
    """An instance is copied only to nodes on which it stays."""
    name = job[0]["instance_name"]
    copied = [one["remote_node"] for one in job if one["OP_ID"] == REPLACE_DISKS]
    nodes = found.instances[found.instance_index[name]].nodes
    for operation in job:
        nodes = nodes_after(nodes, operation)
    assert set(copied) <= set(nodes), name
    assert len(set(copied)) == len(copied), name


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.file)
def test_what_is_possible_is_reached(case: Case) -> None:
    """Legally, one job for each instance, nothing copied twice, no prefix better than the end."""
    done = carried_out(case)
    assert done.violations == []
    assert done.scores[-1] <= case.score + 1e-6


def test_soft_errors_count_unless_they_are_ignored() -> None:
    assert planned(cluster("soft-errors")) == []


def test_limits_on_copies_hold() -> None:
    """A limit on GiB is kept, and the first GiB are worth most."""
    case = CASES[-1]
    ends = []
    for most in (0.0, 100.0, 600.0):
        done = carried_out(case._replace(limit=None), max_copy=most)
        assert done.violations == []
        assert done.copied[-1] <= most
        ends.append(done.scores[-1])
    assert ends[0] > ends[1] > ends[2]
    # 14.6 to 0.8 takes hbal 1432 GiB.
    assert ends[2] < 14.6 - 0.45 * (14.6 - 0.84)


def test_least_gain_per_gib() -> None:
    """From everywhere in the plan the rest gains at least so much for each GiB it copies."""
    case = CASES[-1]._replace(limit=None)
    copied = []
    for least in (0.0, 0.002, 0.02):
        done = carried_out(case, min_gain=0.0, min_gain_per_gib=least, max_copy=1e6)
        assert done.violations == []
        for score, before in zip(done.scores, done.copied, strict=True):
            assert score - done.scores[-1] >= least * (done.copied[-1] - before) - 1e-6
        copied.append(done.copied[-1])
    assert copied[0] > copied[1] > copied[2] > 0
