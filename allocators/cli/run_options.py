"""What commands with ``-C`` and ``-X`` have in common: their options, and running jobs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError, reason_of
from ganeti_steward.core.ganeti.job_sets import counted, describe, script
from ganeti_steward.core.ganeti.run_jobs import Interrupts, Result, Run, run_job_sets
from ganeti_steward.core.ganeti.sources import Source
from ganeti_steward.core.model.opcodes import Job

#: The value of ``-C`` without a file.
PRINTED: Final = "-"


def add_running_options(parser: argparse.ArgumentParser, *, to_file: bool = False) -> None:
    """hbal's two options; without either nothing but a plan is shown.

    ``to_file``: ``-C`` may be followed by the name of a file.
    """
    if to_file:
        parser.add_argument(
            "-C",
            "--print-commands",
            nargs="?",
            const=PRINTED,
            metavar="FILE",
            help="print the moves as gnt-* commands instead of the plan; with FILE: write them "
            "there as a shell script",
        )
    else:
        parser.add_argument(
            "-C", "--print-commands", action="store_true", help="print the moves as gnt-* commands"
        )
    parser.add_argument(
        "-X",
        "--exec",
        action="store_true",
        help="run the moves on the cluster, set by set; stops at the first failure, and Ctrl-C "
        "stops after the running set",
    )


def check_can_run(options: argparse.Namespace, source: Source) -> None:
    """Raise StewardError when jobs are to be run where none can be."""
    if options.exec and source.jobs is None:
        raise StewardError(f"-X runs jobs on a live cluster, not on {source.where}")


def write_script(path: str, sets: Sequence[Sequence[Job]]) -> None:
    """Write the moves as a script that stops at the first failure; raises StewardError."""
    try:
        with open(path, "w") as file:
            file.write("#!/bin/sh\nset -e\n" + script(sets))
    except (OSError, ValueError) as err:
        raise StewardError(f"{path}: {reason_of(err)}") from None


def run_moves(source: Source, sets: Sequence[Sequence[Job]], reason: str) -> int:
    """Run job sets with a line for each change of a job; the command's exit status."""
    if source.jobs is None:
        raise StewardError(f"no jobs can be run on {source.where}")
    with Interrupts(_interrupted) as interrupts:
        result = run_job_sets(
            source.jobs,
            sets,
            reason=reason,
            report=lambda run: _print(progress_line(run, len(sets))),
            interrupts=interrupts,
        )
    _print(summary(result))
    return EXIT_OK if result.complete else EXIT_FAILURE


def _interrupted(count: int) -> None:
    if count == 1:
        text = (
            "interrupted: waiting for the running set; press Ctrl-C again to exit immediately, "
            "submitted jobs continue"
        )
    else:
        text = "interrupted again: exiting; submitted jobs continue"
    print(text, file=sys.stderr)


def _print(text: str) -> None:
    print(text, flush=True)


def progress_line(run: Run, sets: int) -> str:
    """One change of a job's state."""
    numbers = "/".join(map(str, run.numbers)) or "-"
    line = f"set {run.number_of_set}/{sets} job {numbers} {describe(run.job)}: {run.status}"
    return f"{line} ({run.error})" if run.error and run.over else line


def summary(result: Result) -> str:
    """What was done, what was not, and what still runs."""
    lines = [f"{counted(len(result.done), 'job')} done"]
    if result.failed:
        lines[0] += f", {len(result.failed)} failed"
        lines += [f"failed: {describe(run.job)}" for run in result.failed]
    if result.trouble:
        lines.append(f"no longer waited for: {result.trouble}")
    for run in result.running:
        numbers = "/".join(map(str, run.numbers))
        lines.append(f"goes on: job {numbers}, {describe(run.job)}")
    if result.left:
        lines[0] += f", {len(result.left)} not begun"
        lines += [f"not begun: {describe(job)}" for job in result.left]
    return "\n".join(lines)
