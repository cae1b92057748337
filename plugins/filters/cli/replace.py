"""``gnt-steward filter replace``: change a rule, which also gives it a new watermark."""

from __future__ import annotations

import argparse
import time
from typing import Final

from ganeti_steward.core.commands.cluster_options import add_source_options
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.errors import EXIT_OK
from ganeti_steward.plugins.filters.cli.cluster import check_unowned, live_client
from ganeti_steward.plugins.filters.cli.rule_options import add_rule_options, described
from ganeti_steward.plugins.filters.filter_rules import FilterRule, FilterRules, Rules
from ganeti_steward.plugins.filters.rule_text import EXAMPLE_UUID, checked_uuid

_KEPT: Final = "default: as it is; in a new rule as with add"
#: The source of the entry that luxid adds whenever a rule is written.
_LUXID: Final = "luxid"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of gnt-filter's replace, and ``--force``."""
    describe(
        parser,
        {
            f"gnt-steward filter replace {EXAMPLE_UUID} --priority 5": "another priority",
            f"gnt-steward filter replace {EXAMPLE_UUID}": "the same rule, a new watermark",
        },
    )
    parser.add_argument("uuid", metavar="UUID", help="the rule; it is created when there is none")
    add_rule_options(parser, dict.fromkeys(("priority", "predicates", "action", "reason"), _KEPT))
    parser.add_argument(
        "--force", action="store_true", help="replace also what a program needs as it is"
    )
    add_source_options(parser, positional=False, files=False)


def run(options: argparse.Namespace) -> int:
    """Write the rule and print its uuid."""
    new, now = FilterRule(checked_uuid(options.uuid)), time.time_ns()
    # What is wrong with the options comes before anything that concerns the cluster.
    described(options, new, now)
    rules = FilterRules(live_client(options))
    found = rules.read()
    if not options.force:
        check_unowned(found, [options.uuid])
    print(rules.write(described(options, _before(found, new), now)))
    return EXIT_OK


def _before(rules: Rules, new: FilterRule) -> FilterRule:
    """The rule as it is, or the new one where there is none that can be read."""
    before = next((rule for rule in rules.rules if rule.uuid == new.uuid), new)
    reasons = tuple(reason for reason in before.reasons if reason.source != _LUXID)
    return before._replace(reasons=reasons)
