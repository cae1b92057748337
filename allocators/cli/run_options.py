"""What commands with ``-C`` and ``-X`` have in common: their options, and running jobs."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Final

from ganeti_steward.allocators.cli.allocator_options import option
from ganeti_steward.allocators.jobs import run_jobs
from ganeti_steward.allocators.jobs.job_sets import Step, describe, failing_over, script, steps
from ganeti_steward.allocators.overview.picture import write_text
from ganeti_steward.core.commands.cluster_options import add_reason_option
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.sources import Source
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.opcodes import Job

#: The value of ``-C`` without a file.
PRINTED: Final = "-"


def add_running_options(parser: argparse.ArgumentParser, *, to_file: bool = False) -> None:
    """hbal's two options; without either nothing but a plan is shown.

    ``to_file``: ``-C`` may be followed by the name of a file.
    """
    text = "print the moves as gnt-* commands"
    if to_file:
        text += " instead of the plan; with FILE: write them there as a shell script"
        option(parser, "-C, --print-commands FILE", text, nargs="?", const=PRINTED)
    else:
        option(parser, "-C, --print-commands", text)
    text = (
        "run the moves on the cluster, set by set; stops at the first failure, and Ctrl-C "
        "stops after the running set; it must be confirmed on a terminal"
    )
    option(parser, "-X, --exec", text)
    option(parser, "--yes", "with -X: without confirmation, as a script needs it")
    add_reason_option(parser)


def check_can_run(options: argparse.Namespace, source: Source) -> None:
    """Raise StewardError where ``-X`` has no live cluster, or no user can confirm its jobs."""
    if options.exec and source.jobs is None:
        raise StewardError(f"-X runs jobs on a live cluster, not on {source.where}")
    if options.exec and not options.yes and not sys.stdin.isatty():
        raise StewardError("-X must be confirmed: run it on a terminal, or with --yes")


def confirmed(options: argparse.Namespace, cluster: Cluster, sets: Sequence[Sequence[Job]]) -> bool:
    """Whether the moves may be run: on a terminal the user has to confirm."""
    if options.yes:
        return True
    found = steps(cluster, [job for members in sets for job in members])
    print(f"{_summed(found, cluster)}.\nRun {counted(len(sets), 'job set')}? y/[n]: ", end="")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    print("Nothing was run.")
    return False


def _summed(found: Sequence[Step], cluster: Cluster) -> str:
    """What is to be confirmed: ``3 moves: 2 migrations, 1 failover (web1), 20.0 GiB ...``."""
    parts = Counter(word for step in found for word in step.how.split("+"))
    over = [step.instance for step in found if "failover" in step.how.split("+")]
    names = ", ".join(dict.fromkeys(over))
    words = []
    for word, number in parts.items():
        kind = {"migrate": "migration", "replace": "replacement of disks"}.get(word, word)
        text = f"{number} {kind}" if number == 1 else f"{number} {_plural(kind)}"
        words.append(f"{text} ({names})" if word == "failover" else text)
    copied = sum(step.copied for step in found) / 1024
    return f"{counted(len(found), 'move')}: {', '.join(words)}; {copied:.1f} GiB to be copied"


def _plural(kind: str) -> str:
    return kind.replace("replacement", "replacements") if " " in kind else f"{kind}s"


def write_script(path: str, sets: Sequence[Sequence[Job]], over: Collection[str]) -> None:
    """Write the moves as a script that stops at the first failure; raises StewardError.

    ``over``: the instances that Ganeti fails over.
    """
    write_text(path, "#!/bin/sh\nset -e\n" + script(sets, over))


def run_moves(
    source: Source,
    sets: Sequence[Sequence[Job]],
    reason: str,
    clock: Callable[[], float] = time.time,
) -> run_jobs.Result:
    """Run job sets with a line for each change of a job; raises StewardError.

    ``clock``: seconds since 1970, for the time of each line.
    """
    if source.jobs is None:
        raise StewardError(f"no jobs can be run on {source.where}")
    over = failing_over(source.cluster)
    with run_jobs.Interrupts(run_jobs.interrupt_printer("the running set")) as interrupts:
        result = run_jobs.run_job_sets(
            source.jobs,
            sets,
            reason=reason,
            report=lambda run: _print(f"{_time(clock())} {progress_line(run, len(sets), over)}"),
            interrupts=interrupts,
        )
    _print(summary(result, over))
    return result


def _print(text: str) -> None:
    print(text, flush=True)


def _time(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def progress_line(run: run_jobs.JobRun, sets: int, over: Collection[str] = ()) -> str:
    """One change of a job's state; ``over``: the instances that Ganeti fails over."""
    numbers = "/".join(map(str, run.numbers)) or "-"
    line = f"set {run.number_of_set}/{sets} job {numbers} {describe(run.job, over)}: {run.status}"
    return f"{line} ({run.error})" if run.error and run.over else line


def summary(result: run_jobs.Result, over: Collection[str] = ()) -> str:
    """What was done, what was not, and what still runs; ``over``: as above."""
    lines = [f"{counted(len(result.done), 'job')} done"]
    if result.failed:
        lines[0] += f", {len(result.failed)} failed"
        lines += [f"failed: {describe(run.job, over)}" for run in result.failed]
    if result.trouble:
        lines.append(f"no longer waited for: {result.trouble}")
    for run in result.running:
        numbers = "/".join(map(str, run.numbers))
        lines.append(f"goes on: job {numbers}, {describe(run.job, over)}")
    if result.left:
        lines[0] += f", {len(result.left)} not begun"
        lines += [f"not begun: {describe(job, over)}" for job in result.left]
    return "\n".join(lines)
