"""Running a foreign program that leaves nothing behind, not even what leaves its process group."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from signal import Signals
from typing import NamedTuple

from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.process import ENVIRONMENT, OUTPUT_LIMIT, Ended, run_program
from ganeti_steward.core.process_group import LADDER, Ladder
from ganeti_steward.core.supervision.supervisor import AROUND, Outcome, Start, Supervisor
from ganeti_steward.core.trusted_program import Executable


class Call(NamedTuple):
    """The arguments of `run_program`, the program's input aside."""

    command: tuple[str, ...]
    limit: float
    """seconds"""
    output_limit: int
    """bytes"""
    executable: Executable | None
    environment: Mapping[str, str]
    ladder: tuple[tuple[Signals, float], ...]
    """each for so many seconds"""


@dataclass(frozen=True, slots=True)
class Run:
    """The work of a supervisor: running a program with this input."""

    call: Call
    given: bytes

    def __call__(self) -> bytes:
        """What `packed_run` gives; raises OSError."""
        return packed_run(partial(run_program, given=self.given, **self.call._asdict()))


def run_supervised(
    command: Sequence[str],
    limit: float,
    *,
    output_limit: int = OUTPUT_LIMIT,
    executable: Executable | None = None,
    given: bytes = b"",
    environment: Mapping[str, str] = ENVIRONMENT,
    ladder: Ladder = LADDER,
    start: Start | None = None,
) -> Ended:
    """Run a program as `run_program` does, and end everything it has started, however.

    ``start``: `by_program.supervisor_program` where this process has other threads.  Raises OSError
    when it cannot be started.
    """
    call = Call(tuple(command), limit, output_limit, executable, environment, tuple(ladder))
    descriptors = () if executable is None else (executable.descriptor,)
    supervisor = Supervisor(Run(call, given), start, descriptors)
    seconds = limit + sum(grace for _, grace in ladder) + AROUND
    return unpacked_run(supervisor.wait(seconds))


def packed_run(run: partial[Ended]) -> bytes:
    """What came of a program, as the result of a supervisor's work; raises OSError."""
    ended = run()
    head = [ended.status, ended.fault, len(ended.output)]
    return json.dumps(head).encode() + b"\n" + ended.output + ended.errors


def unpacked_run(outcome: Outcome) -> Ended:
    """The same in the process that has started the supervisor; raises OSError."""
    if outcome.number:
        raise OSError(outcome.number, outcome.fault)
    if outcome.result is None:
        return Ended(-9, b"", b"", outcome.fault)
    head, _, body = outcome.result.partition(b"\n")
    status, fault, length = load_json(head)
    return Ended(status, body[:length], body[length:], fault)
