"""The processes of a demo: agents and the daemon.  None outlives it, in whatever way it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ganeti_steward.core.config.values import ENVIRONMENT as CONFIG
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.process.own_program import own_program
from ganeti_steward.core.process.program import ENVIRONMENT

#: Ends as if by SIGTERM when the demo is killed; its own children end with it.
_TIED: Final = (
    "import signal; from ganeti_steward.core.process.forked import end_with_parent; "
    "end_with_parent(int(sys.argv[1]), signal.SIGTERM); "
)
_AGENT: Final = (
    "from ganeti_steward.core.commands.main import main; sys.exit(main(['agent', *sys.argv[2:]]))"
)
_DAEMON: Final = (
    "from ganeti_steward.plugins.simulation.demo.processes import daemon; "
    "sys.exit(daemon(sys.argv[2]))"
)

#: Seconds a process has to end.
_GRACE: Final = 10.0


Process = subprocess.Popen[bytes]


class Processes:
    """Started by one thread: they end with that thread."""

    def __init__(self) -> None:
        self._running: list[tuple[str, Process, Path]] = []

    def agent(self, config: Path, errors: Path, arguments: Sequence[str]) -> Process:
        """``gnt-steward agent`` with these arguments; ``errors``: a file for what it reports."""
        return self._start("an agent", _AGENT, config, errors, arguments)

    def daemon(self, config: Path, errors: Path, options: Mapping[str, Any]) -> Process:
        """The daemon; ``options``: fields of its `DaemonOptions`."""
        name, given = "the maintenance daemon", [json.dumps(options)]
        return self._start(name, _DAEMON, config, errors, given)

    def _start(
        self, name: str, program: str, config: Path, errors: Path, arguments: Sequence[str]
    ) -> Process:
        with open(errors, "wb") as file:
            process = subprocess.Popen(
                own_program(_TIED + program, str(os.getpid()), *arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=file,
                env={**ENVIRONMENT, CONFIG: str(config)},
                # Ctrl-C reaches the demo only, which ends the others in order.
                start_new_session=True,
            )
        self._running.append((name, process, errors))
        return process

    def check(self) -> None:
        """Raise StewardError with what a process has reported that has ended by itself."""
        for name, process, errors in self._running:
            if (status := process.poll()) is not None:
                lines = errors.read_text(errors="replace").split("\n")
                reason = next((line for line in reversed(lines) if line), f"status {status}")
                raise StewardError(f"{name} has ended: {reason}")

    def stop(self, process: Process) -> None:
        """End one of them."""
        self._running = [one for one in self._running if one[1] is not process]
        _end([process])

    def end(self) -> None:
        """End all of them, the daemon first."""
        _end([process for _, process, _ in reversed(self._running)])
        self._running.clear()


def _end(running: Sequence[Process]) -> None:
    for process in running:
        process.terminate()
    last = time.monotonic() + _GRACE
    for process in running:
        try:
            process.wait(max(last - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def daemon(options: str) -> int:
    """What the daemon's process runs; ``options``: as JSON."""
    from ganeti_steward.plugins.maintenance.daemon.options import DaemonOptions
    from ganeti_steward.plugins.maintenance.daemon.process import run_daemon

    try:
        return run_daemon(DaemonOptions(**load_json(options)))
    except StewardError as err:
        print(err, file=sys.stderr)
        return 1
