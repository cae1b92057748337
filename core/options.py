"""The options Ganeti passes to an allocator behind the file name.

They come from the cluster's ``default_iallocator_params`` and are the same for every
allocator of the cluster, so an unknown option is noted and otherwise ignored.  Those of
hail that change the outcome have hail's names (allocation 11).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ganeti_steward.core.errors import BadInput
from ganeti_steward.core.reader import LIMIT, quoted

#: hail's options that only change what is printed.
_HARMLESS: Final = frozenset({"-v", "--verbose", "-q", "--quiet", "-p", "--print-nodes"})

#: hail's options that replace the cluster data; ignoring them would answer another question.
_OTHER_SOURCES: Final = frozenset({"-t", "--text-data", "--simulate"})


class Options(NamedTuple):
    """How a request is to be answered."""

    capacity_checks: bool = True
    ignore_soft_errors: bool = False
    restrict_to: tuple[str, ...] | None = None
    kvm_memory: int = 4096
    """MiB; 0 believes what the node reports (--static-kvm-node-memory)"""
    ignored: tuple[str, ...] = ()
    """options that mean nothing to this program"""


def parse_options(arguments: Sequence[str]) -> Options:
    """Read options written as ``--name`` or ``--name=value``; raises BadInput."""
    options, ignored, faults = Options(), [], []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name == "--no-capacity-checks":
            options = options._replace(capacity_checks=False)
        elif name == "--ignore-soft-errors":
            options = options._replace(ignore_soft_errors=True)
        elif name == "--restrict-allocation-to" and equals:
            names = tuple(part for part in value.split(",") if part)
            options = options._replace(restrict_to=names)
        elif name == "--static-kvm-node-memory" and equals:
            if value.isascii() and value.isdigit() and len(value) < 16 and int(value) <= LIMIT:
                options = options._replace(kvm_memory=int(value))
            else:
                faults.append(f"option {name}: a number of MiB is expected, found {quoted(value)}")
        elif name in _OTHER_SOURCES:
            faults.append(f"option {name}: only the message itself is read, no other cluster data")
        elif name not in _HARMLESS:
            ignored.append(argument)
    if faults:
        raise BadInput(faults)
    return options._replace(ignored=tuple(ignored))


def written(options: Options) -> tuple[str, ...]:
    """The options as a program that knows hail's takes them; those with hail's default left out."""
    found = []
    if not options.capacity_checks:
        found.append("--no-capacity-checks")
    if options.ignore_soft_errors:
        found.append("--ignore-soft-errors")
    if options.restrict_to is not None:
        found.append(f"--restrict-allocation-to={','.join(options.restrict_to)}")
    if options.kvm_memory != Options().kvm_memory:
        found.append(f"--static-kvm-node-memory={options.kvm_memory}")
    return tuple(found)
