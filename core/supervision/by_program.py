"""A supervisor that is a program of its own, for a process with several threads.

Such a process must not fork: a lock that another thread holds stays locked in the child for ever.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from ganeti_steward.core.pickled import pickled
from ganeti_steward.core.supervision.supervising import Work, supervise

#: The program finds the modules that its parent finds.
_PROGRAM: Final = (
    "import sys; sys.path[:] = sys.argv[4:]; "
    "from ganeti_steward.core.supervision.by_program import main; main()"
)


def supervisor_program(work: Work, writing: int, descriptors: Sequence[int]) -> int:
    """Start a supervisor; ``work`` has to be picklable.  Raises OSError."""
    numbers = (str(writing), str(os.getpid()), ",".join(map(str, descriptors)))
    with open(os.memfd_create("work"), "w+b") as file:
        file.write(pickled(work))
        file.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, *numbers, *map(os.path.abspath, sys.path)],
            stdin=file,
            stdout=subprocess.DEVNULL,
            pass_fds=(writing, *descriptors),
            cwd="/",
        )
    # The caller follows and reaps it by its id.
    process.returncode = 0
    return process.pid


def main() -> None:
    """Do the work that standard input holds."""
    writing, parent = map(int, sys.argv[1:3])
    descriptors = [int(number) for number in sys.argv[3].split(",") if number]
    work: Work = pickle.load(sys.stdin.buffer)
    supervise(work, writing, descriptors, parent)
