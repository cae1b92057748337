"""The source of a call's CPU load, by its options (allocation 3.4, 11)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ganeti_steward.allocators.loads import load_reports

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.options import Options

_log = logging.getLogger(__name__)


def measured(cluster: Cluster, options: Options) -> tuple[Cluster, str]:
    """The cluster with the measured load, and the reason when there is none.

    For calls with `Options.measured`.  Missing data do not prevent an answer: the result is then
    the cluster as it is, with a sentence for the user.
    """
    collector = load_reports.XEN_COLLECTOR if options.mond_xen else load_reports.NODE_COLLECTOR
    nodes = load_reports.nodes_to_query(cluster)
    try:
        found = load_reports.with_reports(cluster, _reports(nodes, collector, options), collector)
    except load_reports.NoLoads as err:
        note = f"CPU load not used: {err}"
        _log.warning("%s", note)
        return cluster, note
    _log.info("CPU load of %d nodes used (%s)", len(nodes), collector)
    return found, ""


def _reports(nodes: tuple[str, ...], collector: str, options: Options) -> dict[str, object]:
    if options.mond_data:
        from ganeti_steward.allocators.loads.load_reports import read_reports

        return read_reports(options.mond_data, nodes, collector)
    from ganeti_steward.allocators.loads.mond import query

    return query(nodes, collector, options.mond_time_limit)
