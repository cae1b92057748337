"""All that a diagnose plugin imports; see docs/how-to/write-a-diagnose-plugin.md.

The built-in collectors are plugins of the same shape: a copy of one of their modules with another
``NAME`` is a plugin that can be loaded.
"""

from ganeti_steward.core import hookimpl
from ganeti_steward.core.config.finding_kinds import COMMAND, STATUS
from ganeti_steward.core.config.kinds import FLAG, TEXT, list_of, number, one_of, whole
from ganeti_steward.core.model.finding import (
    EVACUATE,
    EVACUATE_FAILOVER,
    LIVE_REPAIR,
    OK,
    STATUSES,
    CheckResult,
    Finding,
    NotApplicable,
    Unknown,
)
from ganeti_steward.core.model.machine import Machine, Reading, Space
from ganeti_steward.core.process import Ended
from ganeti_steward.diagnose.collectors.shared.increases import Increase, increases
from ganeti_steward.diagnose.collectors.shared.reading import (
    MissingData,
    ended,
    listed,
    located_reason,
    member,
    noting_unknowns,
    number_of,
    optional,
    parsed,
    succeeded,
    text_of,
)
from ganeti_steward.diagnose.collectors.shared.results import (
    Examined,
    Fault,
    above,
    check_results,
    matches,
)
from ganeti_steward.diagnose.collectors.shared.thresholds import (
    Configured,
    Count,
    Figure,
    Repair,
    Status,
)

__all__ = [
    "COMMAND",
    "EVACUATE",
    "EVACUATE_FAILOVER",
    "FLAG",
    "LIVE_REPAIR",
    "OK",
    "STATUS",
    "STATUSES",
    "TEXT",
    "CheckResult",
    "Configured",
    "Count",
    "Ended",
    "Examined",
    "Fault",
    "Figure",
    "Finding",
    "Increase",
    "Machine",
    "MissingData",
    "NotApplicable",
    "Reading",
    "Repair",
    "Space",
    "Status",
    "Unknown",
    "above",
    "check_results",
    "ended",
    "hookimpl",
    "increases",
    "list_of",
    "listed",
    "located_reason",
    "matches",
    "member",
    "noting_unknowns",
    "number",
    "number_of",
    "one_of",
    "optional",
    "parsed",
    "succeeded",
    "text_of",
    "whole",
]
