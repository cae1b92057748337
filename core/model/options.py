"""The options Ganeti passes to an allocator behind the file name.

They come from the cluster's ``default_iallocator_params`` and are the same for every
allocator of the cluster, so an unknown option is noted and otherwise ignored.  Those of
hail that change the outcome have hail's names (allocation 11).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ganeti_steward.core.errors import BadInput
from ganeti_steward.core.json_reader import LIMIT, quoted
from ganeti_steward.core.records import NamedTuple

#: Options without a value -> the field they set.
_FLAGS: Final[dict[str, dict[str, Any]]] = {
    "--no-capacity-checks": {"capacity_checks": False},
    "--ignore-soft-errors": {"ignore_soft_errors": True},
}

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
    """MiB; 0 takes what the node reports (--static-kvm-node-memory)"""
    mond: bool = False
    """take CPU load from the monitoring daemons, unless ``ignore_dynu``"""
    mond_xen: bool = False
    """that of each Xen guest instead of that of each node"""
    mond_data: str = ""
    """a file with the daemons' reports, to be read instead of asking them"""
    mond_time_limit: float = 5
    """seconds all daemons have to answer"""
    ignore_dynu: bool = False
    partial_batches: bool | None = None
    """whether a batch may be placed in part; None: as configured"""
    ignored: tuple[str, ...] = ()
    """options that mean nothing to this program"""

    @property
    def measured(self) -> bool:
        """Whether measured CPU load is to be used."""
        return self.mond and not self.ignore_dynu


#: Options about measured load.
_LOAD_OPTIONS: Final = frozenset(
    {"--mond", "--mond-xen", "--mond-data", "--mond-time-limit", "--ignore-dynu"}
)

#: The longest time the monitoring daemons may be given, seconds.
_LONGEST_WAIT: Final = 600


#: Options that name a file.
_FILES: Final = frozenset({"--mond-data"})


def parse_cluster_options(arguments: Sequence[str]) -> Options:
    """The options of Ganeti's own call, which name no file; raises BadInput.

    Everybody with write access to RAPI can set them, and the allocator reads files as root.
    """
    for name in (argument.partition("=")[0] for argument in arguments):
        if name in _FILES:
            fault = "the cluster's options may name no file; commands take it with --option"
            raise BadInput([f"option {name}: {fault}"])
    return parse_options(arguments)


def parse_options(arguments: Sequence[str]) -> Options:
    """Read options written as ``--name`` or ``--name=value``; raises BadInput."""
    options, ignored, faults = Options(), [], []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name in _FLAGS:
            options = options._replace(**_FLAGS[name])
        elif name == "--partial-batches":
            if equals and value not in ("yes", "no"):
                faults.append(f"option {name}: 'yes' or 'no' is expected, found {quoted(value)}")
            options = options._replace(partial_batches=value != "no")
        elif name == "--restrict-allocation-to" and equals:
            names = tuple(part for part in value.split(",") if part)
            options = options._replace(restrict_to=names)
        elif name == "--static-kvm-node-memory" and equals:
            if value.isascii() and value.isdigit() and len(value) < 16 and int(value) <= LIMIT:
                options = options._replace(kvm_memory=int(value))
            else:
                faults.append(f"option {name}: a number of MiB is expected, found {quoted(value)}")
        elif name in _LOAD_OPTIONS:
            options = _load_option(options, name, value if equals else None, faults)
        elif name in _OTHER_SOURCES:
            faults.append(f"option {name}: only the message itself is read, no other cluster data")
        elif name not in _HARMLESS:
            ignored.append(argument)
    if faults:
        raise BadInput(faults)
    return options._replace(ignored=tuple(ignored))


def _load_option(options: Options, name: str, value: str | None, faults: list[str]) -> Options:
    """The options with one about measured load; ``value`` None: none was given."""
    if name == "--ignore-dynu":
        return options._replace(ignore_dynu=True)
    if name == "--mond-xen":
        return options._replace(mond_xen=True)
    if name == "--mond-data":
        if not value:
            faults.append(f"option {name}: the name of a file is expected")
        return options._replace(mond=True, mond_data=value or "")
    if name == "--mond":
        if value is not None and value not in ("yes", "no"):
            faults.append(f"option {name}: 'yes' or 'no' is expected, found {quoted(value)}")
        return options._replace(mond=value != "no")
    seconds = _seconds(value or "")
    if seconds is None:
        wanted = f"a number of seconds up to {_LONGEST_WAIT} is expected"
        faults.append(f"option {name}: {wanted}, found {quoted(value or '')}")
    return options._replace(mond_time_limit=seconds or 0)


def _seconds(text: str) -> float | None:
    """A positive number of seconds written with digits and one point, or None."""
    if text.isascii() and text.replace(".", "", 1).isdigit() and len(text) < 16:
        seconds = float(text)
        if 0 < seconds <= _LONGEST_WAIT:
            return seconds
    return None


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
    # A file of reports is nothing hail can read, and without it hail would ask the nodes.
    if options.measured and not options.mond_data:
        found += ["--mond", *(["--mond-xen"] if options.mond_xen else [])]
    return tuple(found)
