"""Measured CPU load: which nodes report it, and what follows (allocation 3.4).

All of it is taken or none: a cluster of which one part is measured and another counted
would be compared with itself in two units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import orjson

from ganeti_steward.core.errors import BadInput, StewardError, reason_of
from ganeti_steward.core.json_reader import Faults, Section, describe, quoted
from ganeti_steward.core.model.cluster import Cluster, Instance
from ganeti_steward.core.safe_files import UnsafeFile, read_in_time

#: What the monitoring daemon calls its collectors of CPU load: of a node, of each instance.
NODE_COLLECTOR: Final = "cpu-avg-load"
XEN_COLLECTOR: Final = "xen-cpu-avg-load"

#: Busy CPUs; larger figures are faults.
LOAD_LIMIT: Final = 10**6


class NoLoads(StewardError):
    """The CPU load is not known: because of which node, and why."""

    @classmethod
    def of(cls, node: str, fault: str) -> NoLoads:
        """The error that names a node."""
        return cls(f"node {quoted(node)}: {fault}")


def nodes_to_query(cluster: Cluster) -> tuple[str, ...]:
    """The nodes that must report.

    hail queries every node, so one that is offline, and will hardly answer, costs it the data
    of all others.  Nothing is placed on an offline node and its load is in no score.
    """
    return tuple(node.name for node in cluster.nodes if node.live)


def with_reports(cluster: Cluster, reports: Mapping[str, object], collector: str) -> Cluster:
    """The cluster with the loads in these reports, one of each node in `nodes_to_query`.

    Raises NoLoads for a report that cannot be used.
    """
    data = {node: _data(node, report, collector) for node, report in reports.items()}
    if collector == XEN_COLLECTOR:
        return with_instance_loads(
            cluster, {node: _instance_loads(node, data[node]) for node in data}
        )
    return with_node_loads(cluster, {node: _total(node, data[node]) for node in data})


def with_node_loads(cluster: Cluster, loads: Mapping[str, float]) -> Cluster:
    """Instances have a part of what is measured on their primary, by their CPUs.

    What they leave is the node's own.  Whatever is on a node without a measurement keeps
    the load it had.
    """
    used = {node.name: node.reserved_cpus for node in cluster.nodes}
    own = dict(loads)
    for instance in cluster.instances:
        if instance.counts_vcpus and not instance.forthcoming:
            used[instance.nodes[0]] += instance.vcpus

    def part(instance: Instance) -> Instance:
        primary = instance.nodes[0]
        if primary not in loads:
            return instance
        share = loads[primary] / used[primary] if used[primary] > 0 else 0.0
        load = share * instance.vcpus
        own[primary] -= 0.0 if instance.forthcoming else load
        return instance._replace(cpu_load=load)

    instances = list(map(part, cluster.instances))
    return cluster.replace(
        [node._replace(own_load=own.get(node.name, node.own_load)) for node in cluster.nodes],
        instances,
    )


def with_instance_loads(cluster: Cluster, loads: Mapping[str, Mapping[str, float]]) -> Cluster:
    """Instances have the load measured on their primary, nodes the sum of theirs.

    One that is not up need not be there; then its load is 0 (hail takes no data at all as
    soon as an instance is down).  Raises NoLoads when one that is up is missing.
    """

    def measured(instance: Instance) -> Instance:
        primary = instance.nodes[0]
        if primary not in loads:
            return instance
        load = loads[primary].get(instance.name)
        if load is None and instance.uses_memory:
            raise NoLoads.of(primary, f"it reports no load of instance {quoted(instance.name)}")
        return instance._replace(cpu_load=load or 0.0)

    return cluster.replace(instances=map(measured, cluster.instances))


def _data(node: str, report: object, collector: str) -> object:
    if not isinstance(report, dict):
        raise NoLoads.of(node, f"its report is {describe(report)}, not an object")
    if report.get("name") != collector:
        named = describe(report.get("name"))
        raise NoLoads.of(node, f"its report has {named} as its name, not {quoted(collector)}")
    data = report.get("data")
    if isinstance(data, dict) and isinstance(data.get("error"), str):
        # A daemon that was just started has not measured for long enough.
        raise NoLoads.of(node, f"its report contains an error: {quoted(data['error'])}")
    return data


def _total(node: str, data: object) -> float:
    return _load(node, "'cpu_total'", data.get("cpu_total") if isinstance(data, dict) else data)


def _instance_loads(node: str, data: object) -> dict[str, float]:
    if not isinstance(data, dict):
        raise NoLoads.of(node, f"its report's data is {describe(data)}, not an object")
    return {name: _load(node, quoted(name), load) for name, load in data.items()}


def _load(node: str, of: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NoLoads.of(node, f"the load {of} in its report is {describe(value)}, not a number")
    if not 0 <= value <= LOAD_LIMIT:
        raise NoLoads.of(node, f"the load {of} in its report is {value}, which is out of range")
    return float(value)


#: Bytes of the file.
_LONGEST: Final = 2**28

#: Seconds until all has been written into a FIFO.
_WAIT: Final = 10.0


def read_reports(path: str, nodes: Sequence[str], collector: str) -> dict[str, object]:
    """The report of one collector for each of these nodes; raises NoLoads.

    The file may know more nodes and more reports.
    """
    known = _entries(path)
    found: dict[str, object] = {}
    for node in nodes:
        if node not in known:
            raise NoLoads.of(node, f"not in file {quoted(path)}")
        for report in known[node]:
            if isinstance(report, dict) and report.get("name") == collector:
                found[node] = report
                break
        else:
            raise NoLoads.of(node, f"no {collector} report in file {quoted(path)}")
    return found


def _entries(path: str) -> dict[str, list[object]]:
    try:
        data = orjson.loads(read_in_time(path, _LONGEST, _WAIT))
    except orjson.JSONDecodeError as err:
        raise NoLoads(f"file {quoted(path)}: not valid JSON: {err}") from None
    except UnsafeFile as err:
        raise NoLoads(f"file {quoted(path)}: {err.reason}") from None
    except (OSError, ValueError) as err:
        raise NoLoads(f"file {quoted(path)}: {reason_of(err)}") from None
    if not isinstance(data, list):
        raise NoLoads(f"file {quoted(path)}: a list is expected, found {describe(data)}")
    known: dict[str, list[object]] = {}
    faults = Faults()
    for number, entry in enumerate(data):
        section = Section(entry, f"entry {number}", "", faults)
        name, reports = section.text("node"), section.items("reports")
        if name and name in known:
            section.fault(f"node {quoted(name)} is there already", "node")
        known[name] = reports
        if faults.many:
            break
    try:
        faults.check()
    except BadInput as err:
        raise NoLoads(f"file {quoted(path)}: {err}") from None
    return known
