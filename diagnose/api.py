"""All that a diagnose plugin imports; see docs/how-to/write-a-diagnose-plugin.md.

The built-in collectors are plugins of the same shape: a copy of one of their modules with another
``NAME`` is a plugin that can be loaded.  ``import X as X`` says that X may be imported from here.
"""

# ruff: noqa: I001, PLC0414

from ganeti_steward.core import hookimpl as hookimpl
from ganeti_steward.diagnose.config.finding_kinds import (
    COMMAND as COMMAND,
    STATUS as STATUS,
)
from ganeti_steward.core.config.kinds import (
    FLAG as FLAG,
    TEXT as TEXT,
    list_of as list_of,
    number as number,
    one_of as one_of,
    whole as whole,
)
from ganeti_steward.core.model.finding import (
    EVACUATE as EVACUATE,
    EVACUATE_FAILOVER as EVACUATE_FAILOVER,
    LIVE_REPAIR as LIVE_REPAIR,
    OK as OK,
    STATUSES as STATUSES,
    SUSPECT as SUSPECT,
    CheckResult as CheckResult,
    Finding as Finding,
    NotApplicable as NotApplicable,
    Unknown as Unknown,
)
from ganeti_steward.diagnose.model.machine import (
    Machine as Machine,
    Reading as Reading,
    Space as Space,
)
from ganeti_steward.core.process.following import Ended as Ended
from ganeti_steward.diagnose.collectors.shared.increases import (
    Increase as Increase,
    increases as increases,
)
from ganeti_steward.diagnose.collectors.shared.reading import (
    MissingData as MissingData,
    ended as ended,
    listed as listed,
    located_reason as located_reason,
    member as member,
    noting_unknowns as noting_unknowns,
    number_of as number_of,
    optional as optional,
    parsed as parsed,
    succeeded as succeeded,
    text_of as text_of,
)
from ganeti_steward.diagnose.collectors.shared.results import (
    Examined as Examined,
    Fault as Fault,
    above as above,
    check_results as check_results,
    matches as matches,
)
from ganeti_steward.diagnose.collectors.shared.thresholds import (
    Configured as Configured,
    Count as Count,
    Figure as Figure,
    Repair as Repair,
    Status as Status,
)
