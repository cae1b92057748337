"""Measured CPU load for balancing: all of it is taken, or nothing is moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ganeti_steward.allocators.state.load_reports import (
    NODE_COLLECTOR,
    XEN_COLLECTOR,
    NoLoads,
    nodes_to_query,
    with_reports,
)
from ganeti_steward.allocators.state.mond import query
from ganeti_steward.core.maintenance.world import World
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.plugins.maintenance.rebalance.config import (
    NO_LOAD,
    NODE_LOAD,
    XEN_LOAD,
    Rebalance,
)

#: Value of ``load-data`` -> the collector of the monitoring daemon.
_COLLECTORS: Final = {NODE_LOAD: NODE_COLLECTOR, XEN_LOAD: XEN_COLLECTOR}

#: Ganeti's word for an instance that runs where it should.
_RUNNING: Final = "running"


def with_load_reports(world: World, settings: Rebalance) -> World:
    """The world with the reports of the monitoring daemons, which are queried now."""
    if settings.load_data == NO_LOAD:
        return world
    nodes, collector = nodes_to_query(world.cluster), _COLLECTORS[settings.load_data]
    try:
        reports = query(nodes, collector, settings.load_time_limit)
    except NoLoads as err:
        return world._replace(load_fault=str(err))
    return world._replace(load_reports=reports)


def loaded(world: World, settings: Rebalance) -> Cluster:
    """The cluster with the measured load, where it counts; raises NoLoads."""
    if settings.load_data == NO_LOAD:
        return world.cluster
    if world.load_fault:
        raise NoLoads(world.load_fault)
    collector = _COLLECTORS[settings.load_data]
    reports = dict(world.load_reports)
    missing = [name for name in nodes_to_query(world.cluster) if name not in reports]
    if missing:
        raise NoLoads.of(missing[0], "its load was not read")
    if collector == XEN_COLLECTOR:
        reports = _completed(world, reports)
    return with_reports(world.cluster, reports, collector)


def _completed(world: World, reports: Mapping[str, Any]) -> dict[str, Any]:
    """The reports of Xen instances with what was moved, or is down, since they were measured.

    An instance has the load that another node still reports of it.  One that does not run has
    none, such as an instance whose node has failed.  Of one that runs and is reported by no node
    nothing is known: it is left out, and `with_reports` raises.
    """
    data = {name: _data(report) for name, report in reports.items()}
    known = {name: load for loads in data.values() for name, load in loads.items()}
    for instance in world.cluster.instances:
        primary, name = instance.nodes[0], instance.name
        if primary in data and name not in data[primary]:
            if name in known:
                data[primary][name] = known[name]
            elif instance.status not in ("", _RUNNING):
                data[primary][name] = 0.0
    return {
        name: {**report, "data": data[name]} if _has_loads(report) else report
        for name, report in reports.items()
    }


def _has_loads(report: Any) -> bool:
    """Whether it has loads of instances; others have an error, or are none of this collector."""
    return (
        isinstance(report, dict)
        and isinstance(report.get("data"), dict)
        and not isinstance(report["data"].get("error"), str)
    )


def _data(report: Any) -> dict[str, Any]:
    return dict(report["data"]) if _has_loads(report) else {}
