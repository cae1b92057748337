"""The options of gnt-filter that describe a rule."""

from __future__ import annotations

import argparse

from ganeti_steward.core.ganeti.reasons import USER, Reason
from ganeti_steward.plugins.filters.cli.action_option import HELP, with_action, with_priority
from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.rule_notes import ACTION_SOURCE
from ganeti_steward.plugins.filters.rule_text import (
    checked_ascii,
    parsed_predicates,
    parsed_priority,
)


def add_rule_options(parser: argparse.ArgumentParser, otherwise: dict[str, str]) -> None:
    """``--priority``, ``--predicates``, ``--action``, ``--reason``.

    ``otherwise``: option -> what holds without it, for the help.
    """
    for name, metavar, text in (
        ("priority", "NUMBER", "rules with a lower number come first"),
        ("predicates", "JSON", "what must be true for a job, as a list [[NAME, EXPRESSION], ...]"),
        ("action", "ACTION", HELP),
        ("reason", "TEXT", "why the rule is there, for its reason trail"),
    ):
        parser.add_argument(f"--{name}", metavar=metavar, help=f"{text}; {otherwise[name]}")


def described(options: argparse.Namespace, before: FilterRule, now: int) -> FilterRule:
    """The rule that the options describe; raises StewardError.

    ``before``: what holds where an option is not given; ``now``: ns since 1970.
    """
    rule, priority = before, None
    if options.priority is not None:
        priority = parsed_priority(options.priority)
    if options.predicates is not None:
        rule = rule._replace(predicates=parsed_predicates(options.predicates))
    if options.reason is not None:
        noted = tuple(reason for reason in rule.reasons if reason.source == ACTION_SOURCE)
        rule = rule._replace(reasons=(*user_reasons(options.reason, now), *noted))
    if options.action is not None:
        rule = with_action(rule, options.action, now)
    return with_priority(rule, priority)


def user_reasons(text: str | None, now: int) -> tuple[Reason, ...]:
    """The entry of a reason trail for what a user gave; raises StewardError."""
    return (Reason(USER, checked_ascii("reason", text), now),) if text else ()
