"""A log that outlives the disk: what a file does not take goes to the console.

As Ganeti's node daemon does.  A disk may also neither take a line nor refuse it:
a separate thread writes, and no other thread waits long for it.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
from contextlib import suppress
from io import TextIOWrapper
from logging.handlers import QueueHandler, QueueListener, WatchedFileHandler
from typing import Any, Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.log import open_log
from ganeti_steward.core.safe_files import UnsafeFile

#: Where it goes when the file cannot be written.
CONSOLE: Final = "/dev/console"

#: A console that takes nothing must not hold anybody up, nor become the terminal.
_CONSOLE_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

#: Seconds within which a line has to be written; after them it goes to the console as well.
_TIMEOUT: Final = 1.0

#: Lines that wait at most; those that come then only go to the console.
_WAITING: Final = 256


class ConsoleLog(QueueHandler):
    """Writes each record at once, into the file that has the name at that moment."""

    def __init__(self, path: str, console: str = CONSOLE) -> None:
        self._records = queue.Queue[Any](_WAITING)
        super().__init__(self._records)
        self._file = _LogFile(path, console)
        self._listener: QueueListener | None = None

    def enqueue(self, record: logging.LogRecord) -> None:
        """Pass a record to the thread that writes; to the console where that takes too long."""
        written = record.written = threading.Event()
        with suppress(queue.Full, RuntimeError):
            # No other thread can be started where there are too many processes.
            self._start()
            self._records.put_nowait(record)
        # After one wait without success, later lines do not wait.
        self._file.is_stuck = not written.wait(0 if self._file.is_stuck else _TIMEOUT)
        if self._file.is_stuck:
            self._file.write_to_console("is not written", record)

    def close(self) -> None:
        """Close the file; one that is stuck is left to the thread, which ends when it can."""
        listener, self._listener = self._listener, None
        if listener is not None and self._file.is_stuck:
            self._file.is_abandoned = True
            # All that waits is on the console already.
            with suppress(queue.Empty):
                while True:
                    self._records.get_nowait()
            with suppress(queue.Full):
                listener.enqueue_sentinel()
        elif listener is not None:
            listener.stop()
            with suppress(OSError):
                self._file.close()
        super().close()

    def _start(self) -> None:
        """Start the thread that writes, not before there is anything to write."""
        if self._listener is None:
            listener = QueueListener(self._records, self._file)
            listener.start()
            self._listener = listener


class _LogFile(WatchedFileHandler):
    """The file; what it refuses goes to the console, else nowhere."""

    def __init__(self, path: str, console: str) -> None:
        super().__init__(path, encoding="utf-8", errors="backslashreplace", delay=True)
        self._path, self._console = path, console
        self.is_stuck = False
        self.is_abandoned = False
        """whether the record that is being written is the last one"""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        try:
            super().emit(record)
        except (OSError, StewardError):
            self.handleError(record)
        finally:
            self.is_stuck = False
            getattr(record, "written").set()  # noqa: B009
            if self.is_abandoned:
                with suppress(OSError):
                    self.close()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """What logging calls for a record that could not be written."""
        err = sys.exc_info()[1]
        # What is left in the stream's buffer must not follow later.
        stream, self.stream = self.stream, None
        with suppress(OSError):
            if stream is not None:
                stream.close()
        if isinstance(err, UnsafeFile):
            self.write_to_console(f"is not used ({err})", record)
        else:
            self.write_to_console(f"cannot be written ({getattr(err, 'strerror', err)})", record)

    def write_to_console(self, fault: str, record: logging.LogRecord) -> None:
        """Write a record to the console, with the reason."""
        line = f"steward: {self._path} {fault}: {record.getMessage()}\n"
        left = line.encode(errors="backslashreplace")
        with suppress(OSError), open(self._console, "ab", 0, opener=_open_console) as console:
            while left:
                left = left[os.write(console.fileno(), left) :]

    def _open(self) -> TextIOWrapper:
        """What logging calls to open the file."""
        return open(self.baseFilename, "a", encoding="utf-8", errors=self.errors, opener=open_log)


def _open_console(path: str, _: int) -> int:
    return os.open(path, _CONSOLE_FLAGS)
