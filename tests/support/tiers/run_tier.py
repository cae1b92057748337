"""Run the parts of a tier one after the other, and leave no process or lab behind.

``contrib/test`` calls this; see there.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import psutil

ROOT: Final = Path(__file__).resolve().parents[3]
LABS: Final = Path("/var/lib")
#: Seconds that the main process of pytest has to end its workers after an interrupt, two more than
#: the workers have (`interrupts.py`).
TO_END: Final = float(os.environ.get("STEWARD_TO_END", "6")) + 2

_SUBREAPER: Final = 36
_COUNTS: Final = re.compile(r"(\d+) (passed|failed|skipped|error)")
_PYTEST: Final = (sys.executable, "-m", "pytest", "-n", "auto")


class Part(NamedTuple):
    """What runs by itself, or beside the part that follows."""

    name: str
    command: tuple[str, ...]
    tier: int = 2
    beside: bool = False


class Started(NamedTuple):
    """A part that runs."""

    part: Part
    pid: int
    since: float
    output: list[str]
    reader: threading.Thread

    @property
    def counts(self) -> dict[str, int]:
        """What the closing line of pytest counts."""
        last = "".join(self.output).rstrip().rpartition("\n")[2]
        return {word: int(number) for number, word in _COUNTS.findall(last)}


class Run:
    """The processes of this run: all of them end with it, also those that left their parents."""

    def __init__(self) -> None:
        self._running: dict[int, Started] = {}
        self._ended: dict[int, int] = {}
        if sys.platform == "linux":
            # Orphans become children of this process.
            ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)

    def start(self, part: Part) -> Started:
        """Start a part; what it prints is shown at once, or at its end where it runs beside."""
        process = subprocess.Popen(
            part.command,
            cwd=ROOT,
            env={**os.environ, "STEWARD_TIER": str(part.tier), "STEWARD_RUN": str(os.getpid())},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        # `end` takes the status of any child, so that orphans do not stay as zombies.
        process.returncode = 0
        output = list[str]()

        def read() -> None:
            assert process.stdout is not None
            while piece := process.stdout.read(1):
                output.append(piece)
                if not part.beside:
                    print(piece, end="", flush=True)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        started = Started(part, process.pid, time.monotonic(), output, reader)
        self._running[process.pid] = started
        return started

    def end(self, started: Started) -> int:
        """Wait for a part, and say how it ended; its exit status."""
        while started.pid not in self._ended:
            child, status = os.wait()
            self._ended[child] = os.waitstatus_to_exitcode(status)
        del self._running[started.pid]
        # Longer only where something it left still holds the pipe.
        started.reader.join(5)
        status = self._ended.pop(started.pid)
        if started.part.beside:
            print("".join(started.output), end="")
        minutes, seconds = divmod(round(time.monotonic() - started.since), 60)
        word = "done" if status == 0 else "FAILED"
        print(f"--- {started.part.name}: {word}, {minutes} min {seconds} s", flush=True)
        return status

    def interrupt(self) -> None:
        """Have all parts end in order, if they do it in time."""
        for number in self._running:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGINT)
        end, waiting = time.monotonic() + TO_END, {*self._running}
        while waiting and time.monotonic() < end:
            with suppress(ChildProcessError):
                waiting.discard(os.waitpid(-1, os.WNOHANG)[0])
            time.sleep(0.05)

    def clean(self) -> list[str]:
        """End all that is left of this run; what it was."""
        left = list[str]()
        known = set[int]()
        while found := psutil.Process().children(recursive=True):
            for one in found:
                with suppress(psutil.NoSuchProcess):
                    # A killed one takes a moment to end.
                    if one.pid not in known and one.status() != psutil.STATUS_ZOMBIE:
                        left.append(f"process {one.pid}: {' '.join(one.cmdline())[:100]}")
                        known.add(one.pid)
                    one.kill()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(0.02)
        for lab in LABS.glob(f"ganetisteward*-{os.getpid()}-*"):
            left.append(f"lab {lab.name}")
            names = {"LAB_NS": lab.name, "LAB_DIR": str(lab)}
            down = [ROOT / "contrib/lab/lab-down"]
            subprocess.run(down, env=os.environ | names, capture_output=True, check=False)
        return left


@contextmanager
def one_run() -> Iterator[Run]:
    """A run that ends all it has started, also when it is interrupted."""
    run = Run()
    try:
        yield run
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        run.interrupt()
        raise
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for one in run.clean():
            print(f"ended what was left: {one}", file=sys.stderr)


def parts(option: str, more: Sequence[str]) -> list[Part]:
    """The parts of a tier, in order; ``more`` goes to pytest."""

    def tests(part: str, tier: int, *options: str) -> Part:
        return Part(f"tests, {part}", (*_PYTEST, f"--part={part}", *options, *more), tier)

    check = Part("contrib/check", ("contrib/check",), tier=1, beside=True)
    set_up = Part("contrib/setup all", ("contrib/setup", "all"))
    floors = Part("contrib/floors", ("contrib/floors",))
    rest = [tests("slow", 2), floors, tests("labs", 2)]
    return {
        "": [check, tests("first", 1)],
        "--all": [check, tests("units", 2), floors, tests("labs", 2)],
        "--thorough": [check, tests("units", 3), floors, tests("labs", 3)],
        "--rest": rest,
        "--in-turn": [check, tests("first", 1), set_up, *rest],
        "--write-slow": [tests("units", 1, "--write-slow", "-m", "not lab")],
    }[option]


def run_all(run: Run, all_parts: Sequence[Part]) -> int:
    """The exit status of all parts.  Nothing follows a failure in tier 1."""
    began, counts, status = time.monotonic(), Counter[str](), 0
    running = list[Started]()
    for part in all_parts:
        running.insert(0, run.start(part))
        if part.beside:
            continue
        for one in running:
            ended, found = run.end(one), one.counts
            counts.update(found)
            if ended and not (found.get("failed") or found.get("error")):
                counts["failed"] += 1
            status = status or ended
        running.clear()
        if status and part.tier == 1:
            break
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    print(f"--- all: {minutes} min {seconds} s")
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed'] + counts['error']} failed{skipped}")
    return status


def main(arguments: Sequence[str]) -> int:
    """Run the tier that the arguments name, or the tests at the paths in them."""
    with one_run() as run:
        if any(
            "tests" in Path(one).parts and Path(one.partition("::")[0]).exists()
            for one in arguments
        ):
            tier = int(os.environ.get("STEWARD_TIER") or 2)
            return run.end(run.start(Part("tests", (*_PYTEST, *arguments), tier)))
        options = ("--all", "--thorough", "--rest", "--in-turn", "--write-slow")
        option = arguments[0] if arguments and arguments[0] in options else ""
        return run_all(run, parts(option, arguments[bool(option) :]))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
