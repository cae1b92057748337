"""``gnt-steward filter delete``: delete rules."""

from __future__ import annotations

import argparse

from ganeti_steward.core.commands.cluster_options import add_source_options
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.errors import EXIT_OK
from ganeti_steward.plugins.filters.cli.cluster import check_known, check_unowned, live_client
from ganeti_steward.plugins.filters.filter_rules import FilterRules
from ganeti_steward.plugins.filters.rule_text import EXAMPLE_UUID


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The rules to delete."""
    describe(parser, {f"gnt-steward filter delete {EXAMPLE_UUID}": "delete one rule"})
    parser.add_argument("uuid", nargs="+", metavar="UUID", help="the rules")
    parser.add_argument("--force", action="store_true", help="delete also what a program needs")
    add_source_options(parser, positional=False, files=False)


def run(options: argparse.Namespace) -> int:
    """Delete the rules; none when one of them is unknown or must be left alone."""
    rules = FilterRules(live_client(options))
    found = rules.read()
    check_known(found, options.uuid)
    if not options.force:
        check_unowned(found, options.uuid)
    for uuid in options.uuid:
        rules.delete(uuid)
    return EXIT_OK
