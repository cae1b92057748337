"""The life of an incident: one table, and nothing else changes a state.

``docs/explanation/incidents.md`` draws it.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ganeti_steward.plugins.model.incident import (
    ACKNOWLEDGED,
    CANCELED,
    COMPLETED,
    FAILED,
    NOTED,
    PENDING,
    STATES,
    Incident,
)

#: The event of an incident that is new; it has no state before.
OBSERVED: Final = "reported"

#: The incident's record is removed.
FORGOTTEN: Final = "forgotten"


class Event(Enum):
    """What can happen to an incident; the value says it in words."""

    STARTED = "first task submitted"
    DONE = "all done"
    FAILURE = "a job failed, or the repair is impossible"
    WORSE_DONE = "a more severe incident of the node completed"
    CANCEL = "cancel requested"
    TAKEN_BACK = "the maintenance of the node is over"
    GIVEN_BACK = "the maintenance cannot go on, and its node is in service again"
    TAG_REMOVED = "tag removed"
    TAG_REMOVED_CLOSED = "tag removed, volumes are closed"
    HEALTHY = "not reported for the healthy delay"
    HEALTHY_UNDONE = "nothing was done, and not reported for the healthy delay"
    NODE_LEFT = "node left the cluster"
    FOLDED = "moved to the audit log"


#: State and event -> the state after it.  What is not listed changes nothing; what has to be
#: done in a state is in its row of `STATES`.
TABLE: Final[dict[tuple[str, Event], str]] = {
    (NOTED, Event.STARTED): PENDING,
    (NOTED, Event.DONE): COMPLETED,
    (NOTED, Event.TAKEN_BACK): ACKNOWLEDGED,
    (NOTED, Event.FAILURE): FAILED,
    (NOTED, Event.WORSE_DONE): COMPLETED,
    (NOTED, Event.CANCEL): CANCELED,
    (NOTED, Event.HEALTHY): FORGOTTEN,
    (NOTED, Event.NODE_LEFT): FORGOTTEN,
    (NOTED, Event.FOLDED): FORGOTTEN,
    (PENDING, Event.DONE): COMPLETED,
    (PENDING, Event.FAILURE): FAILED,
    (PENDING, Event.WORSE_DONE): COMPLETED,
    (PENDING, Event.TAKEN_BACK): ACKNOWLEDGED,
    (PENDING, Event.GIVEN_BACK): NOTED,
    (PENDING, Event.CANCEL): CANCELED,
    (PENDING, Event.HEALTHY_UNDONE): FORGOTTEN,
    (PENDING, Event.NODE_LEFT): FORGOTTEN,
    (COMPLETED, Event.TAG_REMOVED): ACKNOWLEDGED,
    (COMPLETED, Event.CANCEL): CANCELED,
    (COMPLETED, Event.NODE_LEFT): FORGOTTEN,
    (ACKNOWLEDGED, Event.CANCEL): CANCELED,
    (ACKNOWLEDGED, Event.HEALTHY): FORGOTTEN,
    (ACKNOWLEDGED, Event.NODE_LEFT): FORGOTTEN,
    (ACKNOWLEDGED, Event.FOLDED): FORGOTTEN,
    (FAILED, Event.TAG_REMOVED): FORGOTTEN,
    (FAILED, Event.TAG_REMOVED_CLOSED): ACKNOWLEDGED,
    (FAILED, Event.CANCEL): CANCELED,
    (FAILED, Event.NODE_LEFT): FORGOTTEN,
    (CANCELED, Event.HEALTHY): FORGOTTEN,
    (CANCELED, Event.NODE_LEFT): FORGOTTEN,
    (CANCELED, Event.FOLDED): FORGOTTEN,
}


def apply(incident: Incident, event: Event, now: int, note: str) -> Incident | None:
    """The incident after an event: as it is, where that changes nothing; None: it is forgotten.

    ``now``: ns since the epoch; ``note``: why, one sentence.  What has ended has no open command:
    nothing depends on its outcome any more, so nothing waits for it.
    """
    to = TABLE.get((incident.state_name, event))
    if to is None:
        return incident
    if to == FORGOTTEN:
        return None
    after = incident._replace(
        status=STATES[to].status, acknowledged=to == ACKNOWLEDGED, changed=now, note=note
    )
    if not after.active:
        after = _without_commands(after, note)
    if after.state.result:
        return after._replace(tag=after.state.result + after.uuid, tagged=False)
    return after


def _without_commands(incident: Incident, note: str) -> Incident:
    """An incident that has ended, without its open commands; the note names them."""
    names = [one.named_command for one in incident.open if one.command]
    if not names:
        return incident
    left = tuple(one for one in incident.open if not one.command)
    unknown = f"the outcome of the command {', '.join(names)} is unknown"
    return incident._replace(open=left, note=f"{note}; {unknown}")


def mermaid() -> str:
    """The table as a state diagram in the language of Mermaid."""
    events: dict[tuple[str, str], list[str]] = {("[*]", NOTED): [OBSERVED]}
    for (state, event), to in TABLE.items():
        ends = state, "[*]" if to == FORGOTTEN else to
        events.setdefault(ends, []).append(event.value)
    arrows = (f"    {start} --> {end}: {', or '.join(one)}" for (start, end), one in events.items())
    return "\n".join(["stateDiagram-v2", *arrows, ""])
