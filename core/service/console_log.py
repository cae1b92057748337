"""A log that is still told when the disk is dead: what a file does not take goes to the console.

As Ganeti's node daemon does (diagnose 8).  A disk may also neither take a line nor refuse it, and
who writes there then waits for ever: so a thread of its own writes, which others do not wait for.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from contextlib import suppress
from typing import Final

#: Where it goes when the file cannot be written.
CONSOLE: Final = "/dev/console"

_FILE_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC

#: A console that takes nothing must not hold anybody up, nor become the terminal.
_CONSOLE_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_MODE: Final = 0o640

#: Seconds a line has to be written before it is told the console as well.
_PATIENCE: Final = 1.0

#: Lines that wait at most; what comes then is only told the console.
_WAITING: Final = 256


class ConsoleLog(logging.Handler):
    """Writes each record at once, into the file that has the name at that moment."""

    def __init__(self, path: str, console: str = CONSOLE) -> None:
        super().__init__()
        self._path, self._console = path, console
        self._file = -1
        self._lines = queue.Queue[tuple[bytes, threading.Event]](_WAITING)
        self._writer: threading.Thread | None = None
        self._hangs = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record: to the file, else to the console, else nowhere."""
        try:
            line = f"{self.format(record)}\n".encode(errors="backslashreplace")
        except Exception:
            self.handleError(record)
            return
        written = threading.Event()
        with suppress(queue.Full, RuntimeError):
            # No other thread can be begun where there are too many processes.
            self._start()
            self._lines.put_nowait((line, written))
        # Whoever has waited in vain once does not do so for each line.
        self._hangs = not written.wait(0 if self._hangs else _PATIENCE)
        if self._hangs:
            self._tell_console("is not written", line)

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            with suppress(queue.Full):
                self._lines.put_nowait((b"", threading.Event()))
            self._writer.join(_PATIENCE)
        super().close()

    def _start(self) -> None:
        """Begin the thread that writes, not before there is anything to write."""
        if self._writer is None:
            writer = threading.Thread(target=self._work, name="log", daemon=True)
            writer.start()
            self._writer = writer

    def _work(self) -> None:
        """Write lines until an empty one comes."""
        while True:
            line, written = self._lines.get()
            if not line:
                break
            try:
                self._write(line)
            except OSError as err:
                self._tell_console(f"cannot be written ({err.strerror})", line)
            written.set()
            self._hangs = False
        with suppress(OSError):
            self._forget()

    def _write(self, line: bytes) -> None:
        if self._file >= 0 and not self._has_the_name():
            self._forget()
        if self._file < 0:
            self._file = os.open(self._path, _FILE_FLAGS, _MODE)
        _write_all(self._file, line)

    def _has_the_name(self) -> bool:
        """Whether the open file still has its name: logs are moved away and begun anew."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._file))
        except FileNotFoundError:
            return False

    def _forget(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def _tell_console(self, fault: str, line: bytes) -> None:
        note = f"steward: {self._path} {fault}: ".encode(errors="backslashreplace")
        with suppress(OSError):
            console = os.open(self._console, _CONSOLE_FLAGS)
            try:
                _write_all(console, note + line)
            finally:
                os.close(console)


def _write_all(descriptor: int, line: bytes) -> None:
    """Write a line, also where the system takes it in parts."""
    while line:
        line = line[os.write(descriptor, line) :]
