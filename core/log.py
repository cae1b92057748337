"""Logging the way Ganeti's programs do: one file, lines that grep well."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Final

_FORMAT: Final = "%(asctime)s: steward pid=%(process)d %(levelname)s %(message)s"


def _file(path: str) -> logging.Handler:
    return logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")


def set_up(path: str, level: str, open_file: Callable[[str], logging.Handler] = _file) -> None:
    """Log to a file where its directory exists, else nowhere.

    ``path``: empty for none; ``level``: as in the configuration; ``open_file`` opens the file.
    An allocator must answer whether or not it can log, so a file that cannot be opened is not
    an error.
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
    handler.setFormatter(logging.Formatter(_FORMAT))
    logging.raiseExceptions = False
    # One file, also where a process that forks off sets it up again.
    replaced, root.handlers = root.handlers, [handler]
    for one in replaced:
        one.close()
