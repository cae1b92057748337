"""What an incident waits for while a migration copies memory for too long."""

from __future__ import annotations

from typing import Final

import pytest
from worlds import NOW, SECOND, incident, node, world

from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.engine.decision import Inputs
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.model.incident import Submission
from ganeti_steward.plugins.model.progress import Transfer

NODES: Final = [node(name) for name in ("n1", "n2", "n3")]
WEB: Final = Transfer(NOW - 4000 * SECOND, 251.3)


def held(limit: float, transfers: dict[int, Transfer], *each: str) -> dict[str, str]:
    """Word -> sentence of what is held, while jobs 4 and 5 run."""
    running = Submission("s", "move", ("n1", "n2"), each, NOW - 5000 * SECOND, (4, 5), each=each)
    found = incident("n1", open=(running,), status="pending")
    jobs = {number: JobState(number, "running") for number in (4, 5)}
    inputs = Inputs(world(NODES, incidents=[found]), jobs, transfers=transfers)
    config = Maintd(mode="act", slow_migration_after=limit)
    return {one.brake: one.sentence for one in step(inputs, config, lambda *_: []).held}


@pytest.mark.parametrize(
    ("limit", "transfers"),
    [(3600, {}), (4000, {4: WEB}), (0, {4: WEB}), (3600, {6: WEB})],
)
def test_it_is_not_slow(limit: float, transfers: dict[int, Transfer]) -> None:
    found = held(limit, transfers, "web", "db")
    assert found["running"] == "job 4, 5 has not ended"
    assert "slow-migration" not in found


def test_it_is_slow() -> None:
    found = held(3600, {4: WEB, 5: WEB._replace(percent=None)}, "web", "db")
    assert found["slow-migration"] == (
        "job 4, 5 has not ended: the memory of web has been copied for 4000 s (job 4), 251.3 % so "
        "far; the memory of db has been copied for 4000 s (job 5); slow-migration-after is 3600 s"
    )
    assert "running" not in found


def test_an_instance_that_is_not_known() -> None:
    found = held(3600, {4: WEB})
    assert found["slow-migration"].startswith(
        "job 4, 5 has not ended: memory has been copied for 4000 s (job 4), 251.3 % so far; "
    )
