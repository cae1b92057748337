"""``gnt-steward filter list`` and ``info``: the rules, in the order in which jobs meet them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ganeti_steward.core.commands.cluster_options import add_source_options
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import Value, add_field_options, print_fields, print_lines
from ganeti_steward.core.errors import EXIT_OK
from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.core.json_reader import printable
from ganeti_steward.plugins.filters import rule_notes
from ganeti_steward.plugins.filters.cli.cluster import chosen_rules, print_note
from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.rule_text import EXAMPLE_UUID
from ganeti_steward.plugins.texts import local_time

#: Columns -> headings.
FIELDS: Final = {
    "uuid": "UUID",
    "watermark": "Watermark",
    "priority": "Priority",
    "predicates": "Predicates",
    "action": "Action",
    "reason_trail": "ReasonTrail",
    "purpose": "Purpose",
}
_USUAL: Final = ("uuid", "watermark", "priority", "predicates", "action", "purpose")
#: A reason longer than this is cut; the record of an incident has thousands of characters.
_LONGEST: Final = 200


def list_options(parser: argparse.ArgumentParser) -> None:
    """The options of gnt-filter's list."""
    describe(
        parser,
        {
            "gnt-steward filter list": "all rules, with what each is for",
            "gnt-steward filter list -o uuid,action --separator ,": "two columns, for a script",
        },
    )
    parser.add_argument("uuid", nargs="*", metavar="UUID", help="only these rules; default: all")
    add_field_options(parser, FIELDS)
    add_source_options(parser, positional=False, files=False)
    parser.set_defaults(act=_list)


def _list(options: argparse.Namespace) -> int:
    """Print the rules; those that cannot be read come last."""
    rules = chosen_rules(options, options.uuid)
    print_note(rules.rules, options)
    unknown = dict.fromkeys(FIELDS, "" if options.json else "?")
    rows = [(data_of(rule) if options.json else cells_of(rule)) for rule in rules.rules]
    for uuid, fault in sorted(rules.unreadable.items()):
        rows.append({**unknown, "uuid": uuid, "purpose": f"unreadable: {fault}"})
    print_fields(options, FIELDS, _USUAL, rows)
    return EXIT_OK


def data_of(rule: FilterRule) -> Mapping[str, Value]:
    """The values as Ganeti has them."""
    trail: list[Any] = [list(reason) for reason in rule.reasons]
    return {
        "uuid": rule.uuid,
        "watermark": rule.watermark,
        "priority": rule.priority,
        "predicates": list(rule.predicates),
        "action": rule.native_action,
        "reason_trail": trail,
        "purpose": rule_notes.purpose_of(rule).word,
    }


def cells_of(rule: FilterRule) -> Mapping[str, Value]:
    """The values as texts for a table."""
    data = data_of(rule)
    return {
        **data,
        "predicates": json.dumps(data["predicates"]),
        "action": printable(rule_notes.shown_action(rule)),
        "reason_trail": json.dumps(data["reason_trail"]),
        "purpose": printable(rule_notes.purpose_of(rule).word) or "-",
    }


def info_options(parser: argparse.ArgumentParser) -> None:
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
    parser.set_defaults(act=_info)


def _info(options: argparse.Namespace) -> int:
    """Print everything about the rules."""
    rules = chosen_rules(options, options.uuid)
    for rule in rules.rules:
        print_lines(lines_of(rule))
    for uuid, fault in sorted(rules.unreadable.items()):
        print_lines([f"UUID: {uuid}", f"  Unreadable: {fault}"])
    return EXIT_OK


def lines_of(rule: FilterRule) -> Iterator[str]:
    """Everything about a rule."""
    yield f"UUID: {rule.uuid}"
    yield f"  Watermark: {rule.watermark}"
    yield f"  Priority: {rule.priority}"
    yield "  Predicates:" + ("" if rule.predicates else " none, the rule matches every job")
    yield from (f"    {json.dumps(predicate)}" for predicate in rule.predicates)
    stored = " (stored as PAUSE)" if rule_notes.noted_action(rule) else ""
    yield f"  Action: {rule_notes.shown_action(rule)}{stored}"
    if rule_notes.purpose_of(rule).kind:
        yield f"  Purpose: {rule_notes.warning(rule)}"
    yield "  Reason trail:"
    yield from (f"    {_shown(reason)}" for reason in rule.reasons)


def _shown(reason: Reason) -> str:
    text = printable(reason.text)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}... ({len(text)} characters)"
    return f"{local_time(reason.timestamp)} {reason.source}" + (f": {text}" if text else "")
