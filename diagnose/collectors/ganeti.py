"""Ganeti's own health on this node: daemons, certificates, watcher, queue, nodes, ``/dev/kvm``.

What needs other nodes is not looked at here: clocks, and whether all have the same configuration.
Full filesystems are found by the collector of filesystems.  Names of files, and what is in them,
are those of Ganeti's ``pathutils.py``, ``utils/io.py`` and ``watcher``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from typing import Annotated, Any, Final, NamedTuple

import orjson

from ganeti_steward.core import hookimpl
from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.ganeti.this_node import DATA, full_name
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import LIVE_REPAIR, SUSPECT, CheckResult, NotApplicable
from ganeti_steward.diagnose.collectors.shared.hypervisor import hypervisor
from ganeti_steward.diagnose.collectors.shared.reading import (
    MissingData,
    listed,
    listed_if_there,
    member,
    modified_if_there,
    noting_unknowns,
    now,
    number_of,
    succeeded,
    text_of,
)
from ganeti_steward.diagnose.collectors.shared.results import (
    Fault,
    check_results,
    unknown_if_unreadable,
)
from ganeti_steward.diagnose.collectors.shared.thresholds import Configured, Figure, Repair, Status
from ganeti_steward.diagnose.config.sections import subset
from ganeti_steward.diagnose.model.machine import HYPERVISOR, Machine

NAME: Final = "ganeti"

_RUN: Final = "/var/run/ganeti"
_QUEUE: Final = f"{DATA}/queue"

#: Those of Ganeti's ``daemon-util``.
_DAEMONS: Final = subset(("noded", "confd", "wconfd", "rapi", "luxid", "kvmd", "mond", "metad"))

#: Not every node has all of them.
_CERTIFICATES: Final = ("server.pem", "client.pem", "rapi.pem", "spice.pem", "spice-ca.pem")
_END: Final = re.compile(r"notAfter=(\w+ +[0-9]+ [0-9:]+ [0-9]+ GMT)")

#: Name and state of a process in /proc/PID/stat; a name may hold blanks and parentheses.
_PROCESS: Final = re.compile(r"[0-9]+ \((.*)\) ([A-Za-z]) .*", re.DOTALL)
#: States of a process that has ended: zombie, dead.
_ENDED: Final = "ZXx"

#: Seconds: a day, and the last moment that is printed; a pause may be longer than all calendars.
_DAY: Final = 86400
_LAST: Final = 253402300799


class Settings(NamedTuple):
    """[collector.ganeti]: the checks of Ganeti itself."""

    every_node: Annotated[
        tuple[str, ...],
        _DAEMONS,
        "Daemons of every node, without `ganeti-`: noded, confd, wconfd, rapi, luxid, kvmd, mond "
        "or metad.",
    ] = ("noded",)
    candidates: Annotated[
        tuple[str, ...], _DAEMONS, "Daemons of master candidates, including the master."
    ] = ("confd",)
    master: Annotated[tuple[str, ...], _DAEMONS, "Daemons of the master."] = (
        "wconfd",
        "luxid",
        "rapi",
    )
    certificate_days: Annotated[
        Figure, "Days before its end from which a certificate is reported."
    ] = 30.0
    watcher_minutes: Annotated[
        Figure,
        "Minutes without a complete run of the watcher; 0: no limit.",
    ] = 60.0
    daemon_status: Annotated[Status, "A daemon does not run."] = LIVE_REPAIR
    certificate_status: Annotated[Status, "A certificate ends soon, or has ended."] = LIVE_REPAIR
    paused_status: Annotated[Status, "On the master: the watcher is paused."] = LIVE_REPAIR
    watcher_status: Annotated[
        Status, "On the master: the watcher has not run for watcher-minutes."
    ] = LIVE_REPAIR
    drained_status: Annotated[Status, "On the master: its job queue is drained."] = LIVE_REPAIR
    drained_days: Annotated[
        Figure,
        "Days a drained node may stay unchanged; 0: no limit.",
    ] = 14.0
    drained_node_status: Annotated[
        Status, "On the master: a node has been drained for longer than drained-days."
    ] = SUSPECT
    ssconf_status: Annotated[
        Status,
        "The files that Ganeti writes to all nodes differ from the configuration on a master "
        "candidate.",
    ] = LIVE_REPAIR
    kvm_status: Annotated[Status, "The cluster uses KVM and `/dev/kvm` is missing."] = LIVE_REPAIR
    repair: Repair = ""


class Collector(Configured[Settings]):
    """Looks at what Ganeti needs on a node of this role."""

    CONFIG = Settings

    @hookimpl
    @unknown_if_unreadable(NAME)
    def steward_diagnose(self, machine: Machine) -> Iterator[CheckResult]:
        """What is known about Ganeti on this node."""
        if "ssconf_cluster_name" not in listed_if_there(machine, DATA):
            yield NotApplicable(NAME, "this machine is not a node of a Ganeti cluster")
            return
        host = text_of(machine, "/proc/sys/kernel/hostname")
        known = _ssconf(machine, "node_list")
        node = full_name(host, known)
        if node not in known:
            raise MissingData(f"Ganeti's list of nodes does not hold this host, {printable(host)}")
        if node in _ssconf(machine, "offline_nodes"):
            yield NotApplicable(NAME, "the node is offline")
            return
        is_master = node in _ssconf(machine, "master_node")
        # The configuration may have many MiB.
        nodes = cache(partial(_configured, machine))
        for daemon in self._daemons(machine, node, is_master):
            yield from self._checked(daemon, partial(self._daemon, machine, daemon))
        if is_master:
            # All nodes have them, with the same end: a cluster on which each node reports it would
            # look like a storm of faults.
            for file in sorted(set(_CERTIFICATES) & set(listed(machine, DATA))):
                yield from self._checked(file, partial(self._certificate, machine, file))
            yield from self._checked("watcher", partial(self._watcher, machine))
            yield from self._checked("queue", partial(self._queue, machine))
            yield from self._checked("nodes", partial(self._drained, machine, nodes))
        if _is_candidate(machine, node, is_master):
            yield from self._checked("ssconf", partial(self._differing, machine, nodes))
        if _uses_kvm(machine, node):
            yield from self._checked("kvm", partial(self._kvm, machine))
            # The node's health does not depend on it.
            with suppress(OSError):
                machine.remember(HYPERVISOR, canonical(hypervisor(machine)))

    def _checked(self, part: str, check: Callable[[], Iterable[Fault]]) -> Iterator[CheckResult]:
        """The results of one part; unknown where it cannot be read."""
        faults: list[Fault] = []
        unknowns: list[str] = []
        with noting_unknowns(unknowns):
            faults += check()
        yield from check_results(f"{NAME}:{part}", faults, unknowns, self._settings.repair)

    def _daemons(self, machine: Machine, node: str, is_master: bool) -> list[str]:
        """The daemons that run on a node of this role; raises OSError."""
        is_candidate = _is_candidate(machine, node, is_master)
        settings = self._settings
        return sorted(
            {
                *settings.every_node,
                *(settings.candidates if is_candidate else ()),
                *(settings.master if is_master else ()),
            }
        )

    def _daemon(self, machine: Machine, name: str) -> Iterator[Fault]:
        """Raises OSError, ValueError."""
        if not _runs(machine, f"ganeti-{name}"):
            yield Fault(self._settings.daemon_status, f"ganeti-{name} does not run")

    def _certificate(self, machine: Machine, name: str) -> Iterator[Fault]:
        """Raises OSError, ValueError."""
        from ssl import cert_time_to_seconds

        done = succeeded(machine, "openssl", "x509", "-noout", "-enddate", "-in", f"{DATA}/{name}")
        end = _END.search(done.output.decode(errors="replace"))
        if not end:
            raise MissingData("openssl did not print the end of the certificate")
        seconds = cert_time_to_seconds(end[1])
        if seconds < now(machine) + self._settings.certificate_days * _DAY:
            text = f"the certificate ends on {_moment(seconds)}"
            yield Fault(self._settings.certificate_status, text)

    def _watcher(self, machine: Machine) -> Iterator[Fault]:
        """Raises OSError, ValueError."""
        settings, present = self._settings, now(machine)
        is_set = "watcher.pause" in listed(machine, DATA)
        until = number_of(machine, f"{DATA}/watcher.pause") if is_set else 0
        if until >= present:
            text = f"the watcher is paused until {_moment(until)}"
            yield Fault(settings.paused_status, text)
        if not settings.watcher_minutes:
            return
        # It has had its chance since the pause, and since this node is up and is the master; while
        # it is paused that is in the future.
        start = max(until, modified_if_there(machine, f"{_RUN}/ganeti-luxid.pid"))
        for line in _ssconf(machine, "nodegroups"):
            uuid, _, group = line.partition(" ")
            # The watcher touches this file at the end of each run without an error.
            last = max(start, modified_if_there(machine, f"{DATA}/watcher.{uuid}.data"))
            if last < present - settings.watcher_minutes * 60:
                what = f"the watcher has not completed a run for group {printable(group)}"
                since = f"{what} since {_moment(last)}" if last else what
                yield Fault(settings.watcher_status, since)

    def _queue(self, machine: Machine) -> Iterator[Fault]:
        """Raises OSError, ValueError."""
        if "drain" in listed(machine, _QUEUE):
            since = _moment(machine.modified(f"{_QUEUE}/drain"))
            text = f"the job queue has been drained since {since}"
            yield Fault(self._settings.drained_status, text)

    def _drained(self, machine: Machine, nodes: Callable[[], list[Any]]) -> Iterator[Fault]:
        """``nodes``: those of the configuration.  Raises OSError, ValueError."""
        days = self._settings.drained_days
        if not days:
            return
        for one in nodes():
            drained = member(one, bool, "drained") and not member(one, bool, "offline")
            # Its last change, by whatever: it was drained then or before.
            if drained and _changed(one) < now(machine) - days * _DAY:
                text = f"{printable(member(one, str, 'name'))} has been drained for {days:g} days"
                yield Fault(self._settings.drained_node_status, f"{text}, and nothing was changed")

    def _differing(self, machine: Machine, nodes: Callable[[], list[Any]]) -> Iterator[Fault]:
        """``nodes``: those of the configuration.  Raises OSError, ValueError."""
        expected = {
            "node_list": nodes(),
            "offline_nodes": [one for one in nodes() if member(one, bool, "offline")],
            "master_candidates": [one for one in nodes() if member(one, bool, "master_candidate")],
        }
        for name, those in expected.items():
            if {member(one, str, "name") for one in those} != {*_ssconf(machine, name)}:
                text = f"ssconf_{name} differs from the configuration"
                yield Fault(self._settings.ssconf_status, text)

    def _kvm(self, machine: Machine) -> Iterator[Fault]:
        """Raises ValueError."""
        if "kvm" not in listed(machine, "/dev"):
            yield Fault(self._settings.kvm_status, "there is no /dev/kvm")


#: What is loaded: a class is made into an object.
plugin: Final = Collector


def _ssconf(machine: Machine, name: str) -> list[str]:
    """The lines of one of the files that Ganeti writes to every node; raises OSError."""
    return text_of(machine, f"{DATA}/ssconf_{name}").splitlines()


def _is_candidate(machine: Machine, node: str, is_master: bool) -> bool:
    """Whether the node has the configuration; raises OSError."""
    return is_master or node in _ssconf(machine, "master_candidates")


def _configured(machine: Machine) -> list[Any]:
    """The nodes of Ganeti's configuration; raises OSError, ValueError."""
    found = orjson.loads(machine.read(f"{DATA}/config.data"))
    return list(member(found, dict, "nodes").values())


def _changed(node: Any) -> float:
    """When a node was changed last, s since the epoch; raises MissingData."""
    try:
        return member(node, float, "mtime")
    except MissingData:
        # Ganeti writes a number without a fraction as an integer.
        return member(node, int, "mtime")


def _uses_kvm(machine: Machine, node: str) -> bool:
    """Whether instances of KVM may be started on the node; raises OSError."""
    is_capable = f"{node}=False" not in _ssconf(machine, "node_vm_capable")
    return is_capable and "kvm" in _ssconf(machine, "hypervisor_list")


def _runs(machine: Machine, name: str) -> bool:
    """Whether the process of a pid file lives and has the daemon's name.

    Raises OSError, ValueError.
    """
    try:
        pid = number_of(machine, f"{_RUN}/{name}.pid")
        text = text_of(machine, f"/proc/{pid}/stat")
    except FileNotFoundError:
        return False
    process = _PROCESS.fullmatch(text)
    if not process:
        raise MissingData(f"/proc/{pid}/stat is not understood")
    return process[1] == name and process[2] not in _ENDED


def _moment(seconds: float) -> str:
    """A moment that stays the same as long as the fault does."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(min(seconds, _LAST)))
