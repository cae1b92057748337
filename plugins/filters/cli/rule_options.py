"""The options of gnt-filter that describe a rule."""

from __future__ import annotations

import argparse
from typing import Any, Final

from ganeti_steward.core.ganeti.filter_rules import FilterRule
from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.rule_text import (
    checked_ascii,
    parsed_action,
    parsed_predicates,
    parsed_priority,
)

#: The source of a reason that a user gives, in Ganeti's reason trails.
USER: Final = "gnt:user"


def add_rule_options(parser: argparse.ArgumentParser, otherwise: dict[str, str]) -> None:
    """``--priority``, ``--predicates``, ``--action``, ``--reason``.

    ``otherwise``: option -> what holds without it, for the help.
    """
    for name, metavar, text in (
        ("priority", "NUMBER", "rules with a lower number come first"),
        ("predicates", "JSON", "what must be true for a job, as a list [[NAME, EXPRESSION], ...]"),
        ("action", "ACTION", "ACCEPT, PAUSE, REJECT, CONTINUE or 'RATE_LIMIT n'"),
        ("reason", "TEXT", "why the rule is there, for its reason trail"),
    ):
        parser.add_argument(f"--{name}", metavar=metavar, help=f"{text}; {otherwise[name]}")


def described(options: argparse.Namespace, before: FilterRule, now: int) -> FilterRule:
    """The rule that the options describe; raises StewardError.

    ``before``: what holds where an option is not given; ``now``: ns since 1970.
    """
    parts: dict[str, Any] = {}
    if options.priority is not None:
        parts["priority"] = parsed_priority(options.priority)
    if options.predicates is not None:
        parts["predicates"] = parsed_predicates(options.predicates)
    if options.action is not None:
        parts["action"], parts["limit"] = parsed_action(options.action)
    if options.reason is not None:
        parts["reasons"] = user_reasons(options.reason, now)
    return before._replace(**parts)


def user_reasons(text: str | None, now: int) -> tuple[Reason, ...]:
    """The entry of a reason trail for what a user gave; raises StewardError."""
    return (Reason(USER, checked_ascii("reason", text), now),) if text else ()
