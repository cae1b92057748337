"""Another process of this program, for a process with several threads.

Such a process must not fork: a lock that another thread holds stays locked in the child for ever.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

#: The program finds the modules that its parent finds.
_PROGRAM: Final = (
    "import sys; sys.path[:] = sys.argv[2:]; import importlib; "
    "importlib.import_module(sys.argv[1]).main()"
)


def start_module(
    module: str,
    given: bytes,
    descriptors: Sequence[int],
    *,
    output: int,
    errors: int | None = None,
) -> int:
    """Start a process that calls ``main`` of a module; its id.  Raises OSError.

    ``given``: its standard input; ``descriptors``: those of this process that it has, too;
    ``output`` and ``errors``: as of `subprocess.Popen`.
    """
    with open(os.memfd_create("given"), "w+b") as file:
        file.write(given)
        file.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, module, *map(os.path.abspath, sys.path)],
            stdin=file,
            stdout=output,
            stderr=errors,
            pass_fds=descriptors,
            cwd="/",
        )
    # The caller follows and reaps it by its id.
    process.returncode = 0
    return process.pid
