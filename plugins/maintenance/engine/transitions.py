"""The life of an incident: one table, and nothing else changes a state.

``docs/explanation/incidents.md`` draws it.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

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

#: The incident's record is removed.
FORGOTTEN: Final = "forgotten"


class Event(Enum):
    """What can happen to an incident; the value says it in words."""

    STARTED = "first task submitted"
    DONE = "all done"
    FAILURE = "a job failed, or the repair is impossible"
    WORSE_DONE = "a more severe incident of the node completed"
    CANCEL = "cancel requested"
    TAG_REMOVED = "tag removed"
    TAG_REMOVED_CLOSED = "tag removed, volumes are closed"
    HEALTHY = "not reported for the healthy delay"
    NODE_LEFT = "node left the cluster"
    FOLDED = "moved to the audit log"


class Effect(Enum):
    """What a transition requires to be done in addition."""

    TAG = "set the tag on the node"
    UNTAG = "remove the tag from the node"
    CANCEL_JOBS = "cancel its queued jobs"


class Transition(NamedTuple):
    """What an event does in a state."""

    to: str
    """a status, ``acknowledged`` or ``forgotten``"""
    effects: tuple[Effect, ...] = ()


_FORGET: Final = Transition(FORGOTTEN)

#: What is not listed changes nothing.
TABLE: Final[dict[tuple[str, Event], Transition]] = {
    (NOTED, Event.STARTED): Transition(PENDING),
    (NOTED, Event.DONE): Transition(COMPLETED, (Effect.TAG,)),
    (NOTED, Event.FAILURE): Transition(FAILED, (Effect.TAG,)),
    (NOTED, Event.WORSE_DONE): Transition(COMPLETED, (Effect.TAG,)),
    (NOTED, Event.CANCEL): Transition(CANCELED),
    (NOTED, Event.HEALTHY): _FORGET,
    (NOTED, Event.NODE_LEFT): _FORGET,
    (NOTED, Event.FOLDED): _FORGET,
    (PENDING, Event.DONE): Transition(COMPLETED, (Effect.TAG,)),
    (PENDING, Event.FAILURE): Transition(FAILED, (Effect.TAG,)),
    (PENDING, Event.WORSE_DONE): Transition(COMPLETED, (Effect.TAG,)),
    (PENDING, Event.CANCEL): Transition(CANCELED, (Effect.CANCEL_JOBS,)),
    (PENDING, Event.NODE_LEFT): Transition(FORGOTTEN, (Effect.CANCEL_JOBS,)),
    (COMPLETED, Event.TAG_REMOVED): Transition(ACKNOWLEDGED),
    (COMPLETED, Event.CANCEL): Transition(CANCELED, (Effect.UNTAG,)),
    (COMPLETED, Event.NODE_LEFT): _FORGET,
    (ACKNOWLEDGED, Event.CANCEL): Transition(CANCELED),
    (ACKNOWLEDGED, Event.HEALTHY): _FORGET,
    (ACKNOWLEDGED, Event.NODE_LEFT): _FORGET,
    (ACKNOWLEDGED, Event.FOLDED): _FORGET,
    (FAILED, Event.TAG_REMOVED): _FORGET,
    (FAILED, Event.TAG_REMOVED_CLOSED): Transition(ACKNOWLEDGED),
    (FAILED, Event.CANCEL): Transition(CANCELED, (Effect.UNTAG,)),
    (FAILED, Event.NODE_LEFT): _FORGET,
    (CANCELED, Event.HEALTHY): _FORGET,
    (CANCELED, Event.NODE_LEFT): _FORGET,
    (CANCELED, Event.FOLDED): _FORGET,
}


def apply(incident: Incident, event: Event, now: int, note: str) -> tuple[Incident, Transition]:
    """The incident after an event, and what that requires.

    ``now``: ns since the epoch; ``note``: why, one sentence.  An event that changes nothing in
    this state returns the incident as it is and a transition to its own state.  A forgotten one is
    returned as it was.
    """
    state = incident.state_name
    found = TABLE.get((state, event))
    if not found or found.to == FORGOTTEN:
        return incident, found or Transition(state)
    after = incident._replace(
        status=STATES[found.to].status,
        acknowledged=found.to == ACKNOWLEDGED,
        changed=now,
        note=note,
    )
    if Effect.TAG in found.effects:
        after = after._replace(tag=after.state.result + after.uuid, tagged=False)
    return after, found
