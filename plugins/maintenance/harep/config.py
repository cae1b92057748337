"""The section [harep]: repairs of instances that autorepair tags allow."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from ganeti_steward.core.config.kinds import number, word
from ganeti_steward.core.model.finding import is_name

_ALLOCATOR: Final = word(is_name, "name of an allocator", hint='like "hail" or "steward"')


class Harep(NamedTuple):
    """[harep]: the work of Ganeti's harep, when [maintd] routine names it."""

    iallocator: Annotated[
        str, _ALLOCATOR, "The allocator of Ganeti that finds new nodes for instances."
    ] = "hail"
    job_delay: Annotated[
        float,
        number(0, 3600),
        "Seconds a repair waits before it takes its locks, so that its tag is set at once.",
    ] = 10
    disk_check_interval: Annotated[
        float,
        number(0, 3600),
        "Seconds from one check for degraded disks to the next; 0: disks are not checked.",
    ] = 900
    replace_after: Annotated[
        float,
        number(0, 86400),
        "Seconds disks must stay degraded after they were activated again before they are "
        "replaced.",
    ] = 3600
