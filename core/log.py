"""Logging the way Ganeti's programs do: one file, lines that grep well."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from typing import Any, Final

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.safe_files import UnsafeFile, open_own

_FORMAT: Final = "%(asctime)s: steward pid=%(process)d %(levelname)s %(message)s"


class Lines(logging.Formatter):
    """Texts of others, such as those of records and reports, cannot look like lines of ours."""

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """What logging calls for the first line; a traceback follows, each line of it indented."""
        record.message = printable(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """What logging calls for a traceback."""
        return "\n".join(f"  {printable(line)}" for line in super().formatException(ei).split("\n"))


class _File(logging.FileHandler):
    """A log file of this user's own: others may be able to write to its directory."""

    def _open(self) -> TextIOWrapper:
        """What logging calls to open the file."""
        return open(self.baseFilename, "a", encoding="utf-8", errors=self.errors, opener=open_log)


def open_log(path: str, flags: int) -> int:
    """A descriptor of a log file, as an opener for `open`; raises UnsafeFile, OSError."""
    return open_own(path, flags, 0o640)


def _file(path: str) -> logging.Handler:
    return _File(path, encoding="utf-8", errors="backslashreplace")


def to_standard_error(text: str) -> None:
    """Print a line there; where nothing takes it, such as a closed pipe, it is dropped."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        # What is left in its buffer would be another error when the program ends.
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - it stays open


def set_up(path: str, level: str, open_file: Callable[[str], logging.Handler] = _file) -> None:
    """Log to a file where its directory exists, else nowhere.

    ``path``: empty for none; ``level``: as in the configuration; ``open_file`` opens the file.
    An allocator must answer whether or not it can log, so a file that cannot be opened is not
    an error.  One that another user may have put there is not used: a sentence on standard
    error reports it.
    """
    root = logging.getLogger("ganeti_steward")
    root.setLevel(level.upper())
    root.propagate = False
    handler: logging.Handler = logging.NullHandler()
    if path and os.path.isdir(os.path.dirname(path)):
        try:
            handler = open_file(path)
        except (OSError, ValueError):
            handler = logging.NullHandler()
        except StewardError as err:
            to_standard_error(f"Nothing is logged: {err}")
    handler.setFormatter(Lines())
    logging.raiseExceptions = False
    # One file, also where a process that forks off sets it up again.
    replaced, root.handlers = root.handlers, [handler]
    for one in replaced:
        one.close()


def set_up_service(path: str, level: str, open_file: Callable[[str], logging.Handler]) -> None:
    """The same for a daemon: it also logs on its terminal, where it has one.

    A file that cannot be used is reported on standard error.
    """
    set_up(path, level, open_file)
    fault = _file_fault(path) if path else ""
    if fault:
        to_standard_error(f"The log {path} cannot be used: {fault}")
    if sys.stderr.isatty():
        terminal = logging.StreamHandler(sys.stderr)
        terminal.setFormatter(Lines())
        logging.getLogger("ganeti_steward").addHandler(terminal)


def _file_fault(path: str) -> str:
    """Why a log file cannot be written; empty when it can."""
    try:
        os.close(open_log(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT))
    except UnsafeFile as err:
        return err.reason
    except (OSError, ValueError) as err:
        return reason_of(err)
    return ""
