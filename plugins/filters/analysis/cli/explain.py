"""``gnt-steward filter explain``: why a job waits, starts or is canceled."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from ganeti_steward.core.commands.cluster_options import add_source_options
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import add_json_option, print_json, print_lines
from ganeti_steward.core.errors import EXIT_OK, StewardError
from ganeti_steward.plugins.filters.analysis.blame import Cause
from ganeti_steward.plugins.filters.analysis.cli import inputs
from ganeti_steward.plugins.filters.analysis.explain import JobExplanation, RuleStep, explain
from ganeti_steward.plugins.filters.chain import Unknown, known
from ganeti_steward.plugins.filters.filter_rules import CONTINUE
from ganeti_steward.plugins.filters.rule_notes import shown_action


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The job, and where it and the rules are from."""
    describe(
        parser,
        {
            "gnt-steward filter explain 4711": "why this job waits, starts or is canceled",
            "gnt-steward filter explain 4711 --rules new.json": "the same with other rules",
        },
    )
    parser.add_argument("job", type=int, metavar="JOB", help="the number of the job")
    inputs.add_jobs_option(parser)
    parser.add_argument("--rules", metavar="FILE", help="a file of rules; default: the cluster's")
    inputs.add_dialect_option(parser)
    inputs.add_most_running_option(parser)
    add_json_option(parser, "the same as data")
    add_source_options(parser, positional=False, files=False)
    parser.set_defaults(act=_run)


def _run(options: argparse.Namespace) -> int:
    """Print each rule in order, and what happens to the job."""
    jobs = inputs.jobs_of(options, options.job)
    rules = inputs.as_written(inputs.usable_rules(options, options.rules), jobs)
    most = inputs.most_running(options)
    try:
        found = explain(options.job, jobs, rules, inputs.dialect(options), most)
    except KeyError:
        raise StewardError(f"there is no job {options.job}") from None
    if options.json:
        print_json(_data(found))
    else:
        print_lines(_lines(found))
    return EXIT_OK


def _lines(found: JobExplanation) -> Iterator[str]:
    yield f"Job {found.job.number} ({found.job.summary}), {found.job.status}"
    for step in found.steps:
        yield f"  Rule {step.rule.uuid}, priority {step.rule.priority}, {_verdict(step, found)}"
        for at, one in enumerate(step.predicates):
            if one.matched:
                yield f"    predicates[{at}]: true of {one.subject}"
            elif not one.causes:
                yield f"    predicates[{at}]: there is nothing that it could be true of"
            yield from (f"    {_line(cause)}" for cause in one.causes)
    yield f"  Result: {_applying(found)}; {found.outcome}"


def _applying(found: JobExplanation) -> str:
    if isinstance(found.applying, Unknown):
        return f"may apply: {found.applying.rule.uuid}"
    return "no rule applies" if found.applying is None else f"applies: {found.applying.uuid}"


def _verdict(step: RuleStep, found: JobExplanation) -> str:
    action = shown_action(step.rule)
    if step.matched is None:
        return f"{action}: it is unknown whether it matches"
    if not step.matched:
        return f"{action}: does not match"
    if step.rule.action == CONTINUE:
        return f"{action}: matches, without effect"
    if step.rule == found.applying:
        return f"{action}: matches and applies"
    return f"{action}: matches, but an earlier rule applies"


def _line(cause: Cause) -> str:
    what = "may be true of" if cause.unknown else "is not true of"
    return f"{cause.place}: {json.dumps(cause.part)} {what} {cause.subject}: {cause.text}"


def _data(found: JobExplanation) -> dict[str, Any]:
    return {
        "job": found.job.number,
        "status": found.job.status,
        "rules": [
            {
                "uuid": step.rule.uuid,
                "action": step.rule.native_action,
                "matched": step.matched,
                "causes": [dict(one._asdict()) for each in step.predicates for one in each.causes],
            }
            for step in found.steps
        ],
        "applying": rule.uuid if (rule := known(found.applying)) else None,
        "may_apply": found.applying.rule.uuid if isinstance(found.applying, Unknown) else None,
        "outcome": found.outcome,
    }
