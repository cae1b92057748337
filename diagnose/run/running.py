"""One run on this node: all sources, hysteresis, and the files left for the next run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.this_node import ThisNode, this_node
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import CheckResult, Unknown
from ganeti_steward.core.whole_files import remove_leftovers
from ganeti_steward.diagnose.config.sections import Diagnose
from ganeti_steward.diagnose.model.budget import within_budget
from ganeti_steward.diagnose.model.diagnosis import ITSELF, Diagnosis, Several, diagnosis
from ganeti_steward.diagnose.model.hysteresis import RunCounts, RunState, Update, update
from ganeti_steward.diagnose.model.machine import HYPERVISOR, VOLUME_GROUPS
from ganeti_steward.diagnose.run.files import Busy, locked, prepare_directory
from ganeti_steward.diagnose.run.gathering import SourceRun, gather
from ganeti_steward.diagnose.run.load import load
from ganeti_steward.diagnose.run.local_machine import LocalMachine
from ganeti_steward.diagnose.run.reboot import reboot
from ganeti_steward.diagnose.run.report import (
    boot_id,
    drbd_peers,
    kept_section,
    report,
    write_report,
)
from ganeti_steward.diagnose.run.state_file import (
    Kept,
    read_state,
    read_stuck,
    write_state,
    write_stuck,
)
from ganeti_steward.diagnose.sources.commands import SOURCE as COMMANDS
from ganeti_steward.diagnose.sources.isolated import Source
from ganeti_steward.diagnose.sources.nagios import SOURCE as NAGIOS

_log = logging.getLogger(__name__)


class Run(NamedTuple):
    """The result of a run."""

    diagnosis: Diagnosis
    report: dict[str, Any]
    sources: list[SourceRun]


def diagnose_node(
    settings: Diagnose,
    sources: Iterable[Source],
    *,
    keep: bool = True,
    node: Callable[[], ThisNode] = this_node,
    now: Callable[[], int] = time.time_ns,
    daemon: Callable[[], Mapping[str, Any]] = dict,
    unreached: Callable[[], Sequence[str] | None] = lambda: None,
) -> Run:
    """Diagnose this node; raises Busy while another run is in progress.

    Without ``keep`` nothing is read or left, as where the directory cannot be used.
    ``now``: ns since the epoch.  ``daemon``: what is reported of the maintenance daemon here, see
    `daemon_parts`.  ``unreached``: see `ganeti_steward.diagnose.run.reachability`.
    """
    with ExitStack() as held:
        trusted, note = _occupy(held, settings.directory) if keep else (False, "")
        usable, notes = trusted and not note, [note]
        kept = read_state(settings.directory) if trusted else Kept(RunState(lost=keep))
        left = read_stuck(settings.directory) if trusted else {}
        machine = LocalMachine(0, settings.directory)
        # What an earlier run has found is not of this one.
        fresh = [
            name
            for name in (HYPERVISOR, VOLUME_GROUPS)
            if usable and _keep(partial(machine.forget, name))
        ]
        try:
            source_runs = gather(
                sources, left, parallel=settings.parallel, limit=settings.run_time_limit
            )
        finally:
            # Also when the run is to end at once: what it leaves must not become more.
            if usable:
                _keep(partial(write_stuck, settings.directory, left))
        results = [one for run in source_runs for one in within_budget(run.source, run.results)]
        names = {run.source for run in source_runs}
        # A plugin may have a name of its own.
        names |= {one.source.partition(":")[0] for one in results}
        # Other commands or checks do not cover one that was removed.
        names -= {COMMANDS, NAGIOS}
        outcome, note = _in_effect(settings, kept, results, names, usable=usable)
        notes += [kept.note, note]
        several = Several(settings.several_command, settings.several_status)
        found = _with_notes(diagnosis(results, outcome, several), notes)
        kept_now = {name: kept_section(machine, name) for name in fresh}
        boot, keeping = boot_id(), machine if usable else LocalMachine(0, "")
        # Of this moment, so last: sources may have taken minutes.
        sections = {
            "daemon": daemon(),
            "drbd_peers": drbd_peers(),
            "hypervisor": kept_now.get(HYPERVISOR),
            "load": load(keeping, boot, time.monotonic()),
            "reboot": reboot(machine),
            "unreached": unreached(),
            "volume_groups": kept_now.get(VOLUME_GROUPS),
        }
        content = report(found, node(), now(), boot, sections)
        if usable:
            _keep(partial(write_report, settings.directory, content))
    _log_run(found, source_runs)
    return Run(found, content, source_runs)


def _occupy(held: ExitStack, directory: str) -> tuple[bool, str]:
    """Be the only one who uses the directory; raises Busy.

    Whether what lies there may be trusted, and why nothing can be kept there.  On a disk that
    has become read-only no lock can be taken, but what was found before still counts.
    """
    trusted = False
    try:
        prepare_directory(directory)
        trusted = True
        held.enter_context(locked(directory))
        remove_leftovers(directory)
    except Busy:
        raise
    except StewardError as err:
        return trusted, f"nothing is kept from run to run: {err}"
    return trusted, ""


def _in_effect(
    settings: Diagnose,
    kept: Kept,
    results: list[CheckResult],
    names: set[str],
    *,
    usable: bool,
) -> tuple[Update, str]:
    """What is in effect, and what prevented that it is stored.

    Where runs cannot be counted a finding counts at once, and what has to be gone for several
    runs never is: a disk that takes no more writing must not hide itself.
    """
    note = ""
    counts = RunCounts(settings.appear_after, settings.clear_after)
    if usable:
        outcome = update(kept.state, results, counts, names)
        try:
            write_state(settings.directory, kept, outcome.state)
        except StewardError as err:
            note = f"nothing is kept from run to run: {err}"
        else:
            return outcome, ""
    return update(kept.state, results, counts._replace(appear_after=1), names), note


def _with_notes(found: Diagnosis, notes: Iterable[str]) -> Diagnosis:
    """The unknowns, and the faults of the diagnosis itself."""
    own = (Unknown(ITSELF, note) for note in notes if note)
    return found._replace(unknown=tuple(sorted((*found.unknown, *own))))


def _keep(write: Callable[[], None]) -> bool:
    """Whether it could be done."""
    try:
        write()
    except (OSError, StewardError) as err:
        _log.warning("diagnose: not kept: %s", err)
        return False
    return True


def _log_run(result: Diagnosis, source_runs: Iterable[SourceRun]) -> None:
    for one in result.unknown:
        _log.warning("diagnose: unknown: %s", printable(f"{one.source}: {one.reason}"))
    _log.info(
        "diagnose status=%s unknown=%d waiting=%d ms=%d",
        result.object["status"] if result.object else "-",
        len(result.unknown),
        len(result.waiting),
        1000 * sum(one.seconds for one in source_runs),
    )
