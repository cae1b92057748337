"""``gnt-steward filter simulate``: a job queue over time under some rules."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final

from ganeti_steward.core.commands.cluster_options import add_source_options
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import Value, add_field_options, print_fields
from ganeti_steward.core.errors import EXIT_OK, StewardError
from ganeti_steward.core.json_reader import printable
from ganeti_steward.plugins.filters.analysis.cli import inputs
from ganeti_steward.plugins.filters.analysis.simulation import Course, simulate, timed_jobs

#: Columns -> headings.
FIELDS: Final = {
    "job": "Job",
    "summary": "Summary",
    "submitted": "Submitted",
    "started": "Started",
    "ended": "Ended",
    "waited": "Waited",
    "outcome": "Outcome",
    "cause": "Cause",
    "behind": "Behind",
    "rule": "Rule",
}
_USUAL: Final = ("job", "summary", "submitted", "started", "ended", "outcome", "cause", "rule")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The rules and the jobs."""
    describe(
        parser,
        {
            "gnt-steward filter simulate new.json jobs.json": "when each job starts and ends",
            "gnt-steward filter simulate live jobs.json --duration 60": "each takes a minute",
        },
        units="Times and --duration are in seconds.",
    )
    parser.add_argument(
        "rules", metavar="RULES", help=f"a file of rules, or {inputs.LIVE!r}: the cluster's rules"
    )
    parser.add_argument("jobs", metavar="JOBS", help="a JSON file of jobs with their times")
    parser.add_argument(
        "--duration",
        type=float,
        metavar="SECONDS",
        help="how long jobs run for which the file has no times",
    )
    inputs.add_dialect_option(parser)
    inputs.add_most_running_option(parser)
    add_field_options(parser, FIELDS)
    add_source_options(parser, positional=False, files=False)
    parser.set_defaults(act=_run)


def _run(options: argparse.Namespace) -> int:
    """Print what becomes of each job."""
    if options.duration is not None and not 0 <= options.duration < 1e9:
        raise StewardError(f"--duration {options.duration}: seconds from 0 are expected")
    rules, most = inputs.usable_rules(options, options.rules), inputs.most_running(options)
    try:
        timed = timed_jobs(inputs.file_rows(options.jobs), options.duration)
    except ValueError as err:
        raise StewardError(f"{options.jobs}: {err}") from None
    empty = "" if options.json else "-"
    rows = [_row(one, empty) for one in simulate(timed, rules, inputs.dialect(options), most)]
    print_fields(options, FIELDS, _USUAL, rows)
    return EXIT_OK


def _row(course: Course, empty: str) -> Mapping[str, Value]:
    timed, waiting = course.timed, course.waiting
    # That of a job of which it is unknown which rule applies is the one that may.
    rule = course.rule or (waiting.rule if waiting else None)
    began = course.started if course.started is not None else course.ended
    return {
        "job": timed.job.number,
        "summary": printable(timed.job.summary),
        "submitted": round(timed.submitted),
        "started": _time(course.started, empty),
        "ended": _time(course.ended, empty),
        "waited": _time(None if began is None else began - timed.submitted, empty),
        "outcome": course.outcome,
        "cause": empty if waiting is None else waiting.cause,
        "behind": [] if waiting is None else [str(one) for one in waiting.behind],
        "rule": empty if rule is None else rule.uuid,
    }


def _time(seconds: float | None, empty: str) -> Value:
    return empty if seconds is None else round(seconds)
