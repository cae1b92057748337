"""Random rules and jobs: every operator, fields that exist and that do not, values of all types."""

from __future__ import annotations

import random
from typing import Any, Final

from ganeti_steward.plugins.filters.filter_rules import RATE_LIMIT, FilterRule

_STRINGS: Final = ("", "a", "0", "OP_TEST_DELAY", "OP_TAGS_SET", "cluster", "t1", "watermark")
_NUMBERS: Final = (-1, 0, 1, 2, 100000)
_REGEXES: Final = (
    *("", "TEST_", "^OP_", "delay$", "t[0-9]", "(a|cluster)", "job=\\d+"),
    *("TEST_(?i)delay", "(?<n>[AT])_?\\k<n>?", "\\p{Ll}", "\\QOP_T\\E", "^(?>[A-Z]+)_T"),
)
_FIELDS: Final = {
    "opcode": (
        *("OP_ID", "duration", "repeat", "no_locks", "on_nodes", "kind", "tags", "name"),
        *("x", "comment", "OP_ID.x"),
    ),
    "reason": ("source", "reason", "timestamp", "x"),
    "jobid": ("id", "x"),
}
_REASONS: Final = ("maintenance pink bunny", "other", "rate-limit", "5")
_COMPARISONS: Final = ("=", "==", "!=", "<", "<=", ">", ">=")


class Making:
    """Makes rules and jobs from one source of randomness; ``number``: the next job's, about."""

    def __init__(self, rng: random.Random, number: int) -> None:
        self.rng, self.number = rng, number

    def rule(self) -> FilterRule:
        """A rule that luxid takes."""
        rng = self.rng
        action = rng.choice(
            ("ACCEPT", "CONTINUE", "PAUSE", "PAUSE", "REJECT", "REJECT", RATE_LIMIT)
        )
        return FilterRule(
            "",
            rng.randrange(3),
            tuple(self._predicate() for _ in range(rng.choice((1, 1, 1, 2)))),
            action,
            rng.randrange(1, 4) if action == RATE_LIMIT else 0,
        )

    def _predicate(self) -> list[Any]:
        name = self.rng.choice(("opcode", "opcode", "opcode", "reason", "jobid"))
        return [name, self._expression(name, 3)]

    def _expression(self, name: str, depth: int) -> Any:
        rng = self.rng
        kind = rng.random() if depth else 1.0
        if kind < 0.05:
            return None
        if kind < 0.45:
            parts = [self._expression(name, depth - 1) for _ in range(rng.choice((0, 1, 2, 2, 3)))]
            return [rng.choice("&|"), *parts]
        if kind < 0.65:
            return ["!", self._expression(name, depth - 1)]
        return self._leaf(name)

    def _leaf(self, name: str) -> list[Any]:
        rng = self.rng
        field = rng.choice(_FIELDS[name])
        operator = rng.choice((*_COMPARISONS * 2, "?", "=~", "=[]"))
        if operator == "?":
            return [operator, field]
        if operator == "=~":
            return [operator, field, rng.choice(_REGEXES)]
        return [operator, field, rng.choice(self._values(name))]

    def _values(self, name: str) -> tuple[str | int, ...]:
        near = tuple(range(self.number - 2, self.number + 12))
        more = {"jobid": (*near, "watermark", "watermark"), "reason": _REASONS}
        return (*_STRINGS, *_NUMBERS, *more.get(name, ()))

    def job(self) -> list[dict[str, Any]]:
        """One or two opcodes that end at once, with reasons."""
        return [self._opcode() for _ in range(self.rng.choice((1, 1, 2)))]

    def _opcode(self) -> dict[str, Any]:
        rng = self.rng
        made: dict[str, Any] = {
            "OP_ID": "OP_TEST_DELAY",
            "duration": rng.choice((0, 0.01)),
            "on_master": False,
            "on_nodes": [],
            "no_locks": rng.random() < 0.8,
            "interruptible": False,
            "repeat": rng.choice((0, 1)),
        }
        if rng.random() < 0.4:
            made = {"OP_ID": "OP_TAGS_SET", "kind": "cluster", "tags": [rng.choice(("t1", "t2"))]}
        if rng.random() < 0.3:
            made["comment"] = "a"
        count = rng.randrange(3)
        made["reason"] = [
            [f"gnt:{one}", one, at] for at, one in enumerate(rng.sample(_REASONS, count))
        ]
        return made
