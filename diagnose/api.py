"""All that a diagnose plugin imports; see docs/how-to/write-a-diagnose-plugin.md."""

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
    "Ended",
    "Finding",
    "Machine",
    "NotApplicable",
    "Reading",
    "Space",
    "Unknown",
    "hookimpl",
    "list_of",
    "number",
    "one_of",
    "whole",
]
