"""The report of a run: an object as the monitoring daemon's are, and its signature."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, Final

from ganeti_steward.core import builtins
from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.config.load import config_path
from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.ganeti.signing import sign
from ganeti_steward.core.ganeti.this_node import ThisNode
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.node_agent.protocol import REPORT as PURPOSE
from ganeti_steward.core.service.disk_timeout import DiskTimeout
from ganeti_steward.core.version import VERSION
from ganeti_steward.core.whole_files import write_file
from ganeti_steward.diagnose.model.budget import within_list
from ganeti_steward.diagnose.model.diagnosis import ITSELF, Diagnosis
from ganeti_steward.diagnose.model.machine import Machine
from ganeti_steward.diagnose.run.files import REPORT

#: Of the report's data.
FORMAT: Final = 1

#: A collector that reports a status.
_STATUS: Final = 1

#: Seconds the disk may take for what is reported of the maintenance daemon.
_DISK: Final = 10.0

#: Where the kernel has another id after each boot.
_BOOT: Final = "/proc/sys/kernel/random/boot_id"


def boot_id(path: str = _BOOT) -> str:
    """What stands for the time since this node was started; empty where it cannot be read."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read(64).strip()
    except (OSError, UnicodeError):
        return ""


#: Ganeti's range of TCP ports for DRBD; one end of each connection has one of these.
_DRBD_PORTS: Final = range(11000, 15000)
_ESTABLISHED: Final = "01"
#: The kernel's tables of TCP connections; those of DRBD are the kernel's own, and are in them.
_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")


def drbd_peers(tables: Sequence[str] = _TABLES) -> list[str] | None:
    """Addresses to which this node has a DRBD connection now; None where that cannot be read.

    The same for each version of DRBD, and without a program: it is known while a disk is dead.
    """
    found = set[str]()
    try:
        for table in tables:
            with suppress(FileNotFoundError), open(table, encoding="ascii") as file:
                for line in list(file)[1:]:
                    _, local, remote, state, *_ = line.split()
                    ports = [int(end.partition(":")[2], 16) for end in (local, remote)]
                    if state == _ESTABLISHED and any(port in _DRBD_PORTS for port in ports):
                        found.add(_address(remote.partition(":")[0]))
    except (OSError, ValueError):
        return None
    return sorted(found)


def _address(words: str) -> str:
    """An address of the kernel's table: 32-bit words, each in the order of this machine."""
    raw = bytes.fromhex(words)
    parts = [raw[at : at + 4] for at in range(0, len(raw), 4)]
    ordered = b"".join(part[::-1] if sys.byteorder == "little" else part for part in parts)
    address = ip_address(ordered)
    return str(getattr(address, "ipv4_mapped", None) or address)


def kept_section(machine: Machine, name: str) -> dict[str, Any] | None:
    """A section of the report as its collector has kept it; None where it has not.

    ``name``: `VOLUME_GROUPS` or `HYPERVISOR`.
    """
    try:
        found = load_json(machine.recalled(name))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def daemon_parts(key_file: str) -> dict[str, Any]:
    """What decides how the maintenance daemon of this node would act; empty: not known.

    ``key_file``: the cluster's key.
    """

    def read() -> dict[str, Any]:
        found: dict[str, Any] = builtins.module(builtins.DAEMON_PARTS).reported_parts(
            config_path(), KeyFile(key_file).key
        )
        return found

    try:
        return DiskTimeout(_DISK)(read)
    except (ImportError, OSError):
        # A diagnosis neither needs nor waits for a disk that is dead.
        return {}


def report(
    diagnosis: Diagnosis,
    node: ThisNode,
    now: int,
    boot: str,
    sections: Mapping[str, Any],
) -> dict[str, Any]:
    """The report; ``now``: ns since the epoch, ``boot``: `boot_id`, ``sections``: name -> what is
    reported beside the diagnosis.

    Its data is the diagnose object, or null where nothing can be reported; so ``data.status`` is a
    text, as the maintenance daemon reads it.
    """
    unknown: list[tuple[str, str]] = list(diagnosis.unknown)
    if diagnosis.object is None:
        unknown.insert(0, (ITSELF, diagnosis.why))
    return {
        "name": "diagnose",
        "version": VERSION,
        "format_version": FORMAT,
        "timestamp": now,
        "boot_id": boot,
        "category": "node",
        "kind": _STATUS,
        "data": diagnosis.object,
        "node": node.identity,
        "node_name": node.name,
        "unknown": within_list(unknown),
        "not_applicable": within_list(diagnosis.not_applicable),
        **sections,
    }


def write_report(directory: str, content: dict[str, Any]) -> None:
    """Put it in the place of the last one; raises StewardError."""
    write_file(os.path.join(directory, REPORT), canonical(content) + b"\n")


def signed(key: bytes, content: dict[str, Any], salt: str) -> bytes:
    """The report as a signed message; a signature for this is good for nothing else."""
    return sign(key, canonical(content | {"purpose": PURPOSE}).decode(), salt)
