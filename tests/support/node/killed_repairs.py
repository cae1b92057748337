"""A process that gets one request for a repair, and is killed at a chosen point of it.

Arguments: the directory of the bench, the time (s), and the point.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from repair_bench import Bench
from repair_requests import request

from ganeti_steward.core.node_agent.protocol import CommandEnd
from ganeti_steward.diagnose.agent import memory, repairs

#: The id of the request.
ID: Final = "id-1"

#: Point -> what is called there: module, function, and for the how many-th time.
POINTS: Final[dict[str, tuple[Any, str, int]]] = {
    "before the intent": (memory, "write_file", 1),
    "while the intent is written": (os, "rename", 1),
    "before the command": (sys.modules[__name__], "run", 1),
    "before the result": (memory, "write_file", 2),
    "while the result is written": (os, "rename", 2),
    "after the result": (repairs, "state_text", 1),
}


def runs(path: Path) -> int:
    """How many times the command was run."""
    file = path / "runs"
    return len(file.read_text().splitlines()) if file.exists() else 0


def run(path: Path) -> CommandEnd:
    """What the command does."""
    with (path / "runs").open("a") as file:
        file.write("run\n")
    return CommandEnd(0, "fixed\n")


def _killing(number: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which kills the process when it is called for the n-th time."""
    calls = 0

    def call(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments)

    return call


def main() -> None:
    """Get the request."""
    path, now = Path(sys.argv[1]), int(sys.argv[2])
    bench = Bench(path, now)
    bench.execute = lambda _: run(path)
    module, name, number = POINTS[sys.argv[3]]
    setattr(module, name, _killing(number, getattr(module, name)))
    bench.ask(request(bench.nonce(), id=ID, submitted=now))


if __name__ == "__main__":
    main()
