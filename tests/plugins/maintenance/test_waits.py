"""What is held back says since when, until when at most, and what a person can do."""

from __future__ import annotations

import re

import pytest
from asserting import some
from maintained import CONFIG, OK, REPAIR, evacuating
from paths import DOCS
from statuses import NOW

from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.maintenance.daemon.reporting import StatusReport
from ganeti_steward.plugins.maintenance.edges.poll import NOTHING
from ganeti_steward.plugins.maintenance.edges.served_status import waits_of
from ganeti_steward.plugins.maintenance.edges.status import Status, held_json, wait_line
from ganeti_steward.plugins.model.task import Held
from ganeti_steward.plugins.model.waits import STEPS, step_of

SECOND = 10**9


def test_each_word_has_its_step() -> None:
    """The table of the page has the words of all brakes."""
    page = (DOCS / "how-to" / "operate.md").read_text()
    table = page.split("## What is held back")[1].split("## Tags")[0]
    words = re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)
    assert sorted(some(words)) == sorted(STEPS)
    assert all(STEPS.values())


def test_the_line() -> None:
    held = Held("uuid-1", "wait", "the disks are copied", since=NOW, until=NOW + 60 * SECOND)
    assert re.fullmatch(
        r"the disks are copied; since 2026-01-07 \S+; until 2026-01-07 \S+ at most; what helps: "
        r"gnt-steward incident show uuid-1 says more; gnt-steward incident cancel uuid-1 ends it",
        wait_line(held),
    )
    status = {"daemon": {"held": [held_json(held), held_json(held._replace(brake="x-y"))]}}
    lines = waits_of(status)["uuid-1"]
    assert (lines[0], len(lines)) == (wait_line(held), 2)
    assert "what helps" not in lines[1]


def test_routine_work_has_no_incident_to_name() -> None:
    for brake in some(("wait", "attempt", "gate")):
        text = step_of(Held("rebalance group default", brake, "it is planned"))
        assert "gnt-steward incident" not in text
        assert "gnt-steward incident cancel uuid-1" in step_of(Held("uuid-1", brake, ""))


@pytest.mark.parametrize(
    ("config", "brake", "seconds"),
    [({"hold_time": 300}, "hold", 300), ({}, "running", 0)],
)
def test_when_it_ends(config: dict[str, float], brake: str, seconds: int) -> None:
    """Where the configuration has a number; else since when."""
    cluster = evacuating(CONFIG._replace(**config))
    begun = cluster.now
    cluster.round()
    (held,) = (one for one in cluster.decisions[-1].held if one.brake == brake)
    assert (held.since, held.until) == (begun, begun + seconds * SECOND if seconds else 0)


def test_a_command_that_runs_ends_at_the_limit() -> None:
    cluster = evacuating(CONFIG)
    cluster.report("node2", REPAIR)
    cluster.report("node3", REPAIR)
    cluster.config = cluster.config._replace(most_nodes=2)
    for _ in range(3):
        cluster.round()
    held = {one.brake: one for one in cluster.decisions[-1].held}["running"]
    limit = Maintd().command_time_limit
    assert held.sentence == "the command fix-nic has not ended"
    assert held.until - held.since == 2 * limit * SECOND


def test_how_long_a_healthy_node_keeps_others_waiting() -> None:
    cluster = evacuating(CONFIG._replace(hold_time=300))
    cluster.report("node2", OK)
    cluster.round()
    begun = cluster.now
    cluster.wait(100)
    cluster.round()
    (held,) = (one for one in cluster.decisions[-1].held if one.brake == "not-reported")
    assert held.until == begun + int(CONFIG.healthy_delay) * SECOND
    assert f"its incident is forgotten in {CONFIG.healthy_delay - 101:.0f} s" in held.sentence


def test_the_daemon_remembers_since_when() -> None:
    """Over its rounds, as long as each of them has held it back."""
    seen: list[Status] = []
    report = StatusReport(
        seen.append, lambda: NOTHING, lambda: "act", lambda: (), lambda: (), NOW, lambda _: ()
    )
    world = evacuating(CONFIG).world()
    held = Held("uuid-1", "most-nodes", "1 of at most 1 nodes are under repair: node2")
    for at, found in enumerate(((held,), (held,), (), (held,))):
        report(Round(NOW + at * SECOND, 0, world, held=found))
    assert [[one.since - NOW for one in status.held] for status in seen] == [
        [0],
        [0],
        [],
        [3 * SECOND],
    ]
