"""The last report of the self-diagnosis, as it may be returned at this moment.

It is written as JSON once, not for each request.

It is what ``gnt-steward diagnose`` has left in a file or, where the agent has started that
itself, has printed: the file may lie on a disk that takes no more writing.  The last good one
is kept in memory and can still be returned when nothing can be read any more.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.node_agent.protocol import REPORT
from ganeti_steward.core.service.disk_timeout import CallDisk, without_timeout
from ganeti_steward.core.service.rate_limited_log import RateLimitedLog
from ganeti_steward.core.version import VERSION
from ganeti_steward.diagnose.model.diagnosis import ITSELF
from ganeti_steward.diagnose.run.report import FORMAT

#: Name, category and kind (status), as the monitoring daemon lists them.
COLLECTOR: Final = ("diagnose", "node", 1)

#: Bytes of a report.
_LONGEST: Final = 2**24

#: Seconds a report's time may be ahead of the clock, which may have been set back.
_AHEAD: Final = 60

_SECOND: Final = 10**9

_log = logging.getLogger(__name__)


class BadReport(StewardError):
    """A text that is no report."""


class _NotOurs(StewardError):
    """A file that need not come from a diagnosis of this node."""


def read_report(raw: bytes) -> dict[str, Any]:
    """The report in a text; raises BadReport."""
    if len(raw) > _LONGEST:
        raise BadReport(f"it has more than {_LONGEST} bytes")
    try:
        report = load_json(raw)
    except ValueError:
        raise BadReport("it is not valid JSON") from None
    if not isinstance(report, dict) or report.get("name") != COLLECTOR[0]:
        raise BadReport("it is not a report of the self-diagnosis")
    if type(report.get("timestamp")) is not int or not isinstance(report.get("unknown"), list):
        raise BadReport("it has no timestamp or no list of what is unknown")
    return report


def _why_obsolete(report: dict[str, Any] | None, now: int, max_age: float) -> str:
    """Why a report (None: there is none yet) has no data at ``now``, ns since the epoch.

    One that is older than ``max_age`` seconds no longer describes the node: neither
    that it is fine nor that it is not.
    """
    if report is None:
        return "no report was made yet"
    age = now - report["timestamp"]
    if age > max_age * _SECOND:
        return f"the last report is more than {max_age:g} s old"
    if age < -_AHEAD * _SECOND:
        return "the last report is from the future"
    return ""


def _served(report: dict[str, Any], obsolete: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """What is returned of a report, without its data if there is a reason; ``own``: see there."""
    if not obsolete:
        return report | {**own, "purpose": REPORT}
    unknown = [*report["unknown"], {"source": ITSELF, "reason": obsolete}]
    return report | {**own, "data": None, "unknown": unknown, "purpose": REPORT}


def _never() -> dict[str, Any]:
    name, category, kind = COLLECTOR
    return {
        "name": name,
        "version": VERSION,
        "format_version": FORMAT,
        "timestamp": 0,
        "category": category,
        "kind": kind,
        "unknown": [],
        "not_applicable": [],
    }


class Reports:
    """The last report; may be called by several threads."""

    def __init__(
        self,
        path: str,
        max_age: float,
        clock: Callable[[], int],
        is_this_node: Callable[[str], bool],
        call_disk: CallDisk = without_timeout,
        own: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """``path``: the file; ``max_age``: seconds; ``clock``: ns since the epoch.

        ``is_this_node``: whether a name or uuid is this node's; ``call_disk``: reads the disk.
        ``own``: members of the served report that are about the agent itself.
        """
        self._own_members = own
        self._path, self._max_age, self._clock = path, max_age, clock
        self._is_this_node, self._call_disk = is_this_node, call_disk
        self._lock = threading.Lock()
        self._unreadable = RateLimitedLog(_log)
        self._seen: tuple[int, int, int] | None = None
        self._report: dict[str, Any] | None = None
        self._unusable = ""
        self._text: tuple[str, str] | None = None
        """why the report has no data, and the report as JSON; None until it is needed"""

    def text(self) -> str:
        """The report as JSON."""
        with self._lock:
            self._look()
            obsolete = self._unusable
            obsolete = obsolete or _why_obsolete(self._report, self._clock(), self._max_age)
            if self._text is None or self._text[0] != obsolete:
                served = _served(self._report or _never(), obsolete, self._own_members)
                self._text = obsolete, canonical(served).decode()
            return self._text[1]

    def take(self, raw: bytes) -> None:
        """A report that has just been made; raises BadReport."""
        with self._lock:
            self._look()
            self._set(lambda: read_report(raw))

    def _set(self, read: Callable[[], dict[str, Any]]) -> None:
        """Have another report served; raises BadReport.

        After one that cannot be used an older one does not describe the node any more.
        """
        try:
            self._report, self._unusable = read(), ""
        except BadReport as err:
            self._unusable = f"the last report cannot be used: {err}"
            raise
        finally:
            self._text = None

    def _look(self) -> None:
        """Read the file if it is another one; the last report stays if it is not this node's."""
        try:
            status = self._call_disk(lambda: os.stat(self._path))
            seen = (status.st_ino, status.st_size, status.st_mtime_ns)
            if seen == self._seen:
                return
            self._seen = seen
            raw = self._call_disk(lambda: _content(self._path))
            self._set(lambda: self._own(raw))
        except FileNotFoundError:
            return
        except OSError as err:
            # What could not be read now can be later, and is the same file then.
            self._seen = None
            # It may be so for each request.
            self._unreadable.warning(f"the report {self._path} cannot be read: {reason_of(err)}")
        except StewardError as err:
            _log.warning("the report %s cannot be used: %s", self._path, err)

    def _own(self, raw: bytes) -> dict[str, Any]:
        """This node's report; another's may come with its disk or its backup."""
        report = read_report(raw)
        names = [report.get(key) for key in ("node", "node_name")]
        if not any(isinstance(name, str) and self._is_this_node(name) for name in names):
            raise _NotOurs("it is about another node")
        return report


def _content(path: str) -> bytes:
    """The file's content, if no other user can have written it: it may be signed.

    One byte more than a report may have is enough for `read_report` to refuse it.
    """
    # Opening a fifo would block.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise _NotOurs("it is not a regular file")
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise _NotOurs(
                "it must belong to the user who runs this and be closed to the writing of others"
            )
        # Not read(LIMIT), which takes that much memory at once.
        return file.read(min(status.st_size, _LONGEST) + 1)
