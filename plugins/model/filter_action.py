"""What an action of a job filter rule is given, and the verdicts it can return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from ganeti_steward.plugins.model.incident import Incident

#: A tag of the cluster, followed by the number of a job: an admin approves that job.
APPROVE_TAG: Final = "maintd:approve:"

_SECOND: Final = 10**9


class QueuedJob(Protocol):
    """A job that has not started; read only."""

    @property
    def number(self) -> int:
        """Ganeti's number of it."""

    @property
    def priority(self) -> int:
        """-20 to 19; lower is earlier."""

    @property
    def opcodes(self) -> Sequence[Mapping[str, Any]]:
        """Each with ``OP_ID`` and its parameters, as luxid stores them, defaults included."""

    @property
    def reasons(self) -> Sequence[tuple[str, str, int]]:
        """The reason trails of all opcodes: source, text, time (ns since the epoch)."""


class Facts(NamedTuple):
    """What an action may decide by, as it is at the moment of the decision."""

    now: int
    """ns since the epoch"""
    utc_offset: int = 0
    """s; what local time is ahead of UTC"""
    incidents: tuple[Incident, ...] = ()
    """all incidents that are recorded, those that have ended included"""
    unreadable: frozenset[str] = frozenset()
    """uuids of nodes with a record that cannot be read"""
    nodes: Mapping[str, str] = MappingProxyType({})
    """uuid -> name, of all nodes"""
    approved: frozenset[int] = frozenset()
    """numbers of the jobs an admin has approved"""
    occupied: int = 0
    """started jobs to which the same rule applies"""

    @property
    def local(self) -> datetime:
        """Local time, without a time zone."""
        at = datetime.fromtimestamp(self.now // _SECOND, UTC) + timedelta(seconds=self.utc_offset)
        return at.replace(tzinfo=None)


class Hold(NamedTuple):
    """The job must not start now; it is decided again in the next round."""

    reason: str
    """one sentence"""


class Release(NamedTuple):
    """The rule does not hold the job: the rules after it decide."""

    reason: str
    """one sentence"""
    final: bool = False
    """whether the job starts whatever the rules after it say"""


class Reject(NamedTuple):
    """The job is to be cancelled."""

    reason: str
    """one sentence"""


Verdict = Hold | Release | Reject


def approved_jobs(tags: frozenset[str]) -> frozenset[int]:
    """The numbers of the jobs that tags of the cluster approve."""
    texts = (tag.removeprefix(APPROVE_TAG) for tag in tags if tag.startswith(APPROVE_TAG))
    return frozenset(int(text) for text in texts if text.isascii() and text.isdigit())
