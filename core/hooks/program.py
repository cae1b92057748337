"""A child for site plugins that is a program of its own.

A process with several threads must not fork: a lock that another thread holds stays locked in the
child for ever.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Final

from ganeti_steward.core.hooks.child import Serve, run_child
from ganeti_steward.core.pickled import pickled

#: The child finds the modules that its parent finds.
_PROGRAM: Final = (
    "import sys; sys.path[:] = sys.argv[4:]; "
    "from ganeti_steward.core.hooks.program import main; main()"
)


def program_child(serve: Serve, questions: int, answers: int, errors: int) -> int:
    """Start the program; ``serve`` has to be picklable.  Raises OSError."""
    numbers = map(str, (questions, answers, os.getpid()))
    with open(os.memfd_create("serve"), "w+b") as file:
        file.write(pickled(serve))
        file.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, *numbers, *map(os.path.abspath, sys.path)],
            stdin=file,
            stdout=errors,
            stderr=errors,
            pass_fds=(questions, answers),
            cwd="/",
        )
    # The caller follows and reaps it by its id.
    process.returncode = 0
    return process.pid


def main() -> None:
    """Serve what standard input holds."""
    questions, answers, parent = map(int, sys.argv[1:4])
    serve: Serve = pickle.load(sys.stdin.buffer)
    run_child(serve, questions, answers, 2, parent)
