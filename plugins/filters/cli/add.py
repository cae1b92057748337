"""``gnt-steward filter add``: a new rule."""

from __future__ import annotations

import argparse
import time

from ganeti_steward.core.commands.cluster_options import add_source_options
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.errors import EXIT_OK
from ganeti_steward.plugins.filters.cli.cluster import live_client, print_note
from ganeti_steward.plugins.filters.cli.rule_options import add_rule_options, described
from ganeti_steward.plugins.filters.filter_rules import FilterRule, FilterRules


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of gnt-filter's add."""
    describe(
        parser,
        {
            "gnt-steward filter add --action PAUSE --reason upgrade": "hold every job",
            "gnt-steward filter add --action 'WINDOW Mon-Fri 22:00-06:00'": "run jobs at night",
            "gnt-steward filter add --action REJECT --predicates "
            """'[["jobid",[">","id",9]]]'""": "cancel newer jobs",
        },
    )
    add_rule_options(
        parser,
        {
            "priority": "default: 0, or 50 with an action of the maintenance daemon",
            "predicates": "default: [], which every job matches",
            "action": "default: CONTINUE, which has no effect",
            "reason": "default: none",
        },
    )
    add_source_options(parser, positional=False, files=False)


def run(options: argparse.Namespace) -> int:
    """Create the rule and print its uuid."""
    rule = described(options, FilterRule(uuid=""), time.time_ns())
    print(FilterRules(live_client(options)).write(rule))
    print_note([rule], options)
    return EXIT_OK
