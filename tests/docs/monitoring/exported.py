"""What each of the programs serves at ``/metrics``, with something of everything in it."""

from __future__ import annotations

from typing import Final

from statuses import STATUS

from ganeti_steward.allocators.capacity.sizes import Usage
from ganeti_steward.allocators.health.counts import Counts
from ganeti_steward.diagnose.agent.http import rendered_metrics
from ganeti_steward.plugins.exporter import metrics as exporter_metrics
from ganeti_steward.plugins.exporter.figures import CountedSize, Figures, GroupFigures
from ganeti_steward.plugins.maintenance.edges import metrics as daemon_metrics

_GROUP: Final = GroupFigures("rack1", 2.5, 0.5, Counts(1, 2, 3, 4, 5), {"usable": 4}, 12, 6)
_FIGURES: Final = Figures((_GROUP,), (CountedSize("tiered", 1, 2, 3, 4, 5),), Usage(0.1, 0.2, 0.3))
_REPORT: Final = {
    "timestamp": 1,
    "data": {"status": "evacuate", "details": [{"status": "evacuate"}]},
    "unknown": [],
    "not_applicable": [],
}

DAEMON: Final = daemon_metrics.rendered(STATUS)
AGENT: Final = rendered_metrics(_REPORT)
EXPORTER: Final = exporter_metrics.rendered(exporter_metrics.ClusterReading(_FIGURES))
