"""``gnt-steward filter info``: everything about rules."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Final

from ganeti_steward.core.commands.cluster_options import add_source_options
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import print_lines
from ganeti_steward.core.errors import EXIT_OK
from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.units import local_time
from ganeti_steward.plugins.filters.cli.cluster import chosen_rules
from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.rule_notes import (
    noted_action,
    purpose_of,
    shown_action,
    warning,
)
from ganeti_steward.plugins.filters.rule_text import EXAMPLE_UUID

_SECOND: Final = 10**9
#: A reason longer than this is cut; the record of an incident has thousands of characters.
_LONGEST: Final = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The rules to print."""
    describe(
        parser,
        {
            "gnt-steward filter info": "all rules",
            f"gnt-steward filter info {EXAMPLE_UUID}": "one rule",
        },
    )
    parser.add_argument("uuid", nargs="*", metavar="UUID", help="these rules; default: all")
    add_source_options(parser, positional=False, files=False)


def run(options: argparse.Namespace) -> int:
    """Print the rules in the order in which jobs meet them."""
    rules = chosen_rules(options, options.uuid)
    for rule in rules.rules:
        print_lines(_lines(rule))
    for uuid, fault in sorted(rules.unreadable.items()):
        print_lines([f"UUID: {uuid}", f"  Unreadable: {fault}"])
    return EXIT_OK


def _lines(rule: FilterRule) -> Iterator[str]:
    yield f"UUID: {rule.uuid}"
    yield f"  Watermark: {rule.watermark}"
    yield f"  Priority: {rule.priority}"
    yield "  Predicates:" + ("" if rule.predicates else " none, the rule matches every job")
    yield from (f"    {json.dumps(predicate)}" for predicate in rule.predicates)
    stored = " (stored as PAUSE)" if noted_action(rule) else ""
    yield f"  Action: {shown_action(rule)}{stored}"
    if purpose_of(rule).kind:
        yield f"  Purpose: {warning(rule)}"
    yield "  Reason trail:"
    yield from (f"    {_shown(reason)}" for reason in rule.reasons)


def _shown(reason: Reason) -> str:
    text = printable(reason.text)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}... ({len(text)} characters)"
    return f"{local_time(reason.timestamp)} {reason.source}" + (f": {text}" if text else "")
