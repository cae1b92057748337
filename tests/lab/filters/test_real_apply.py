"""Rules of a file on a real Ganeti, where jobs are submitted while they are changed."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest
from thorough import often

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.plugins.filters.applying import RuleFile, Wanted, planned
from ganeti_steward.plugins.filters.chain import Chain, known
from ganeti_steward.plugins.filters.cli.apply import carry_out
from ganeti_steward.plugins.filters.filter_rules import (
    ACCEPT,
    PAUSE,
    REJECT,
    FilterRule,
    FilterRules,
)

from ..cluster import Lab, until
from .random_rules import Making
from .test_real_verdicts import end, queue

#: What a rule does to a job -> the job's status in the end.
ENDS: Final = {PAUSE: "queued", REJECT: "canceled", ACCEPT: "ran"}
ROUNDS: Final = often(2, 30)


@pytest.fixture
def luxi(lab: Lab) -> Iterator[Luxi]:
    yield lab.luxi
    remove(lab.luxi)


def remove(luxi: Luxi) -> None:
    """All rules, after the jobs that they hold."""
    for row in luxi.rows("job", ("id",), ["=", "status", "queued"]):
        luxi.call("CancelJob", int(row["id"]))
    rules = FilterRules(luxi)
    for rule in rules.read().rules:
        rules.delete(rule.uuid)


def made_file(making: Making, names: str) -> RuleFile:
    """Rules with actions that each job meets at once."""
    found = [making.rule() for _ in names]
    actions = [making.rng.choice((ACCEPT, PAUSE, REJECT)) for _ in names]
    rules = [one._replace(action=a, limit=0) for one, a in zip(found, actions, strict=True)]
    return RuleFile("team", tuple(map(Wanted, names, rules)))


def ends(rules: tuple[FilterRule, ...], jobs: list[Any]) -> dict[int, str]:
    chain = Chain(rules)
    applying = {job.number: known(chain.applying(job)) for job in jobs}
    return {
        number: ENDS.get(rule.action, "ran") if rule else "ran" for number, rule in applying.items()
    }


def one_round(luxi: Luxi, seed: int) -> None:
    rng, rules = random.Random(seed), FilterRules(luxi)
    newest = max((int(row["id"]) for row in luxi.rows("job", ("id",))), default=0)
    making = Making(rng, newest + 1)
    list(carry_out(planned((), made_file(making, "abc"), 1, prune=True), rules))
    old, file, numbers = rules.read().rules, made_file(making, "bcd"), list[int]()

    def submit() -> None:
        jobs = [making.job() for _ in range(3)]
        numbers.extend(int(number) for _, number in luxi.call("SubmitManyJobs", jobs))
        time.sleep(0.2)

    submit()
    for killed in (True, False):
        for count, _ in enumerate(
            carry_out(planned(rules.read().rules, file, 1, prune=True), rules)
        ):
            submit()
            if killed and count == 1:
                break
    new = rules.read().rules
    assert not any(planned(new, file, 1, prune=True)[:2])
    jobs = queue(luxi, numbers)
    before, after = ends(old, jobs), ends(new, jobs)

    def wrong() -> list[tuple[int, str]]:
        """A job that the old rules hold can have started or ended as the new ones have it."""
        return [
            (job.number, job.status)
            for job in queue(luxi, numbers)
            if end(job) not in (before[job.number], after[job.number])
        ]

    until(lambda: wrong() == [])
    remove(luxi)


def test_no_job_ends_in_a_way_that_neither_set_has(luxi: Luxi) -> None:
    for seed in range(ROUNDS):
        one_round(luxi, seed)
