"""The counters of the records that a daemon has written or read, in a file of its machine.

A record that is older than the one it has seen is a copy that others have written back.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from typing import Final, NamedTuple

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.safe_files import make_directory, open_own, read_own
from ganeti_steward.core.service.disk_timeout import CallDisk, without_timeout
from ganeti_steward.core.service.rate_limited_log import RateLimitedLog
from ganeti_steward.core.typed_json import from_json

_LONGEST: Final = 2**24
#: ns after which a record that may have been written is not expected any more.
_UNANSWERED: Final = 24 * 3600 * 10**9
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC

_log: Final = logging.getLogger(__name__)


class _Known(NamedTuple):
    """What the file has."""

    highest: int = 0
    """no counter was higher, those of incidents that are forgotten included"""
    all_signed: bool = False
    """whether records that are not signed have been signed: from then on none is"""
    counters: Mapping[str, int] = {}
    """uuid -> counter of its record"""
    unanswered: Mapping[str, int] = {}
    """uuid -> counter of a record that may have been written, and was not seen since"""
    read: int = -1
    """what ``highest`` was when all records were read last; negative: that is not known"""


class Counters:
    """What one machine knows of the counters; a machine without the file knows nothing."""

    def __init__(
        self, path: str = "", *, writes: bool = True, call_disk: CallDisk = without_timeout
    ) -> None:
        """``path``: empty for none; ``writes``: false where another process may be the daemon."""
        self._path, self._writes, self._call_disk = path, writes and bool(path), call_disk
        self._known = self._read()
        self._unwritable = RateLimitedLog(_log)

    @property
    def all_signed(self) -> bool:
        """Whether no record can be one of the version before, which did not sign."""
        return self._known.all_signed

    def is_old(self, uuid: str, counter: int) -> bool:
        """Whether the record of this incident had a higher counter, or was deleted since.

        One that was not there at the last reading is new, though this machine may have written
        others since with higher counters: another node may have been the master meanwhile.
        """
        known = self._known
        lowest = {**known.unanswered, **known.counters}
        return counter < lowest.get(uuid, self._highest_read + 1)

    @property
    def _highest_read(self) -> int:
        """The highest counter at the last reading of the master's configuration."""
        return self._known.highest if self._known.read < 0 else self._known.read

    def next(self, now: int) -> int:
        """The counter of the next record; ``now``: ns since the epoch.

        It is a time, so that another machine's are higher, too, whose daemon comes later.
        """
        return max(now, self._known.highest + 1)

    def note(self, found: Mapping[str, int], *, all_signed: bool, master: bool) -> None:
        """All records were read, and these are their counters (by uuid).

        ``master``: whether they are the master's: others can read the configuration of a node that
        was the master, which has nothing that was written since.
        """
        known = self._with(found, all_signed=all_signed)
        noted = self._known._replace(highest=known.highest, read=self._highest_read)
        self._change(known._replace(read=known.highest) if master else noted)

    def _with(self, found: Mapping[str, int], *, all_signed: bool) -> _Known:
        highest = max([self._known.highest, *found.values()])
        unanswered = {
            uuid: counter
            for uuid, counter in self._known.unanswered.items()
            if uuid not in found and highest - counter < _UNANSWERED
        }
        signed = self.all_signed or all_signed
        counters = dict(sorted(found.items()))
        return _Known(highest, signed, counters, unanswered, self._known.read)

    def wrote(self, uuid: str, counter: int) -> None:
        """A record was written."""
        found = {**self._known.counters, uuid: counter}
        self._change(self._with(found, all_signed=False))

    def not_answered(self, uuid: str, counter: int) -> None:
        """Whether a record was written is not known: luxid has not answered."""
        unanswered = {**self._known.unanswered, uuid: counter}
        highest = max(self._known.highest, counter)
        self._change(self._known._replace(highest=highest, unanswered=unanswered))

    def removed(self, uuid: str) -> None:
        """A record was removed: none that may have been written counts any more."""
        left = {key: one for key, one in self._known.unanswered.items() if key != uuid}
        self._change(self._known._replace(unanswered=left))

    def _change(self, known: _Known) -> None:
        if known == self._known:
            return
        self._known = known
        if not self._writes:
            return
        try:
            self._call_disk(lambda: _write(self._path, known))
        except (OSError, StewardError) as err:
            # It goes on with what is in memory.
            self._unwritable.warning(
                f"the counters {self._path} cannot be written: {reason_of(err)}"
            )

    def _read(self) -> _Known:
        if not self._path:
            return _Known()
        try:
            raw = self._call_disk(lambda: read_own(self._path, _LONGEST))
            return from_json(_Known, load_json(raw))
        except (FileNotFoundError, NotADirectoryError):
            return _Known()
        except (OSError, ValueError, StewardError) as err:
            # It was there, so records were signed here.
            _log.warning("the counters %s cannot be read: %s", self._path, reason_of(err))
            return _Known(all_signed=True)


def _write(path: str, known: _Known) -> None:
    """Raises OSError, UnsafeFile."""
    make_directory(os.path.dirname(path) or ".")
    new = f"{path}.new"
    with open(open_own(new, _FLAGS), "w", encoding="ascii") as file:
        json.dump(known._asdict(), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
