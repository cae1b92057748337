"""``gnt-steward filter lint``: rules that do not do what they seem to."""

from __future__ import annotations

import argparse
from typing import Final

from ganeti_steward.core.commands.cluster_options import add_source_options
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import add_field_options, print_fields
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK
from ganeti_steward.core.json_reader import printable
from ganeti_steward.plugins.filters.analysis.cli.inputs import rules_of
from ganeti_steward.plugins.filters.lint.lint import NOTE, Remark, lint

#: Columns -> headings.
FIELDS: Final = {
    "level": "Level",
    "uuid": "UUID",
    "check": "Check",
    "place": "Place",
    "text": "Text",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The rules to check."""
    describe(
        parser,
        {
            "gnt-steward filter lint": "the rules of the cluster",
            "gnt-steward filter lint new.json": "rules before they are created",
        },
        statuses={EXIT_FAILURE: "there is an error or a warning, or the rules cannot be read"},
    )
    parser.add_argument(
        "rules", nargs="?", metavar="RULES", help="a file of rules; default: the cluster's"
    )
    add_field_options(parser, FIELDS)
    add_source_options(parser, positional=False, files=False)
    parser.set_defaults(act=_run)


def _run(options: argparse.Namespace) -> int:
    """Print the findings; the exit status is 1 when there is an error or a warning."""
    rules = rules_of(options, options.rules)
    found = lint(rules.rules, rules.unreadable)
    if found or options.json:
        print_fields(options, FIELDS, list(FIELDS), [_row(one, options) for one in found])
    return EXIT_FAILURE if any(one.level != NOTE for one in found) else EXIT_OK


def _row(finding: Remark, options: argparse.Namespace) -> dict[str, str]:
    row = finding._asdict()
    if options.json:
        return row
    return {name: printable(value) or "-" for name, value in row.items()}
