"""Whether a program may be run with this process's rights."""

from __future__ import annotations

import os
import stat


def program_fault(path: str) -> str:
    """Why a program must not be run with this process's rights; empty when it may.

    A user who can change or replace it would gain these rights.
    """
    if not path.startswith("/") or "\0" in path:
        return "is no absolute path"
    try:
        real = os.path.realpath(path, strict=True)
        mode = os.stat(real).st_mode
    except OSError as err:
        return f"cannot be used: {err.strerror}"
    if not stat.S_ISREG(mode):
        return "is no regular file"
    if not mode & 0o111 or not os.access(real, os.X_OK):
        return "is not executable"
    for place in dict.fromkeys((real, os.path.dirname(real), os.path.dirname(path))):
        fault = _place_fault(place)
        if fault:
            return fault if place == real else f"lies in {place}, which {fault}"
    return ""


def _place_fault(path: str) -> str:
    found = os.stat(path)
    if found.st_uid not in (0, os.geteuid()):
        return f"belongs to the user {found.st_uid}, not to root"
    shared_safely = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    if found.st_mode & 0o022 and not shared_safely:
        return "can be written to by others than its owner"
    return ""
