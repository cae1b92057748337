"""The table of an incident's life: what each event does in each state."""

from __future__ import annotations

import pytest

from ganeti_steward.plugins.maintenance.engine.transitions import (
    FORGOTTEN,
    TABLE,
    Event,
    apply,
)
from ganeti_steward.plugins.model.incident import (
    ACKNOWLEDGED,
    CANCELED,
    COMPLETED,
    FAILED,
    NOTED,
    PENDING,
    STATUSES,
    Incident,
)

UUID = "6b1ed8a8-6a5c-4c2a-9b0b-000000000001"
INCIDENT = Incident(
    UUID, "node-uuid", "node1.lab", b"{}", "evacuate", tag=f"maintd:repairready:{UUID}"
)


def in_state(state: str) -> Incident:
    acknowledged = state == ACKNOWLEDGED
    return INCIDENT._replace(
        status=COMPLETED if acknowledged else state, acknowledged=acknowledged, note="before"
    )


@pytest.mark.parametrize("state", [*STATUSES, ACKNOWLEDGED])
@pytest.mark.parametrize("event", Event)
def test_each_state_and_event(state: str, event: Event) -> None:
    before = in_state(state)
    after = apply(before, event, 7, "why")
    to = TABLE.get((state, event), state)
    if after is None or after == before:
        assert to == (state if after else FORGOTTEN)
    else:
        assert (after.state_name, after.changed, after.note) == (to, 7, "why")


def test_every_incident_can_end() -> None:
    """From each state some events lead to the end: none is a dead end."""
    ends = {state for (state, _), to in TABLE.items() if to == FORGOTTEN}
    for _ in STATUSES:
        ends |= {state for (state, _), to in TABLE.items() if to in ends}
    assert ends == {*STATUSES, ACKNOWLEDGED}, (
        "plugins/maintenance/engine/transitions.py: TABLE has no way from a state to the end"
    )


@pytest.mark.parametrize("state", STATUSES)
def test_a_cancel_is_always_possible(state: str) -> None:
    after = apply(in_state(state), Event.CANCEL, 7, "why")
    assert after
    assert after.status == CANCELED, f"engine/transitions.py: TABLE has no cancel of {state}"


@pytest.mark.parametrize(
    ("state", "event", "tag"),
    [
        (PENDING, Event.DONE, f"maintd:repairready:{UUID}"),
        (NOTED, Event.WORSE_DONE, f"maintd:repairready:{UUID}"),
        (PENDING, Event.FAILURE, f"maintd:repairfailed:{UUID}"),
        (NOTED, Event.FAILURE, f"maintd:repairfailed:{UUID}"),
    ],
)
def test_the_tag(state: str, event: Event, tag: str) -> None:
    after = apply(in_state(state)._replace(tagged=True), event, 7, "why")
    assert after
    assert (after.tag, after.tagged) == (tag, False)


def test_a_final_incident_gets_no_second_result() -> None:
    for state in (COMPLETED, ACKNOWLEDGED, FAILED, CANCELED):
        for event in (Event.STARTED, Event.DONE, Event.FAILURE, Event.WORSE_DONE):
            assert (state, event) not in TABLE
