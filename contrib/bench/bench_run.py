"""Running one command as a whole process, and what it cost."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Final

MIB: Final = 1024 * 1024
#: A run that takes longer (CPU seconds) is not repeated: its warm-up is the measurement.
LONG_RUN: Final = 5.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What one command may take."""

    seconds: float
    memory: int
    """MiB of private memory"""


@dataclass(frozen=True, slots=True)
class Run:
    """One finished process."""

    cpu: float
    """seconds, user and system"""
    wall: float
    """seconds"""
    memory: int
    """KiB, peak resident size"""
    success: bool | None
    """the answer's verdict; None when there was no answer"""
    fault: str
    """why there was no answer, for people"""


@dataclass(frozen=True, slots=True)
class Program:
    """One of the programs compared."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    limits: Limits
    answers: bool = True
    """whether it prints an allocator's answer; else its exit status is the verdict"""

    def run(self, *arguments: str) -> Run:
        return run([*self.command, *arguments], self.environment, self.limits, self.answers)


@dataclass(slots=True)
class Series:
    """The runs of one program on one input that count."""

    runs: list[Run] = field(default_factory=list)
    skipped: str = ""
    """why there are none"""

    @property
    def cpu(self) -> float | None:
        """Median CPU seconds; None where a run did not end by itself with an answer."""
        if not self.runs or self.fault:
            return None
        return statistics.median(run.cpu for run in self.runs)

    @property
    def memory(self) -> int | None:
        """Largest peak (KiB)."""
        return max((run.memory for run in self.runs), default=None)

    @property
    def success(self) -> bool | None:
        """The verdict; the runs of one input agree, or there is a fault."""
        return self.runs[0].success if self.runs and not self.fault else None

    @property
    def fault(self) -> str:
        faults = [run.fault for run in self.runs if run.fault]
        if faults:
            return faults[0]
        return "" if len({run.success for run in self.runs}) <= 1 else "answers differ"


def alternate(programs: Sequence[Program], file: str, times: int, warm_up: bool) -> list[Series]:
    """Run the programs in turn, so that what disturbs the machine disturbs all of them."""
    series = [Series() for _ in programs]
    for program, results in zip(programs, series, strict=True):
        first = program.run(file) if warm_up else None
        if first and (first.fault or first.cpu > LONG_RUN):
            results.runs.append(first)
    for _ in range(times):
        for program, results in zip(programs, series, strict=True):
            if not _is_stable(results):
                results.runs.append(program.run(file))
    return series


def _is_stable(series: Series) -> bool:
    return any(run.fault or run.cpu > LONG_RUN for run in series.runs)


def run(
    command: Sequence[str], environment: Mapping[str, str], limits: Limits, answers: bool = True
) -> Run:
    """Run a command the way Ganeti's node daemon runs an iallocator: in ``/``, bare."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started = time.monotonic()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env=environment,
            cwd="/",
        )
        resource.prlimit(process.pid, resource.RLIMIT_DATA, (limits.memory * MIB,) * 2)
        usage, late = _wait(process, limits.seconds)
        wall = time.monotonic() - started
        success = _verdict(output) if answers else process.returncode == 0
        fault = ""
        if late:
            fault = f"over {limits.seconds:g} s"
        elif process.returncode or success is None:
            fault = _failure(process.returncode, usage.ru_maxrss, errors, limits)
    cpu = usage.ru_utime + usage.ru_stime
    return Run(cpu, wall, usage.ru_maxrss, None if fault else success, fault)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> tuple[resource.struct_rusage, bool]:
    """Wait for the end and take the process's own usage; kills it when time is up."""
    late = threading.Event()

    def kill() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(seconds, kill)
    timer.start()
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage, late.is_set()


def _verdict(output: IO[bytes]) -> bool | None:
    output.seek(0)
    try:
        answer = json.load(output)
    except ValueError:
        return None
    success = answer.get("success") if isinstance(answer, dict) else None
    return success if isinstance(success, bool) else None


def _failure(status: int, memory: int, errors: IO[bytes], limits: Limits) -> str:
    if memory > limits.memory * 1024 * 9 // 10:
        return f"needs more than {limits.memory} MiB"
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"no answer, exit status {status}"
