"""What only a terminal gets: colours, and a line that shows that a command still works.

A file, a pipe, ``NO_COLOR`` and ``TERM=dumb`` get no colours.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, TextIO

from ganeti_steward.core.json_reader import printable

#: Seconds before the line is shown, and between two looks at it.
_QUIET: Final = 2.0
_STEP: Final = 0.5

#: Back to the begin of the line, and empty it.
_CLEAR: Final = "\r\x1b[K"


def understands_codes(stream: TextIO) -> bool:
    """Whether the stream is a terminal that can do more than print lines."""
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


@contextmanager
def progress(
    what: str | Callable[[], str],
    quiet: float = _QUIET,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[None]:
    """Show what is being done, and for how long, until it is done; then remove the line.

    ``what``: a few words, or what returns them at any moment; ``quiet``: seconds without a line;
    ``clock``: seconds.
    """
    if not understands_codes(sys.stderr):
        yield
        return
    line = _Line(what, quiet, clock)
    line.start()
    try:
        yield
    finally:
        line.end()


class _Line:
    """The line, in a thread of its own.

    It writes to the descriptor: a child that is forked meanwhile has no thread, and finds no lock
    of a stream taken by it.
    """

    def __init__(
        self, what: str | Callable[[], str], quiet: float, clock: Callable[[], float]
    ) -> None:
        self._what, self._quiet, self._clock = what, quiet, clock
        self._began, self._descriptor = clock(), sys.stderr.fileno()
        self._over, self._shown = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()
        if self._shown:
            self._write(_CLEAR)

    def _run(self) -> None:
        pause = self._quiet
        while not self._over.wait(pause):
            self._shown, pause = True, _STEP
            words = self._what if isinstance(self._what, str) else self._what()
            text = f"{printable(words)} ... {self._clock() - self._began:.0f} s"
            self._write(f"{_CLEAR}{text[: self._columns() - 1]}")

    def _columns(self) -> int:
        with suppress(OSError):
            return os.get_terminal_size(self._descriptor).columns or 80
        return 80

    def _write(self, text: str) -> None:
        # A terminal that went away is no reason to stop.
        with suppress(OSError):
            os.write(self._descriptor, text.encode(errors="replace"))
