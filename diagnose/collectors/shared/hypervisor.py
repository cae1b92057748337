"""QEMU and the CPU of a node, and how its instances of KVM were started.

Ganeti starts an instance on the target of its migration with the same machine type; where it is
not set, that is the default of the QEMU which ran when the instance was started (Ganeti's
``hv_kvm``, ``_GenerateKVMRuntime``).  So the command line of a running instance decides, not what
is configured by now.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from ganeti_steward.diagnose.collectors.shared.reading import (
    MissingData,
    leaving_out_what_is_gone,
    listed_if_there,
    number_of,
    succeeded,
    text_of,
)
from ganeti_steward.diagnose.model.machine import Machine

#: Ganeti's default of the hypervisor parameter ``kvm_path``, in the usual places.
_PROGRAM: Final = "kvm"
#: As Ganeti runs it, and as a script of that name does, which some packages of QEMU have.
_STARTED_BY: Final = ("/usr/bin/kvm", "qemu-system-x86_64", "/usr/bin/qemu-system-x86_64")

#: A file for each instance that was started here, with the number of its process.
_PIDS: Final = "/var/run/ganeti/kvm-hypervisor/pid"

#: The first line that QEMU prints for ``--version`` (its ``version()`` in ``softmmu/vl.c``).
_VERSION: Final = re.compile(r"QEMU emulator version ([0-9]+(?:\.[0-9]+){1,2})\b")
#: A line for ``-M help`` (``machine_help_func``); QEMU has sorted them.
_MACHINE: Final = re.compile(r"(\S+) +\S.*?(?:\(alias of (\S+)\))?(?: \(\w+\))*")
#: The lines of the first CPU in ``/proc/cpuinfo``.
_CPU_LINE: Final = re.compile(r"(model name|flags)\s*: (.*)")

#: A name in the report, and how many of each kind it has at most.
_WORD: Final = re.compile(r"[\w.:+-]{1,64}", re.ASCII)
MOST: Final = 1024

#: CPU types that give an instance all that the CPU has.
_WHOLE_CPU: Final = ("host", "max")


def hypervisor(machine: Machine) -> dict[str, Any]:
    """What a report has of it: ``qemu``, ``machines``, ``cpu``, ``flags`` and ``running``.

    Each is null where it is not known; see docs/reference/agent.md.
    """
    found: dict[str, Any] = dict.fromkeys(("qemu", "machines", "cpu", "flags", "running"))
    for read in (_qemu, _cpu, _running):
        # What is not known is no fault of the node.
        try:
            found |= read(machine)
        except (OSError, ValueError):
            continue
    return found


def _qemu(machine: Machine) -> dict[str, Any]:
    """Raises OSError, ValueError."""
    version = _VERSION.match(_printed(machine, "--version"))
    if version is None:
        raise MissingData(f"{_PROGRAM} did not print its version")
    lines = map(_MACHINE.fullmatch, _printed(machine, "-M", "help").splitlines()[1:])
    machines = {one[1]: one[2] or "" for one in lines if one and _WORD.fullmatch(one[1])}
    return {"qemu": version[1], "machines": machines if 0 < len(machines) <= MOST else None}


def _printed(machine: Machine, *options: str) -> str:
    return succeeded(machine, _PROGRAM, *options).output.decode("ascii", "replace")


def _cpu(machine: Machine) -> dict[str, Any]:
    """Raises OSError."""
    first = text_of(machine, "/proc/cpuinfo").partition("\n\n")[0]
    lines = {one[1]: one[2] for line in first.splitlines() if (one := _CPU_LINE.match(line))}
    flags = sorted({*filter(_WORD.fullmatch, lines.get("flags", "").split())})
    model = lines.get("model name", "")[:64]
    return {"cpu": model or None, "flags": flags if 0 < len(flags) <= MOST else None}


def _running(machine: Machine) -> dict[str, Any]:
    """Raises OSError, ValueError."""
    names = [name for name in listed_if_there(machine, _PIDS) if not name.startswith(".")]
    if len(names) > MOST:
        raise MissingData(f"{_PIDS} has {len(names)} files")
    return {"running": {name: one for name in names for one in _started(machine, name)}}


def _started(machine: Machine, name: str) -> Iterator[dict[str, Any]]:
    """How an instance was started; nothing where another program, or none, has its number."""
    with leaving_out_what_is_gone():
        number = number_of(machine, f"{_PIDS}/{name}")
        words = machine.read(f"/proc/{number}/cmdline").decode("ascii", "replace").split("\0")
        options = dict(pairwise(words))
        kind = options.get("-machine", "").partition(",")[0]
        its_own = options.get("-name", "").partition(",")[0] == name
        if words[0] in _STARTED_BY and its_own and _WORD.fullmatch(kind):
            whole = options.get("-cpu", "").partition(",")[0] in _WHOLE_CPU
            yield {"machine": kind, "host_cpu": whole}
