"""Which submissions are being handed over, noted in a file for the daemon that comes next.

Most daemons that are killed are not in the middle of such a call.  The next one knows it from here
and need not wait for connections, which luxid may keep for a while.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.safe_files import open_own, read_own

_LONGEST: Final = 2**20
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


class CallNotes:
    """The calls of this daemon, and those of the one before at its end."""

    def __init__(self, path: str, *, writes: bool = True) -> None:
        """``writes``: false where another process may be the daemon."""
        self._path, self._writes = path, writes
        self._before = _read(path)
        """what the daemon before was handing over at its end; None: that is not known"""
        self._own: frozenset[str] = frozenset()

    def may_go_on(self, submission: str) -> bool:
        """Whether the daemon before may have been handing this over at its end."""
        return self._before is None or submission in self._before

    @property
    def any_before(self) -> bool:
        """Whether it may have been handing over anything."""
        return self._before is None or bool(self._before)

    def forget_before(self) -> None:
        """The calls of the daemon before are over."""
        self._before = frozenset()
        # What stays noted is waited for without need.
        with suppress(StewardError):
            self._write()

    def begin(self, submissions: Iterable[str]) -> None:
        """Note what is handed over from now on; raises StewardError."""
        before = self._own
        self._own |= frozenset(submissions)
        try:
            self._write()
        except StewardError:
            self._own = before
            raise

    def end(self, submissions: Iterable[str]) -> None:
        """Note that the calls of these are over."""
        self._own -= frozenset(submissions)
        with suppress(StewardError):
            self._write()

    def _write(self) -> None:
        if not self._writes:
            return
        calls = sorted(self._own | (self._before or frozenset()))
        text = json.dumps({"calls": calls, "complete": self._before is not None})
        new = f"{self._path}.new"
        try:
            with open(open_own(new, _FLAGS), "w", encoding="ascii") as file:
                file.write(text)
            os.replace(new, self._path)
        except OSError as err:
            raise StewardError(f"{self._path} cannot be written: {reason_of(err)}") from None


def _read(path: str) -> frozenset[str] | None:
    """What a file says; None where it says nothing that can be relied on."""
    try:
        found: Any = load_json(read_own(path, _LONGEST))
    except (OSError, ValueError, StewardError):
        return None
    if not isinstance(found, dict) or found.get("complete") is not True:
        return None
    calls = found.get("calls")
    if not isinstance(calls, list) or not all(isinstance(one, str) for one in calls):
        return None
    return frozenset(calls)
