"""Commands that leave processes behind in every way there is, as checks of a real diagnosis."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from programs import TIME_LIMIT, program, wait_until

PROGRAM: Final = Path(sys.executable).parent / "gnt-steward"

#: How what a command leaves gets away from it; ``LEFT`` is what stays.
DETACHES: Final = {
    "group": "LEFT &",
    "session": "setsid LEFT &",
    "twice": "(setsid sh -c 'LEFT & exit 0' &)",
    "orphan": "setsid LEFT &",
    "chain": "setsid DIRECTORY/chain LEFT &",
}

#: What that does with signals.
SIGNALS: Final = {
    "default": "",
    "deaf": "trap '' TERM HUP INT",
    "stopped": "kill -STOP $$",
}

#: What a command prints, and the status it exits with.
OUTPUTS: Final = {"fault": "echo broken; status=2", "noise": "yes | head -c 100000; status=0"}

#: How a command ends.
EXITS: Final = {"ends": "exit $status", "hangs": "exec DIRECTORY/sleep 3600"}


class Kind(NamedTuple):
    """One way to misbehave."""

    detach: str
    signals: str
    output: str
    exit: str

    @property
    def name(self) -> str:
        return "-".join(self)

    @property
    def is_heard(self) -> bool:
        """Whether it ends in time, and by itself."""
        return self.exit == "ends" and self.detach != "orphan"


#: All sixty.
KINDS: Final = [Kind(*one) for one in itertools.product(DETACHES, SIGNALS, OUTPUTS, EXITS)]


@dataclass
class Node:
    """A node whose checks misbehave; everything is below ``path``, and so recognizable."""

    path: Path
    user: int | None = None

    @property
    def directory(self) -> Path:
        return self.path / "diagnose"

    def prepare(self, kinds: Sequence[Kind], parallel: int = 8) -> None:
        """Write the commands of these kinds and, between them, checks with findings."""
        (self.path / "sleep").symlink_to("/bin/sleep")
        hop = f'[ -n "$2" ] || "$1" &\n{self.path}/sleep 0.1\nsetsid "$0" "$1" more &'
        program(self.path, "chain", hop)
        for name, source in SIGNALS.items():
            left = f"{source}\n{self.path}/sleep 3600\n{self.path}/sleep 3600"
            program(self.path, f"left-{name}", left)
        for kind in kinds:
            self._write(kind)
        program(self.path, "good", "echo worn; exit 2")
        text = f"""
[log]
file = ""
[diagnose]
collectors = []
commands = []
directory = "{self.directory}"
appear-after = 1
clear-after = 1
parallel = {parallel}
"""
        (self.path / "steward.toml").write_text(text + "\n".join(sections(self.path, kinds)))

    def _write(self, kind: Kind) -> None:
        left = f"{self.path}/left-{kind.signals}"
        parts = (
            DETACHES[kind.detach].replace("LEFT", left),
            OUTPUTS[kind.output],
            "kill -9 $PPID" if kind.detach == "orphan" else "",
            EXITS[kind.exit],
        )
        source = "\n".join(parts).replace("DIRECTORY", str(self.path))
        program(self.path, kind.name, source)

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """Begin a run of the real program."""
        return subprocess.Popen(
            [PROGRAM, "diagnose", "--report", *options],
            env={"GNT_STEWARD_CONFIG": str(self.path / "steward.toml"), "PATH": os.environ["PATH"]},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else (),
        )

    def run(self) -> dict[str, Any]:
        """The report of a whole run."""
        with self.start() as process:
            out, errors = process.communicate(timeout=5 * TIME_LIMIT)
        assert (process.returncode, b"Traceback" in errors) == (0, False), errors
        report: dict[str, Any] = json.loads(out)
        return report

    def processes(self) -> list[bytes]:
        """What belongs to a run: the program itself, and whatever a check has started."""
        mark = str(self.path).encode()
        return [line for pid, line in _command_lines() if mark in line and pid != os.getpid()]

    def check_quiet(self) -> None:
        """Wait until nothing is left; fails when something stays."""
        wait_until(lambda: not self.processes(), f"the end of {self.processes()}")


def sections(path: Path, kinds: Sequence[Kind]) -> list[str]:
    """The lines that configure commands of these kinds and, between them, good checks."""
    lines = []
    for number, kind in enumerate(kinds):
        lines += _section(kind.name, f"{path}/{kind.name}", 300 if kind.exit == "ends" else 1)
        if number % 5 == 0:
            lines += _section(f"good{number}", f"{path}/good", 300)
    return lines


def _section(name: str, command: str, limit: float) -> list[str]:
    return [f"[nagios.{name}]", f'command = ["{command}"]', "text = true", f"time-limit = {limit}"]


def _command_lines() -> Iterator[tuple[int, bytes]]:
    """The environment counts as well: a supervisor has the command line of its parent."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            line = (place / "cmdline").read_bytes() + (place / "environ").read_bytes()
        except OSError:
            continue
        yield int(place.name), line
