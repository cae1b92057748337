"""A log that is still told when the disk is dead: what a file does not take goes to the console.

As Ganeti's node daemon does (diagnose 8).
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import Final

#: Where it goes when the file cannot be written.
CONSOLE: Final = "/dev/console"

_FILE_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC

#: A console that takes nothing must not hold anybody up, nor become the terminal.
_CONSOLE_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_MODE: Final = 0o640


class ConsoleLog(logging.Handler):
    """Writes each record at once, into the file that has the name at that moment."""

    def __init__(self, path: str, console: str = CONSOLE) -> None:
        super().__init__()
        self._path, self._console = path, console
        self._file = -1

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record: to the file, else to the console, else nowhere."""
        try:
            line = f"{self.format(record)}\n".encode(errors="backslashreplace")
        except Exception:
            self.handleError(record)
            return
        try:
            self._write(line)
        except OSError as err:
            note = f"steward: {self._path} cannot be written ({err.strerror}): "
            with suppress(OSError):
                self._tell_console(note.encode(errors="backslashreplace") + line)

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):
            self._forget()
        super().close()

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

    def _tell_console(self, line: bytes) -> None:
        console = os.open(self._console, _CONSOLE_FLAGS)
        try:
            _write_all(console, line)
        finally:
            os.close(console)


def _write_all(descriptor: int, line: bytes) -> None:
    """Write a line, also where the system takes it in parts."""
    while line:
        line = line[os.write(descriptor, line) :]
