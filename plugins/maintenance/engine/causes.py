"""Why jobs end badly: what Ganeti itself broke, and what out-of-band programs report."""

from __future__ import annotations

import re
from typing import Any, Final

from ganeti_steward.core.model.job_state import LOST, JobState

#: What errors of jobs contain that no node, disk or policy caused: a daemon of Ganeti was stopped,
#: the master failed over, a call to a node did not come through, a lock was not free.
_GANETIS_OWN: Final = re.compile(
    r"wconfd|luxid|ganeti-query"
    r"|[Jj]ob (?:process )?(?:has )?died|[Uu]nclean master daemon shutdown|detected death"
    r"|[Cc]onnection (?:failed|refused|reset)|[Ff]ailed to connect|[Cc]ould not connect"
    r"|[Tt]imed out|[Bb]roken pipe|[Ee]rror while executing backend function"
    r"|\b[Ll]ocks?\b|temp_insufficient_resources"
)


def is_interrupted(state: JobState) -> bool:
    """Whether Ganeti itself broke a job that did not succeed: it may be tried again as it is."""
    return state.status == LOST or _GANETIS_OWN.search(state.error) is not None


def power_fault(result: Any) -> str:
    """Why a node is not known to be off, by the result of its power status; empty: it is off.

    ``result``: for each node its name and the answer, each with a status, 0 where it is valid.
    """
    try:
        ((_, (status, answer)),) = result
        powered = answer["powered"] if status == 0 else None
    except (IndexError, KeyError, TypeError, ValueError):
        powered = None
    if powered is False:
        return ""
    what = "that the node is on" if powered is True else "nothing about its power"
    return f"its out-of-band program reports {what}"
