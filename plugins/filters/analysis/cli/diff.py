"""``gnt-steward filter diff``: which jobs two sets of rules treat differently."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final

from ganeti_steward.core.commands.cluster_options import add_source_options
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import Value, add_field_options, print_fields
from ganeti_steward.core.errors import EXIT_OK
from ganeti_steward.core.json_reader import printable
from ganeti_steward.plugins.filters.analysis.cli import inputs
from ganeti_steward.plugins.filters.analysis.difference import Difference, Treatment, difference
from ganeti_steward.plugins.filters.chain import Unknown
from ganeti_steward.plugins.filters.jobs import QUEUED, RUNNING

#: Columns -> headings.
FIELDS: Final = {
    "job": "Job",
    "summary": "Summary",
    "status": "Status",
    "before": "Before",
    "rule-before": "RuleBefore",
    "after": "After",
    "rule-after": "RuleAfter",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The two sets of rules, and the jobs."""
    describe(
        parser,
        {
            "gnt-steward filter diff live new.json": "what new rules change for unfinished jobs",
            "gnt-steward filter diff live rules.toml": "what 'filter apply rules.toml' changes",
            "gnt-steward filter diff old.json new.json --jobs jobs.json": "without a cluster",
        },
        statuses={EXIT_OK: "done, with or without differences"},
    )
    what = f"a file of rules, or {inputs.LIVE!r}: the cluster's rules"
    parser.add_argument("old", metavar="OLD", help=what)
    parser.add_argument("new", metavar="NEW", help=what)
    inputs.add_jobs_option(parser)
    parser.add_argument(
        "--finished", action="store_true", help="compare what applies to finished jobs, too"
    )
    parser.add_argument(
        "--prune", action="store_true", help="with a file of named rules: as 'filter apply --prune'"
    )
    inputs.add_dialect_option(parser)
    inputs.add_most_running_option(parser)
    add_field_options(parser, FIELDS)
    add_source_options(parser, positional=False, files=False)
    parser.set_defaults(act=_run)


def _run(options: argparse.Namespace) -> int:
    """Print the jobs with a difference; nothing when there is none."""
    old, new = (inputs.usable_rules(options, one) for one in (options.old, options.new))
    jobs = sorted(inputs.jobs_of(options), key=lambda job: job.number)
    old, new = (
        inputs.as_written(old, jobs),
        inputs.applied(options, old, jobs) or inputs.as_written(new, jobs),
    )
    if not options.finished:
        jobs = [job for job in jobs if job.status == QUEUED or job.status in RUNNING]
    found = difference(jobs, old, new, inputs.dialect(options), inputs.most_running(options))
    if found or options.json:
        print_fields(options, FIELDS, list(FIELDS), [_row(one, options) for one in found])
    return EXIT_OK


def _row(one: Difference, options: argparse.Namespace) -> Mapping[str, Value]:
    empty = "" if options.json else "-"
    return {
        "job": one.job.number,
        "summary": printable(one.job.summary),
        "status": one.job.status,
        "before": one.before.outcome,
        "rule-before": _rule(one.before, empty),
        "after": one.after.outcome,
        "rule-after": _rule(one.after, empty),
    }


def _rule(treatment: Treatment, empty: str) -> str:
    rule = treatment.rule.rule if isinstance(treatment.rule, Unknown) else treatment.rule
    return empty if rule is None else rule.uuid
