"""``gnt-steward filter apply``: the rules of a file become those of the cluster."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ganeti_steward.core.commands import tables
from ganeti_steward.core.commands.cluster_options import add_source_options
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.errors import EXIT_OK, StewardError
from ganeti_steward.core.ganeti.sources import read_file
from ganeti_steward.core.json_reader import printable
from ganeti_steward.plugins.filters.applying import Plan, RuleFile, described, is_of, planned
from ganeti_steward.plugins.filters.chain import Chain, known
from ganeti_steward.plugins.filters.cli.cluster import live_client, live_jobs, print_note
from ganeti_steward.plugins.filters.cli.rule_file import read_named_rules
from ganeti_steward.plugins.filters.cli.write import check_rules
from ganeti_steward.plugins.filters.filter_rules import PAUSE, REJECT, FilterRule, FilterRules
from ganeti_steward.plugins.filters.jobs import RUNNING

#: Seconds between two looks at the jobs.
_PAUSE: Final = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, and what is done with it."""
    describe(
        parser,
        {
            "gnt-steward filter apply rules.toml --dry-run": "the changes of the rules",
            "gnt-steward filter apply rules.toml --prune": "exactly these rules of its owner",
        },
    )
    parser.add_argument("rules", metavar="FILE", help="a file of named rules, TOML or JSON")
    parser.add_argument(
        "--prune", action="store_true", help="delete the owner's rules that are not in the file"
    )
    parser.add_argument("--dry-run", action="store_true", help="only print what would be done")
    parser.add_argument(
        "--wait",
        action="store_true",
        help="wait until the jobs have ended that were started before and that the rules now hold "
        "or cancel",
    )
    parser.add_argument(
        "--force", action="store_true", help="write the rules even if lint finds errors in them"
    )
    tables.add_json_option(parser, "the changes as data")
    add_source_options(parser, positional=False, files=False)
    parser.set_defaults(act=_run)


def _run(options: argparse.Namespace) -> int:
    """Change the rules, and print each change when it is made."""
    now = time.time_ns()
    file = read_named_rules(read_file(options.rules), options.rules, now)
    if file is None:
        raise StewardError(f"{options.rules}: an owner and rules with names are expected")
    if not options.force:
        check_rules(one.rule._replace(uuid=one.name) for one in file.rules)
    rules = FilterRules(live_client(options))
    plan = planned(rules.read().rules, file, now, prune=options.prune)
    if options.dry_run:
        words = {"writes": "would be written", "deletes": "would be deleted"}
        _print(described(plan, words), options)
        return EXIT_OK
    changes = described(plan, {"writes": "written", "deletes": "deleted"})
    for change, _ in zip(changes, carry_out(plan, rules), strict=True):
        if not options.json:
            print(_line(change), flush=True)
    if options.json or not changes:
        _print(changes, options)
    print_note((one.rule for one in file.rules), options)
    if options.wait:
        _wait(options, file)
    return EXIT_OK


def carry_out(plan: Plan, rules: FilterRules) -> Iterator[FilterRule]:
    """Make the changes; each when it is made.

    Raises StewardError, and then some are made, in their order.
    """
    try:
        for rule in plan.writes:
            rules.write(rule)
            yield rule
        for rule in plan.deletes:
            rules.delete(rule.uuid)
            yield rule
    except StewardError as err:
        raise StewardError(f"{err}; the same command goes on from here") from None


def _print(changes: Sequence[dict[str, Any]], options: argparse.Namespace) -> None:
    if options.json:
        tables.print_json(changes)
    else:
        tables.print_lines([_line(one) for one in changes] or ["nothing to do"])


def _line(change: Mapping[str, Any]) -> str:
    action = change["action"]
    shown = action if isinstance(action, str) else " ".join(map(str, action))
    return printable(
        f"{change['change']}: {change['name']} ({change['uuid']}, priority {change['priority']}, "
        f"{shown})"
    )


def _wait(options: argparse.Namespace, file: RuleFile) -> None:
    """Return when no job runs that the owner's rules would hold or cancel."""
    printed: list[int] = []
    while numbers := _against(options, file.owner):
        if numbers != printed:
            shown = ", ".join(map(str, numbers[:10])) + (", ..." if len(numbers) > 10 else "")
            tables.print_notes([f"waiting for the end of {len(numbers)} jobs: {shown}"])
        printed = numbers
        time.sleep(_PAUSE)


def _against(options: argparse.Namespace, owner: str) -> list[int]:
    client = live_client(options)
    chain, jobs = Chain(FilterRules(client).read().rules), live_jobs(client)[0]
    return [
        job.number
        for job in jobs
        if job.status in RUNNING and _stops(known(chain.applying(job)), owner)
    ]


def _stops(rule: FilterRule | None, owner: str) -> bool:
    return rule is not None and rule.action in (PAUSE, REJECT) and is_of(rule, owner)
