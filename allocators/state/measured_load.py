"""Where a call gets its CPU load from, as its options say (allocation 3.4, 11)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ganeti_steward.allocators.state.load_reports import (
    NODE_COLLECTOR,
    XEN_COLLECTOR,
    NoLoads,
    asked,
    with_reports,
)

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.options import Options

_log = logging.getLogger(__name__)


def measured(cluster: Cluster, options: Options) -> tuple[Cluster, str]:
    """The cluster with the load measured on it, and why there is none where there is none.

    To be called when `Options.measured` says so.  Data that cannot be had is no reason not
    to answer: the cluster is then given back as it is, with a sentence for the user.
    """
    collector = XEN_COLLECTOR if options.mond_xen else NODE_COLLECTOR
    nodes = asked(cluster)
    try:
        found = with_reports(cluster, _reports(nodes, collector, options), collector)
    except NoLoads as err:
        note = f"CPU load not used: {err}"
        _log.warning("%s", note)
        return cluster, note
    _log.info("CPU load of %d nodes used (%s)", len(nodes), collector)
    return found, ""


def _reports(nodes: tuple[str, ...], collector: str, options: Options) -> dict[str, object]:
    if options.mond_data:
        from ganeti_steward.allocators.state.mond_file import read_reports

        return read_reports(options.mond_data, nodes, collector)
    from ganeti_steward.allocators.state.mond import ask

    return ask(nodes, collector, options.mond_time_limit)
