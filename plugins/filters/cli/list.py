"""``gnt-steward filter list``: the rules, in the order in which jobs meet them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any, Final

from ganeti_steward.core.commands.cluster_options import add_source_options
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import Value, add_field_options, print_fields
from ganeti_steward.core.errors import EXIT_OK
from ganeti_steward.core.json_reader import printable
from ganeti_steward.plugins.filters.cli.cluster import chosen_rules, print_note
from ganeti_steward.plugins.filters.filter_rules import FilterRule, Rules
from ganeti_steward.plugins.filters.rule_notes import purpose_of, shown_action

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
#: What a field holds when the rule cannot be read.
_UNKNOWN: Final = "?"


def add_arguments(parser: argparse.ArgumentParser) -> None:
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


def run(options: argparse.Namespace) -> int:
    """Print the rules; those that cannot be read come last."""
    rules = chosen_rules(options, options.uuid)
    print_note(rules.rules, options)
    rows = [(_row(one) if options.json else _cells(one)) for one in rules.rules]
    print_fields(options, FIELDS, _USUAL, [*rows, *_unreadable(rules, as_data=options.json)])
    return EXIT_OK


def _row(rule: FilterRule) -> Mapping[str, Value]:
    """The values as Ganeti has them."""
    trail: list[Any] = [list(one) for one in rule.reasons]
    return {
        "uuid": rule.uuid,
        "watermark": rule.watermark,
        "priority": rule.priority,
        "predicates": list(rule.predicates),
        "action": rule.native_action,
        "reason_trail": trail,
        "purpose": purpose_of(rule).word,
    }


def _cells(rule: FilterRule) -> Mapping[str, Value]:
    row = _row(rule)
    return {
        **row,
        "predicates": json.dumps(row["predicates"]),
        "action": printable(shown_action(rule)),
        "reason_trail": json.dumps(row["reason_trail"]),
        "purpose": printable(purpose_of(rule).word) or "-",
    }


def _unreadable(rules: Rules, *, as_data: bool) -> list[Mapping[str, Value]]:
    unknown = dict.fromkeys(FIELDS, "" if as_data else _UNKNOWN)
    return [
        {**unknown, "uuid": uuid, "purpose": f"unreadable: {fault}"}
        for uuid, fault in sorted(rules.unreadable.items())
    ]
