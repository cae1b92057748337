"""Whether QEMU and the CPU of a node can take instances that run elsewhere, by what nodes report.

Ganeti starts QEMU on the target of a migration with the machine type that the instance runs with.
QEMU refuses one that it does not have.  A name that stands for another machine type in another
version, such as ``pc``, lets the migration begin, and the instance may crash.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from ganeti_steward.core.errors import few
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.typed_json import from_json

#: Flags of a CPU that programs or the kernel of an instance use where it sees them, by the names in
#: the kernel's ``arch/x86/include/asm/cpufeatures.h``.  The others depend on the node's kernel.
_USED: Final = re.compile(
    r"mmx|3dnow\w*|sse\w*|ssse3|pni|avx\w*|amx_\w+|v?aes|v?pclmulqdq|gfni|sha_ni|sha512|sm[34]|"
    r"fma4?|f16c|xop|tbm|bmi[12]|adx|abm|popcnt|movbe|movdir(?:i|64b)|cx16|rdrand|rdseed|rdpid|"
    r"rdtscp|fsgsbase|xsave\w*|xgetbv1|hle|rtm|clflushopt|clwb|clzero|serialize|waitpkg|lahf_lm|"
    r"erms|p?invpcid|pcid|pku|la57|pdpe1gb|smep|smap|umip",
    re.ASCII,
)

#: A version, and any other name that a node reports; of each kind it has at most so many.
_VERSION: Final = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4}){1,2}")
_WORD: Final = re.compile(r"[\w.:+-]{1,64}", re.ASCII)
_MOST: Final = 1024
#: Characters of the model of a CPU.
_LONGEST: Final = 64

#: Flags that a sentence names.
_NAMED: Final = 5


class Running(NamedTuple):
    """How an instance of KVM was started."""

    machine: str
    """its machine type, as QEMU's command line has it"""
    host_cpu: bool
    """whether it has all that the CPU of its node has"""


class Hypervisor(NamedTuple):
    """QEMU and the CPU of a node; None: not known."""

    qemu: str | None = None
    """the version of the installed QEMU, such as 7.2.22"""
    machines: Mapping[str, str] | None = None
    """each machine type that QEMU has -> the one that it stands for; empty: it is one itself"""
    cpu: str | None = None
    """its model"""
    flags: tuple[str, ...] | None = None
    """those of the CPU, as the kernel names them"""
    running: Mapping[str, Running] | None = None
    """name of an instance -> how it was started"""

    @property
    def version(self) -> tuple[int, ...]:
        """The version in numbers; empty: not known."""
        return tuple(map(int, self.qemu.split("."))) if self.qemu else ()


def hypervisor_in(given: object) -> Hypervisor | None:
    """The section ``hypervisor`` of a report; None where it has nothing that can be used."""
    if not isinstance(given, dict):
        return None
    known = {key: given[key] for key in Hypervisor._fields if key in given}
    try:
        found = from_json(Hypervisor, known)
    except ValueError:
        return None
    machines, running, flags = found.machines or {}, found.running or {}, found.flags or ()
    words = [*machines, *filter(None, machines.values()), *flags]
    words += [one.machine for one in running.values()]
    if max(map(len, (machines, running, flags))) > _MOST or not all(map(_WORD.fullmatch, words)):
        return None
    if found.qemu is not None and not _VERSION.fullmatch(found.qemu):
        return None
    return found._replace(cpu=found.cpu and printable(found.cpu[:_LONGEST]))


class Trouble(NamedTuple):
    """Why an instance should not migrate to a node."""

    sentence: str
    """without a full stop; the same for all instances of the same kind"""
    of_qemu: bool
    """whether another QEMU on the node would help"""


class Hypervisors:
    """What all nodes report; nothing is trouble that is not known."""

    def __init__(self, nodes: Mapping[str, Hypervisor]) -> None:
        """``nodes``: by name, those that report it."""
        self.nodes = nodes
        self._found = {
            instance: (name, running)
            for name, node in nodes.items()
            for instance, running in (node.running or {}).items()
        }

    def version(self, node: str) -> tuple[int, ...]:
        """The version of the QEMU of a node; empty: not known."""
        return self.nodes.get(node, Hypervisor()).version

    def knows(self, instance: str, target: str) -> bool:
        """Whether enough is known of an instance and a node to find all trouble."""
        node = self.nodes.get(target, Hypervisor())
        known = None not in (node.qemu, node.machines, node.flags)
        return known and instance in self._found

    def trouble(self, instance: str, target: str) -> Trouble | None:
        """Why a running instance should not migrate to a node; None: nothing is known."""
        name, running = self._found.get(instance, (target, Running("", host_cpu=False)))
        if name == target or target not in self.nodes:
            return None
        there = self.nodes[target]
        if why := _refusal(running.machine, self.nodes[name], name, there, target):
            return Trouble(why, of_qemu=True)
        if running.host_cpu and (lacking := _lacking(self.nodes[name], there)):
            why = f"the CPU of {target} lacks {few(lacking, _NAMED)}, which that of {name} has"
            return Trouble(f"{why}, and cpu_type is host: it may crash", of_qemu=False)
        return None


#: No node reports anything.
NOT_REPORTED: Final = Hypervisors({})


def _refusal(machine: str, here: Hypervisor, name: str, there: Hypervisor, target: str) -> str:
    """What QEMU on the target makes of a machine type; empty: no trouble is known."""
    if there.machines is None or there.qemu is None:
        return ""
    if machine not in there.machines:
        why = f"QEMU {there.qemu} on {target} does not have the machine type {machine}"
        return f"{why}: the migration fails"
    ours, theirs = (here.machines or {}).get(machine, ""), there.machines[machine]
    if ours and theirs and ours != theirs:
        why = f"the machine type {machine} is {ours} on {name} and {theirs} on {target}"
        return f"{why}: it may crash"
    return ""


def _lacking(here: Hypervisor, there: Hypervisor) -> list[str]:
    """Flags that an instance may use and that the other CPU does not have; none: not known."""
    if here.flags is None or there.flags is None:
        return []
    return sorted(filter(_USED.fullmatch, {*here.flags} - {*there.flags}))
