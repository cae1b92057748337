"""Serves the stand-in for luxid at a socket: in this process, or in one of its own.

As a program (``python standin_server.py SOCKET``) it reads an iallocator message from standard
input, prints a line once it listens, and lives on when its callers die.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from standin import StandIn

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.plugins.maintenance.demo.luxid_socket import served

Row = dict[str, Any]


def _answers(stand_in: StandIn) -> Callable[[bytes], bytes]:
    lock = threading.Lock()

    def storing(seconds: float) -> None:
        lock.release()
        try:
            time.sleep(seconds)
        finally:
            lock.acquire()

    stand_in.storing = storing

    def answer(raw: bytes) -> bytes:
        request = json.loads(raw)
        with lock:
            return json.dumps(stand_in.answer(request["method"], request["args"])).encode()

    return answer


@contextmanager
def serving(path: Path, stand_in: StandIn) -> Iterator[Luxi]:
    """Serve it in this process; yields a client."""
    socket = str(path / "luxi.sock")
    with served(socket, _answers(stand_in)):
        yield Luxi(socket, time_limit=300)


@contextmanager
def process(path: Path, message: Row) -> Iterator[Luxi]:
    """Serve it in a process of its own; yields a client."""
    socket = str(path / "luxi.sock")
    command = [sys.executable, __file__, socket]
    here = Path(__file__).parent
    pythonpath = f"{here}:{here.parent / 'cluster'}"
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
    with served(sys.argv[1], _answers(StandIn(json.load(sys.stdin)))):
        print("ready", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
