"""Random rules and jobs: the job's end in a real luxid is what the evaluator says."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest
from thorough import often

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.plugins.filters.chain import Chain, known
from ganeti_steward.plugins.filters.filter_rules import PAUSE, REJECT, FilterRule, FilterRules
from ganeti_steward.plugins.filters.jobs import FIELDS, Job, read_job
from ganeti_steward.plugins.filters.language import faults_of
from ganeti_steward.plugins.filters.regex import Regex

from ..cluster import Lab, op, until
from .random_rules import Making

#: Rounds of some rules each, and jobs in each round.
ROUNDS: Final = often(4, 500)
JOBS: Final = 10
#: The seed of the first round: also a few rounds have all ends.
FIRST: Final = 6

#: Action of the applying rule -> the job's status in the end.
ENDS: Final = {PAUSE: "queued", REJECT: "canceled"}


@pytest.fixture
def luxi(lab: Lab) -> Iterator[Luxi]:
    yield lab.luxi
    rules = FilterRules(lab.luxi)
    for rule in rules.read().rules:
        rules.delete(rule.uuid)
    tags = lab.luxi.call("QueryTags", "cluster", "")
    lab.do(*([op("TAGS_DEL", kind="cluster", tags=tags)] if tags else []))


def queue(luxi: Luxi, numbers: list[int]) -> list[Job]:
    rows = luxi.rows("job", FIELDS, [">=", "id", min(numbers)])
    return [read_job(row) for row in rows if int(row["id"]) in numbers]


def expected(job: Job, chain: Chain) -> str:
    rule = known(chain.applying(job))
    return ENDS.get(rule.action, "ran") if rule else "ran"


def end(job: Job) -> str:
    """What became of it; Ganeti refuses a delay of 0 s when it runs the job."""
    return "ran" if job.status in ("success", "error") else job.status


def one_round(luxi: Luxi, seed: int) -> Counter[str]:
    """The ends of the round's jobs."""
    rng, rules, seen = random.Random(seed), FilterRules(luxi), Counter[str]()
    newest = max((int(row["id"]) for row in luxi.rows("job", ("id",))), default=0)
    making = Making(rng, newest + 1)
    for _ in range(rng.randrange(1, 8)):
        rule = making.rule()
        assert faults_of(rule.predicates) == []
        rules.write(rule)
    jobs = [making.job() for _ in range(JOBS)]
    numbers = [int(number) for _, number in luxi.call("SubmitManyJobs", jobs)]
    chain = Chain(rules.read().rules)
    wanted = {job.number: expected(job, chain) for job in queue(luxi, numbers)}

    def differences() -> list[Job]:
        return [job for job in queue(luxi, numbers) if end(job) != wanted[job.number]]

    with suppress(AssertionError):
        until(lambda: all(wanted[job.number] == "queued" for job in differences()))
    # What is to stay queued has had the time to start wrongly.
    time.sleep(0.3)
    for job in differences():
        print(f"job {job.number} is {job.status}, not {wanted[job.number]}: {job.opcodes}")
        print(*[one.rule for one in chain.links], sep="\n")
        seen["different"] += 1
    left = [number for number, end in wanted.items() if end == "queued"]
    for number in left:
        luxi.call("CancelJob", number)
    for rule in rules.read().rules:
        rules.delete(rule.uuid)
    return seen + Counter(wanted.values())


def test_random_rules_and_jobs(luxi: Luxi) -> None:
    seen: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + ROUNDS):
        seen += one_round(luxi, seed)
    print(f"{ROUNDS * JOBS} pairs: {dict(seen)}")
    assert seen.total() == ROUNDS * JOBS
    assert set(seen) == {"ran", "queued", "canceled"}


#: Regular expressions, and names: each is tried with each.
EXPRESSIONS: Final = (
    *("^b$", "\\Ab", "b\\z", "b\\Z", "a.b", "(?s)a.b", "[[a]", "a(?i)b", "(?i:A)b", "\\p{Lu}"),
    *("(?<n>a)\\k<n>", "(?P<n>b)(?P=n)", "\\Q.*\\E", "\\h", "\\R", "\\Bb", "^(\\((?1)*\\))$"),
    *("a++b", "(?>a|ab)c", "(?|(a)|(b))\\1", "[[:upper:]]", "a{2,}", "a{,2}b", "(?#x)a$", "\\x41"),
    *("^[\\w-.]+$", "a\\yb|b\\j?$", "^[[:alpha:]-.]+$"),
)
NAMES: Final = (
    "a",
    "b",
    "ab",
    "aab",
    "bb",
    "aB",
    "AB",
    "a\nb",
    "b\n",
    "a b",
    "a.*",
    "(()())",
    "[",
    "abc",
)


def tagging(name: str) -> list[dict[str, Any]]:
    return [op("TAGS_SET", kind="cluster", name=name, tags=["t1"])]


#: The name in a job that is rejected whatever the expression: the others were looked at before.
LAST: Final = "the last one"


def test_regular_expressions(luxi: Luxi) -> None:
    """What is in which text: as luxid finds it; no job runs, which would take most of the time."""
    rules, different = FilterRules(luxi), []
    rules.write(FilterRule("", 0, (["opcode", ["=", "name", LAST]],), REJECT))
    rules.write(FilterRule("", 2, (["jobid", [">", "id", 0]],), PAUSE))
    for expression in EXPRESSIONS:
        rule = FilterRule("", 1, (["opcode", ["=~", "name", expression]],), REJECT)
        uuid = rules.write(rule)
        jobs = luxi.call("SubmitManyJobs", [tagging(one) for one in (*NAMES, LAST)])
        numbers = [int(number) for _, number in jobs]
        until(lambda last=numbers[-1:]: {job.status for job in queue(luxi, last)} == {"canceled"})
        found = {job.number for job in queue(luxi, numbers) if job.status == "canceled"}
        for number in {*numbers} - found:
            luxi.call("CancelJob", number, False)
        rules.delete(uuid)
        regex = Regex(expression)
        different += [
            (expression, name)
            for number, name in zip(numbers, NAMES, strict=False)
            if regex.is_in(name) != (number in found)
        ]
    assert different == []
