#!/usr/bin/env python3
"""Time job filter rules: one pass, a simulated day, diff, explain, lint, and held jobs.

Prints CPU seconds.  There is nothing to compare with: luxid evaluates rules inside its own process.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from typing import Any, Final

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.actions.matching import Matches
from ganeti_steward.plugins.filters.actions.releasing import decide
from ganeti_steward.plugins.filters.analysis.difference import difference
from ganeti_steward.plugins.filters.analysis.explain import explain
from ganeti_steward.plugins.filters.analysis.simulation import TimedJob, simulate
from ganeti_steward.plugins.filters.chain import Chain
from ganeti_steward.plugins.filters.filter_rules import FilterRule, Rules
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.language import LUXID
from ganeti_steward.plugins.filters.lint.lint import lint
from ganeti_steward.plugins.filters.scheduling import schedule
from ganeti_steward.plugins.model.filter_action import Hold

OPCODES: Final = (
    "OP_INSTANCE_CREATE",
    "OP_INSTANCE_MIGRATE",
    "OP_INSTANCE_REPLACE_DISKS",
    "OP_TAGS_SET",
    "OP_TEST_DELAY",
)
ACTIONS: Final = ("ACCEPT", "PAUSE", "REJECT", "RATE_LIMIT")
RUNNING: Final = 16
#: Seconds.
DAY: Final = 86_400


def made_jobs(rng: random.Random, number: int) -> list[Job]:
    """Jobs of one opcode with two reasons each; the first of them run."""
    return [
        Job(
            at,
            "running" if at < RUNNING else "queued",
            opcodes=({"OP_ID": rng.choice(OPCODES), "instance_name": f"inst{at}", "duration": 1},),
            reasons=(Reason("gnt:user", f"reason {at % 50}", 5), Reason("gnt:opcode", f"{at}", 6)),
        )
        for at in range(number)
    ]


def made_rules(rng: random.Random, number: int, watermark: int) -> list[FilterRule]:
    """Rules that mostly match few jobs, so that most of them are evaluated."""
    kinds: tuple[Callable[[int], list[Any]], ...] = (
        lambda at: [["opcode", ["=", "instance_name", f"inst{at * 7}"]]],
        lambda at: [["reason", ["=", "reason", f"maintenance {at}"]]],
        lambda at: [["jobid", [">", "id", "watermark"]], ["opcode", ["=~", "OP_ID", "^OP_NODE"]]],
        lambda at: [["opcode", ["&", ["=", "OP_ID", OPCODES[0]], ["=", "instance_name", f"{at}"]]]],
    )
    return [
        FilterRule(
            f"rule{at}",
            at,
            tuple(kinds[at % len(kinds)](at)),
            rng.choice(ACTIONS),
            3,
            watermark=watermark,
        )
        for at in range(number)
    ]


def made_held(number: int, rules: int, expression: str) -> tuple[Rules, list[Job]]:
    """Queued jobs that an action holds, and rules with an expression about the instance's name.

    ``expression``: with ``%d`` where the number of the rule stands.
    """
    create = ["=", "OP_ID", OPCODES[0]]
    others = [
        FilterRule(
            f"{at:08}-0000-4000-8000-000000000000",
            1,
            (
                [
                    "opcode",
                    ["&", create, ["=~", "instance_name", expression.replace("%d", str(at))]],
                ],
            ),
            "REJECT",
        )
        for at in range(rules)
    ]
    action = (Reason("steward:filter-action", "APPROVE", 1),)
    held = FilterRule("ffffffff-0000-4000-8000-000000000000", 50, (), "PAUSE", reasons=action)
    jobs = [
        Job(at, opcodes=({"OP_ID": OPCODES[0], "instance_name": f"srv{at}.example.com"},))
        for at in range(1, number + 1)
    ]
    return Rules((*others, held), {}), jobs


def timed(run: Callable[[], object]) -> float:
    """CPU seconds of a call."""
    began = time.process_time()
    run()
    return time.process_time() - began


def _hold(*_: object) -> Hold:
    return Hold("no admin has approved it")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--rules", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    rng = random.Random(1)
    jobs = made_jobs(rng, options.jobs)
    rules = made_rules(rng, options.rules, options.jobs * 9 // 10)
    chain = Chain(rules)
    gap, longest = DAY / options.jobs, DAY / options.jobs * 20
    day = [
        TimedJob(one._replace(status="queued"), at * gap, rng.uniform(1, longest))
        for at, one in enumerate(jobs)
    ]
    same = [rule._replace(priority=0) for rule in rules]
    named = made_held(options.jobs, options.rules, "^web%d[a-z]+$")
    every = made_held(options.jobs, options.rules, "[0-9]%d$|Q")
    known = Matches()
    work: dict[str, Callable[[], object]] = {
        "one pass": lambda: schedule(jobs, chain, 20),
        "a simulated day": lambda: simulate(day, rules, LUXID, 20),
        "diff": lambda: difference(jobs, rules, rules[1:], LUXID, 20),
        "explain": lambda: explain(jobs[-1].number, jobs, rules, LUXID, 20),
        "lint": lambda: lint(rules, {}),
        "lint, all of one priority": lambda: lint(same, {}),
        "held jobs, rules with a name in them": lambda: decide(*named, _hold),
        "held jobs, each rule is tried": lambda: decide(*every, _hold),
        "held jobs, the next decision": lambda: decide(*named, _hold, matches=known),
    }
    for name, run in work.items():
        times = sorted(timed(run) for _ in range(options.runs))
        middle = times[len(times) // 2]
        print(f"{name}, {options.jobs} jobs, {options.rules} rules: {middle:.2f} s CPU")


if __name__ == "__main__":
    main()
