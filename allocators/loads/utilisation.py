"""The utilisation file of htools (``-U``): what load each instance makes.

A line has the name of an instance and its load of CPU, memory, disk and network, with blanks
between: ``web1.example.com 1.5 1 0.2 1`` (``parseUtilisation`` in Ganeti's ExtLoader.hs).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ganeti_steward.allocators.loads.load_reports import LOAD_LIMIT
from ganeti_steward.core.errors import BadInput, StewardError, reason_of
from ganeti_steward.core.json_reader import Faults, counted, quoted
from ganeti_steward.core.model.cluster import Cluster, Instance
from ganeti_steward.core.safe_files import UnsafeFile, read_in_time

#: CPU, memory, disk and network.
Figures = tuple[float, float, float, float]

#: Bytes of the file, and seconds until all has been written into a FIFO.
_LONGEST: Final = 2**26
_WAIT: Final = 10.0

#: Names that a note on unknown instances has.
_SHOWN: Final = 3


def read_utilisation(path: str) -> dict[str, Figures]:
    """Name of an instance -> its figures; raises StewardError with all faults."""
    try:
        content = read_in_time(path, _LONGEST, _WAIT).decode()
    except UnsafeFile as err:
        raise StewardError(f"file {quoted(path)}: {err.reason}") from None
    except (OSError, ValueError) as err:
        raise StewardError(f"file {quoted(path)}: {reason_of(err)}") from None
    found: dict[str, Figures] = {}
    faults = Faults()
    for number, line in enumerate(content.splitlines(), 1):
        if faults.many:
            break
        name, *figures = line.split() or [""]
        fault = "it is there already" if name in found else ""
        values = [_figure(text) for text in figures]
        if name and len(figures) != 4:
            fault = f"an instance name and four figures are expected, found {quoted(line)}"
        elif None in values:
            wrong = figures[values.index(None)]
            limit = f"a number from 0 to {LOAD_LIMIT} is expected"
            fault = f"instance {quoted(name)}: {limit}, found {quoted(wrong)}"
        elif fault:
            fault = f"instance {quoted(name)}: {fault}"
        if fault:
            faults.add(f"line {number}", fault)
        elif name:
            cpu, memory, disk, network = (value or 0.0 for value in values)
            found[name] = (cpu, memory, disk, network)
    try:
        faults.check()
    except BadInput as err:
        raise StewardError(f"file {quoted(path)}: {err}") from None
    return found


def _figure(text: str) -> float | None:
    """A load, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= LOAD_LIMIT else None


def with_utilisation(cluster: Cluster, figures: Mapping[str, Figures]) -> tuple[Cluster, str]:
    """The cluster with these loads, and a note on names of no instance; empty: there are none.

    As in hbal, an instance that is not in the file keeps the load 1 of each kind.
    """

    def loaded(one: Instance) -> Instance:
        cpu, *others = figures.get(one.name, (one.cpu_load, *one.other_loads))
        memory, disk, network = others
        return one._replace(cpu_load=cpu, other_loads=(memory, disk, network))

    unknown = sorted(figures.keys() - cluster.instance_index.keys())
    note = ""
    if unknown:
        names = ", ".join(unknown[:_SHOWN])
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        lines = counted(len(unknown), "line")
        note = f"{lines} of the utilisation file ignored, no such instance: {names}{more}"
    return cluster.replace(instances=map(loaded, cluster.instances)), note
