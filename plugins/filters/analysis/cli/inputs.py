"""Rules and jobs of files, or those that the cluster has now."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ganeti_steward.core.commands.tables import print_notes
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.sources import read_file
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.plugins.filters.applying import planned
from ganeti_steward.plugins.filters.cli.cluster import live_client, live_jobs
from ganeti_steward.plugins.filters.cli.rule_file import read_named_rules, read_rules_of_file
from ganeti_steward.plugins.filters.filter_rules import FilterRule, Rules, read_rules
from ganeti_steward.plugins.filters.jobs import Job, read_jobs
from ganeti_steward.plugins.filters.language import DIALECTS, LUXID, Dialect, faults_of_form
from ganeti_steward.plugins.filters.rule_text import is_uuid, valid_rules

#: What stands for the rules that the cluster has now, in place of a file.
LIVE: Final = "live"
#: Ganeti's default of max_running_jobs.
_MOST_RUNNING: Final = 20


def add_dialect_option(parser: argparse.ArgumentParser) -> None:
    """``--dialect``."""
    parser.add_argument(
        "--dialect",
        choices=list(DIALECTS),
        default=LUXID.name,
        help="evaluate rules as luxid does, or as Ganeti's design document says; default: luxid",
    )


def add_most_running_option(parser: argparse.ArgumentParser) -> None:
    """``--max-running``."""
    parser.add_argument(
        "--max-running",
        type=int,
        metavar="NUMBER",
        help=f"jobs at a time; default: max_running_jobs of the cluster, {_MOST_RUNNING} for files",
    )


def add_jobs_option(parser: argparse.ArgumentParser) -> None:
    """``--jobs``."""
    parser.add_argument(
        "--jobs", metavar="FILE", help="a JSON file of jobs; default: the cluster's unfinished ones"
    )


def dialect(options: argparse.Namespace) -> Dialect:
    """The chosen dialect."""
    return DIALECTS[options.dialect]


def rules_of(options: argparse.Namespace, file: str | None) -> Rules:
    """The rules of a file, or of the cluster without one; raises StewardError."""
    if file is None or file == LIVE:
        return read_rules(live_client(options))
    return read_rules_of_file(read_file(file), file, time.time_ns())


def usable_rules(options: argparse.Namespace, file: str | None) -> tuple[FilterRule, ...]:
    """The valid rules; raises StewardError, for a file also when there are other ones.

    Rules of the cluster that cannot be read are left out with a note.  Those with regular
    expressions that only luxid takes are not: other parts of them can be false.
    """
    rules = rules_of(options, file)
    if file not in (None, LIVE):
        return valid_rules(rules, str(file))
    faults = {one.uuid: "; ".join(faults_of_form(one.predicates)) for one in rules.rules}
    unusable = {**rules.unreadable, **{uuid: text for uuid, text in faults.items() if text}}
    print_notes(f"rule {uuid} is left out: {text}" for uuid, text in unusable.items())
    return tuple(one for one in rules.rules if not faults[one.uuid])


def as_written(rules: Iterable[FilterRule], jobs: Iterable[Job]) -> tuple[FilterRule, ...]:
    """The rules, with the newest job's number as the watermark of those that are not written yet.

    Those have no uuid in their file.
    """
    newest = newest_of(jobs)
    new = [
        one._replace(watermark=one.watermark or newest) for one in rules if not is_uuid(one.uuid)
    ]
    return (*(one for one in rules if is_uuid(one.uuid)), *new)


def newest_of(jobs: Iterable[Job]) -> int:
    """The number of the newest job; 0 without any."""
    return max((job.number for job in jobs), default=0)


def applied(
    options: argparse.Namespace, old: Sequence[FilterRule], jobs: Iterable[Job]
) -> tuple[FilterRule, ...]:
    """The rules of the cluster once the file ``new`` is applied; none where it has no owner.

    Raises StewardError.
    """
    if options.old != LIVE or options.new == LIVE:
        return ()
    now = time.time_ns()
    file = read_named_rules(read_file(options.new), options.new, now)
    if file is None:
        return ()
    plan = planned(old, file, now, prune=options.prune)
    return plan.result(old, newest_of(jobs))


def jobs_of(options: argparse.Namespace, wanted: int | None = None) -> list[Job]:
    """The jobs of ``--jobs``, or the unfinished ones of the cluster and the wanted one.

    Jobs of the cluster that cannot be read are left out with a note; raises StewardError.
    """
    if options.jobs is not None:
        return _jobs(read_file(options.jobs), options.jobs)
    jobs, notes = live_jobs(live_client(options), wanted)
    print_notes(notes)
    return jobs


def file_rows(file: str) -> list[dict[str, Any]]:
    """The rows of a file of jobs, all with what a job needs; raises StewardError."""
    content = read_file(file)
    _jobs(content, file)
    rows: list[dict[str, Any]] = load_json(content)
    return rows


def _jobs(content: bytes, file: str) -> list[Job]:
    """The jobs of a file's content; raises StewardError."""
    try:
        jobs = read_jobs(content, file)
    except ValueError as err:
        raise StewardError(str(err)) from None
    twice = [number for number, count in Counter(job.number for job in jobs).items() if count > 1]
    if twice:
        raise StewardError(f"{file}: two jobs have the number {twice[0]}")
    return jobs


def most_running(options: argparse.Namespace) -> int:
    """``--max-running``, or that of the cluster; raises StewardError."""
    if options.max_running is not None:
        if options.max_running < 1:
            raise StewardError(f"--max-running {options.max_running}: at least 1 is expected")
        return int(options.max_running)
    if getattr(options, "jobs", None) is not None:
        return _MOST_RUNNING
    client = live_client(options)
    return int(client.info().get("max_running_jobs") or _MOST_RUNNING)
