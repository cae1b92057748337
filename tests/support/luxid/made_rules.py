"""Random rules, and jobs that they match."""

from __future__ import annotations

import random
from typing import Any, Final

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.lint.witness import made_up

ACTIONS: Final = ("ACCEPT", "CONTINUE", "PAUSE", "PAUSE", "REJECT", "RATE_LIMIT")
FIELDS: Final = {
    "opcode": ("OP_ID", "OP_ID", "no_locks", "repeat", "kind", "tags", "name", "beparams.memory"),
    "reason": ("source", "reason", "timestamp"),
    "jobid": ("id",),
}
VALUES: Final = {
    "opcode": ("OP_TEST_DELAY", "OP_TAGS_SET", "OP_TAGS_DEL", "cluster", "x", 0, 1),
    "reason": ("gnt:user", "bunny", "pony", 7),
    "jobid": (3, 5, 7, "watermark"),
}
#: Of regular expressions: with and without a text that has to be there.
PATTERNS: Final = (
    *("^OP_T[A-Z_]+SET$", "TAGS_(SET|DEL)", "OP_TAGS|TEST", "clus.er", "DELA?Y", "T{1,2}EST_DE"),
    *("\\x{78}", "(?i)tags", "OP_(?!TAGS)", "bun*y", "a{2000}", "(TAGS"),
)


def expression(rng: random.Random, name: str, depth: int = 2) -> Any:
    kind = rng.random() if depth else 1.0
    if kind < 0.03:
        return None
    if kind < 0.4:
        count = rng.choice((1, 2, 2, 3))
        return [rng.choice("&&|"), *(expression(rng, name, depth - 1) for _ in range(count))]
    if kind < 0.45:
        return ["!", expression(rng, name, depth - 1)]
    field, value = rng.choice(FIELDS[name]), rng.choice(VALUES[name])
    operator = rng.choice(("=", "=", "=", "==", "!=", "<", ">=", "=~", "?", "=[]"))
    if operator == "?":
        return [operator, field]
    if operator == "=~":
        return [operator, field, rng.choice((str(value), rng.choice(PATTERNS)))]
    return [operator, field, value]


def made_rules(rng: random.Random, count: int) -> list[FilterRule]:
    rules = []
    for at in range(count):
        names = rng.choices(("opcode", "reason", "jobid"), (4, 3, 1), k=rng.choice((0, 1, 1, 1, 2)))
        predicates = tuple([name, expression(rng, name)] for name in names)
        action = rng.choice(ACTIONS)
        limit = 2 if action == "RATE_LIMIT" else 0
        mark = rng.choice((4, 6))
        rules.append(FilterRule(f"{at:02}", rng.randrange(2), predicates, action, limit, (), mark))
    return sorted(rules, key=lambda rule: rule.order)


def made_jobs(rng: random.Random) -> list[Job]:
    found = []
    for number in range(1, 9):
        name = rng.choice(("OP_TEST_DELAY", "OP_TAGS_SET", "OP_TAGS_DEL"))
        opcode = {
            "OP_ID": name,
            "no_locks": rng.random() < 0.5,
            "repeat": rng.choice((0, 1, 1.0, True)),
            "kind": rng.choice(("cluster", "x", [1])),
            "tags": ["x"],
        }
        reasons = [Reason(rng.choice(("gnt:user", "x")), rng.choice(("bunny", "pony")), 7)]
        job = made_up(number, opcode, reasons)
        found.append(job if rng.random() < 0.7 else job._replace(opcodes=(opcode, {"OP_ID": "x"})))
    return found
