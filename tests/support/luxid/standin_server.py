"""Serves the stand-in for luxid at a socket: in this process, or in one of its own.

As a program (``python standin_server.py SOCKET``) it reads an iallocator message from standard
input, prints a line once it listens, and lives on when its callers die.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from standin import StandIn

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.plugins.simulation.luxid import served

Row = dict[str, Any]


@contextmanager
def serving(path: Path, stand_in: StandIn) -> Iterator[Luxi]:
    """Serve it in this process; yields a client."""
    socket = str(path / "luxi.sock")
    with served(socket, stand_in.answer):
        yield Luxi(socket, time_limit=300)


@contextmanager
def process(path: Path, message: Row) -> Iterator[Luxi]:
    """Serve it in a process of its own; yields a client."""
    socket = str(path / "luxi.sock")
    command = [sys.executable, __file__, socket]
    here = Path(__file__).parent
    pythonpath = f"{here}:{here.parent / 'cluster'}:{here.parent}"
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": pythonpath},
        start_new_session=True,
    ) as running:
        try:
            assert running.stdin is not None
            assert running.stdout is not None
            running.stdin.write(json.dumps(message).encode())
            running.stdin.close()
            assert running.stdout.readline() == b"ready\n"
            yield Luxi(socket, time_limit=300)
        finally:
            running.kill()


def main() -> None:
    with served(sys.argv[1], StandIn(json.load(sys.stdin)).answer):
        print("ready", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
