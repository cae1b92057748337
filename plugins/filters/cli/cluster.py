"""The rules of the cluster that the options of a subcommand name."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ganeti_steward.core.builtins import declaration
from ganeti_steward.core.commands.cluster_options import source_options
from ganeti_steward.core.commands.tables import print_notes
from ganeti_steward.core.config.load import config_path, load_config
from ganeti_steward.core.errors import StewardError, join_faults
from ganeti_steward.core.json_reader import printable
from ganeti_steward.plugins.filters.filter_rules import FilterRule, Rules, read_rules
from ganeti_steward.plugins.filters.jobs import FIELDS, QUEUED, RUNNING, Job, read_job
from ganeti_steward.plugins.filters.rule_notes import noted_action, warnings

if TYPE_CHECKING:
    from ganeti_steward.core.ganeti.luxi import Luxi
    from ganeti_steward.core.ganeti.rapi import Rapi


def live_client(options: argparse.Namespace) -> Luxi | Rapi:
    """The client of the cluster that the options name; raises StewardError."""
    from ganeti_steward.core.ganeti.sources import open_client  # not for the help

    return open_client(source_options(options))


def live_jobs(client: Luxi | Rapi, wanted: int | None = None) -> tuple[list[Job], list[str]]:
    """The unfinished jobs and the wanted one, and why others were left out; raises StewardError."""
    jobs, notes = [], []
    for row in _job_rows(client, wanted):
        try:
            jobs.append(read_job(row))
        except ValueError as err:
            notes.append(f"left out: {err}")
    return jobs, notes


def _job_rows(client: Luxi | Rapi, wanted: int | None) -> Sequence[dict[str, Any]]:
    from ganeti_steward.core.ganeti.luxi import Luxi

    if isinstance(client, Luxi):
        states = [["=", "status", one] for one in (QUEUED, *sorted(RUNNING))]
        more = [] if wanted is None else [["=", "id", wanted]]
        return client.rows("job", FIELDS, ["|", *states, *more])
    # RAPI's list of jobs has no field for the priority: the one at submission is used.
    return client.rows("job", [name for name in FIELDS if name != "priority"])


def chosen_rules(options: argparse.Namespace, uuids: Sequence[str]) -> Rules:
    """The rules of these uuids, or all without any; raises StewardError."""
    rules = read_rules(live_client(options))
    if not uuids:
        return rules
    check_known(rules, uuids)
    return Rules(
        tuple(rule for rule in rules.rules if rule.uuid in uuids),
        {uuid: fault for uuid, fault in rules.unreadable.items() if uuid in uuids},
    )


def check_known(rules: Rules, uuids: Sequence[str]) -> None:
    """Raise StewardError unless there is a rule of each uuid."""
    known = {rule.uuid for rule in rules.rules} | set(rules.unreadable)
    unknown = [ascii(uuid) for uuid in dict.fromkeys(uuids) if uuid not in known]
    if unknown:
        raise StewardError(f"no filter rule has the uuid {', '.join(unknown)}")


def check_unowned(rules: Rules, uuids: Sequence[str]) -> None:
    """Raise StewardError where a program needs one of these rules as it is, or may need it."""
    faults = [
        f"filter rule {uuid} cannot be read ({fault}), so that its purpose is unknown"
        for uuid, fault in rules.unreadable.items()
        if uuid in uuids
    ]
    faults += warnings(rule for rule in rules.rules if rule.uuid in uuids)
    if faults:
        raise StewardError(f"{printable(join_faults(faults))}; --force changes it nevertheless")


def print_note(rules: Iterable[FilterRule], options: argparse.Namespace) -> None:
    """Print that the jobs of some rules need the maintenance daemon, and whether it is missing."""
    names = sorted({noted.name for rule in rules if (noted := noted_action(rule))})
    if not names:
        return
    text = (
        f"luxid holds the jobs of {', '.join(names)}; only the maintenance daemon on the master "
        "releases them ('gnt-steward maintd status')"
    )
    missing = "; no maintenance daemon is running here, so they stay held"
    print_notes([text + (missing if _no_daemon(options) else "")])


def _no_daemon(options: argparse.Namespace) -> bool:
    """Whether this machine, where luxid runs, certainly has no daemon; false anywhere else."""
    if source_options(options).rapi is not None:
        return False
    try:
        settings = load_config(config_path(), ("maintd",)).section(declaration("maintd"))
    except StewardError:
        return False
    from ganeti_steward.plugins.lock_file import is_locked

    return is_locked(settings.lock_file) is False
