"""All that a diagnose plugin imports; see docs/how-to/write-a-diagnose-plugin.md."""

from ganeti_steward.core import hookimpl
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

__all__ = [
    "EVACUATE",
    "EVACUATE_FAILOVER",
    "LIVE_REPAIR",
    "OK",
    "STATUSES",
    "CheckResult",
    "Ended",
    "Finding",
    "Machine",
    "NotApplicable",
    "Reading",
    "Space",
    "Unknown",
    "hookimpl",
]
