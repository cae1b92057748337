"""Polls the node agents in the background: in parallel, each within its own time limit."""

from __future__ import annotations

import logging
import queue
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ganeti_steward.allocators.loads.agent_loads import NodeLoad
from ganeti_steward.allocators.rolling.hypervisors import hypervisor_in
from ganeti_steward.allocators.state.volume_groups import Space
from ganeti_steward.core.canonical_json import canonical_object
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.json_reader import describe
from ganeti_steward.core.model.finding import STATUSES, is_name
from ganeti_steward.core.node_agent.protocol import LONGEST_OBJECT
from ganeti_steward.core.service.rate_limited_log import RateLimitedLog
from ganeti_steward.core.typed_json import from_json
from ganeti_steward.plugins.daemon_parts import DaemonParts, read_parts
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.answers import FORM, SIZE, RejectedAnswer
from ganeti_steward.plugins.maintenance.edges.client import AgentClient, MachineGone
from ganeti_steward.plugins.model.world import Observation, Reboot, Refused, Reported, Silent

#: Why a report is refused, in addition to the words of ``plugins.maintenance.edges.answers``.
STATUS: Final = "status"

#: Characters of a sentence that came from another node.
_SENTENCE: Final = 500

#: Characters of a boot id, which becomes part of a record; the kernel's has 36.
_LONGEST_BOOT: Final = 64

#: Nodes that one report lists.
_MOST_PEERS: Final = 4096

#: Volume groups of one node.
_MOST_GROUPS: Final = 1024

#: What LVM takes as the name of a volume group.
_GROUP: Final = re.compile(r"[A-Za-z0-9_+.][A-Za-z0-9_+.-]{0,126}")

#: The member that a poll adds to a report: see `Reported.ahead`.
_AHEAD: Final = "clock_ahead"

#: Reasons for missing data that are named.
_REASONS: Final = 3


class Polled(NamedTuple):
    """What polling one node once has shown."""

    observation: Observation
    refused: str = ""
    """why the report was refused, in one word; empty when it was not"""
    daemon: DaemonParts | None = None
    """what decides how the maintenance daemon there would act; None: not known"""


def polled(report: Mapping[str, Any], now: int) -> Polled:
    """What a checked report shows; ``now``: ns since the epoch."""
    data = report.get("data")
    if data is None:
        return Polled(Silent(now, _short(f"the agent has no data{_reasons(report)}")))
    try:
        found = _reported(data, report["timestamp"], report.get("boot_id"))
        found = found._replace(
            linked=_addresses(report.get("drbd_peers")),
            unreached=_addresses(report.get("unreached")),
            volume_groups=_volume_groups(report.get("volume_groups")),
            ahead=report.get(_AHEAD),
            load=_load(report.get("load"), report["timestamp"]),
            reboot=_reboot(report.get("reboot")),
            hypervisor=hypervisor_in(report.get("hypervisor")),
            takes_over=report.get("master_failover") is True,
        )
        return Polled(found, daemon=read_parts(report.get("daemon")))
    except RejectedAnswer as err:
        return failed(err, now)


def failed(err: StewardError, now: int) -> Polled:
    """What a poll without a usable report shows; ``now``: ns since the epoch."""
    if isinstance(err, RejectedAnswer):
        return Polled(Refused(now, _short(str(err))), err.reason)
    return Polled(Silent(now, _short(str(err)), gone=isinstance(err, MachineGone)))


def _reported(data: Mapping[str, Any], taken: int, boot: object) -> Reported:
    """The report of a diagnose object; raises RejectedAnswer."""
    status, command = data["status"], data.get("command")
    if status not in STATUSES:
        raise RejectedAnswer(STATUS, f"the report has an unknown status: {describe(status)}")
    try:
        original = canonical_object(data)
    except ValueError as err:
        raise RejectedAnswer(FORM, f"the diagnose object cannot be used: {err}") from None
    if len(original) > LONGEST_OBJECT:
        fault = f"the diagnose object has {len(original)} bytes, more than {LONGEST_OBJECT}"
        raise RejectedAnswer(SIZE, fault)
    named = command if isinstance(command, str) and is_name(command) else ""
    known = boot if isinstance(boot, str) and len(boot) <= _LONGEST_BOOT else ""
    return Reported(original, status, named, taken, known)


def _addresses(given: object) -> tuple[str, ...] | None:
    """A list of addresses in a report; None where it has none that can be used."""
    if not isinstance(given, list) or len(given) > _MOST_PEERS:
        return None
    try:
        return tuple(sorted({str(ip_address(one)) for one in given}))
    except ValueError:
        return None


def _volume_groups(given: object) -> Mapping[str, tuple[int, int]] | None:
    """The volume groups in a report; None where it has none that can be used."""
    if not isinstance(given, dict) or len(given) > _MOST_GROUPS:
        return None
    try:
        found = from_json(dict[str, Space], given)
    except ValueError:
        return None
    return found if all(map(_GROUP.fullmatch, found)) else None


def _load(given: object, at: int) -> NodeLoad | None:
    """The load in a report that was taken ``at`` (ns); None where it has none that can be used."""
    if not isinstance(given, dict):
        return None
    try:
        figures = {key: given[key] for key in NodeLoad._fields if key in given}
        found = from_json(NodeLoad, {**figures, "at": at})
    except ValueError:
        return None
    return found if found.is_possible else None


def _reboot(given: object) -> Reboot:
    """The section of a report; what it has not, or in another form, is not known."""
    try:
        found = from_json(Reboot, given)
    except ValueError:
        return Reboot(None, None)
    required = found.required and tuple(map(_short, found.required[:_REASONS]))
    return found._replace(required=required)


def _reasons(report: Mapping[str, Any]) -> str:
    """Why there are no data, as far as the agent gives reasons."""
    unknown = report.get("unknown")
    found = [
        f"{one.get('source')}: {one.get('reason')}"
        for one in (unknown if isinstance(unknown, list) else ())
        if isinstance(one, dict)
    ]
    # The agent's own reason comes last.
    return f" ({'; '.join(found[-_REASONS:])})" if found else ""


def _short(text: str) -> str:
    """One line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= _SENTENCE else f"{line[: _SENTENCE - 3]}..."


def since(before: Observation | None, now: Observation) -> Observation:
    """The new observation, silent or refused since the old one if that was of the same kind."""
    if isinstance(now, Silent) and isinstance(before, Silent):
        return now._replace(since=before.since)
    if isinstance(now, Refused) and isinstance(before, Refused):
        return now._replace(since=before.since)
    return now


def is_news(before: Observation | None, now: Observation) -> bool:
    """Whether the node shows something else than before, apart from times and reasons."""
    if isinstance(before, Reported) and isinstance(now, Reported):
        return (before.object_id, before.boot) != (now.object_id, now.boot)
    return type(before) is not type(now)


#: Agents that are called at the same time.
THREADS: Final = 32

#: Bytes of a report; a diagnose object may have fewer.
_LONGEST: Final = 2**20

#: Seconds between two checks whether to stop.
_CHECK: Final = 0.2

_log = logging.getLogger(__name__)


#: uuid and result of each node; None: a thread has ended.
_Results = queue.SimpleQueue[tuple[str, Polled] | None]


class Target(NamedTuple):
    """A node whose agent is polled."""

    uuid: str
    name: str
    """its full name"""
    address: str
    """primary IP address"""


#: Gives the checked report of a node; raises RejectedAnswer or another StewardError.
Fetch = Callable[[Target], Mapping[str, Any]]


class Poll(NamedTuple):
    """What all polls until now have shown."""

    observations: Mapping[str, Observation] = MappingProxyType({})
    """uuid of a node -> its last observation; a node that was never polled is missing"""
    refused: Mapping[str, int] = MappingProxyType({})
    """reason, in one word -> reports refused for it since the daemon's start"""
    polls: int = 0
    """polls that have ended"""
    ended: int = 0
    """when the last poll ended, ns since the epoch; 0 before"""
    seconds: float = 0.0
    """how long the last poll took"""
    daemons: Mapping[str, DaemonParts] = MappingProxyType({})
    """uuid of a node -> what its last poll has shown of the maintenance daemon there"""


#: What is known before the first poll.
NOTHING: Final = Poll()


def agent_client(target: Target, settings: Maintd, key: KeyFile, **more: Any) -> AgentClient:
    """The client of a node's agent; ``more``: further arguments of it."""
    return AgentClient(
        target.address or target.name,
        (target.uuid, target.name),
        key,
        port=settings.agent_port,
        time_limit=settings.poll_time_limit,
        **more,
    )


def agent_reports(settings: Maintd, key: KeyFile, clock: Callable[[], int] = time.time_ns) -> Fetch:
    """Gives reports of the real agents; ``clock``: ns since the epoch.

    ``key`` should give up on a disk that does not answer (`DiskTimeout`): a poll whose calls never
    end is not followed by another one.
    """

    def fetch(target: Target) -> Mapping[str, Any]:
        client = agent_client(target, settings, key, longest=_LONGEST, clock=clock)
        report = client.report(settings.report_max_age)
        return report | {_AHEAD: client.ahead}

    return fetch


class Poller:
    """The thread that polls; everything here may be called by any thread."""

    def __init__(
        self,
        fetch: Fetch,
        interval: float,
        wake: Callable[[], None],
        *,
        targets: Iterable[Target] = (),
        known: Poll = NOTHING,
        clock: Callable[[], int] = time.time_ns,
        threads: int = THREADS,
    ) -> None:
        """``interval``: seconds from the start of one poll to the start of the next.

        ``wake`` is called when a node shows something else than before.  ``known``: what an
        earlier poller has shown; ``clock``: ns since the epoch.
        """
        self._fetch, self._interval, self._wake = fetch, interval, wake
        self._clock, self._threads = clock, threads
        self._targets, self._latest = tuple(targets), known
        self._stopping, self._due = False, threading.Event()
        self._thread = threading.Thread(target=self._run, name="poll", daemon=True)
        self._broken = RateLimitedLog(_log)

    @property
    def latest(self) -> Poll:
        """What is known now; also while a poll is under way."""
        return self._latest

    def set_targets(self, targets: Iterable[Target]) -> None:
        """The nodes of the next poll; new ones are polled at once."""
        before, self._targets = self._targets, tuple(targets)
        if {target.uuid for target in self._targets} - {target.uuid for target in before}:
            self._due.set()

    def start(self) -> None:
        """Begin to poll."""
        self._thread.start()

    def stop(self) -> None:
        """End within a moment; calls under way are abandoned."""
        self._stopping = True
        self._due.set()
        if self._thread.is_alive():
            self._thread.join(1)

    def _run(self) -> None:
        while not self._stopping:
            begun = time.monotonic()
            self._due.clear()
            try:
                self.poll()
            except Exception:
                _log.exception("a poll of the node agents failed")
            self._due.wait(max(begun + self._interval - time.monotonic(), 0))

    def poll(self) -> None:
        """Poll all nodes once, those first that answered last time."""
        begun, targets = time.monotonic(), self._targets
        nodes = {target.uuid for target in targets}
        self._publish(nodes, ())
        results: _Results = queue.SimpleQueue()
        running = self._start_workers(sorted(targets, key=self._was_silent), results)
        while running and not self._stopping:
            found, ended = _take(results)
            running -= ended
            self._publish(nodes, found)
        seconds = time.monotonic() - begun
        self._latest = self._latest._replace(
            polls=self._latest.polls + 1, ended=self._clock(), seconds=seconds
        )

    def _was_silent(self, target: Target) -> bool:
        return isinstance(self._latest.observations.get(target.uuid), Silent)

    def _publish(self, nodes: Collection[str], found: Sequence[tuple[str, Polled]]) -> None:
        """Add results; ``nodes``: uuids of the nodes there are."""
        before, refused = self._latest.observations, Counter(self._latest.refused)
        after = {uuid: one for uuid, one in before.items() if uuid in nodes}
        daemons = {uuid: one for uuid, one in self._latest.daemons.items() if uuid in nodes}
        for uuid, one in found:
            after[uuid] = since(before.get(uuid), one.observation)
            daemons.pop(uuid, None)
            daemons |= {uuid: one.daemon} if one.daemon else {}
        refused.update(one.refused for _, one in found if one.refused)
        self._latest = self._latest._replace(
            observations=MappingProxyType(after),
            refused=MappingProxyType(dict(refused)),
            daemons=MappingProxyType(daemons),
        )
        if any(is_news(before.get(uuid), one.observation) for uuid, one in found):
            self._wake()

    def _start_workers(self, targets: Sequence[Target], results: _Results) -> int:
        """How many threads poll now; where none can be started, this one polls them all."""
        waiting, wanted = deque(targets), min(self._threads, len(targets))
        for number in range(wanted):
            try:
                threading.Thread(
                    target=self._work, args=(waiting, results), name="agent", daemon=True
                ).start()
            except RuntimeError as err:
                self._broken.warning(f"only {number} threads can poll the node agents: {err}")
                if not number:
                    self._work(waiting, results)
                return max(number, 1)
        return wanted

    def _work(self, waiting: deque[Target], results: _Results) -> None:
        """Poll one node after another until none is left."""
        while waiting and not self._stopping:
            # Another thread may have taken the last one.
            with suppress(IndexError):
                target = waiting.popleft()
                results.put((target.uuid, self._poll_one(target)))
        results.put(None)

    def _poll_one(self, target: Target) -> Polled:
        try:
            report = self._fetch(target)
            return polled(report, self._clock())
        except StewardError as err:
            return failed(err, self._clock())
        except Exception as err:
            _log.exception("the poll of node %s failed", target.name)
            return failed(StewardError(f"the poll failed: {err}"), self._clock())


def _take(results: _Results) -> tuple[list[tuple[str, Polled]], int]:
    """All results there are now, after a short wait for one; and how many threads have ended."""
    found: list[tuple[str, Polled]] = []
    ended = 0
    with suppress(queue.Empty):
        one = results.get(timeout=_CHECK)
        while True:
            if one is None:
                ended += 1
            else:
                found.append(one)
            one = results.get_nowait()
    return found, ended
