"""The first line of the page: fine only where nothing is to be looked at."""

from __future__ import annotations

import pages
import pytest
from statuses import DONE, INCIDENT, NOW, STATUS

from ganeti_steward.allocators.overview.amounts import FAILS_N1
from ganeti_steward.plugins.maintenance.edges.status import Figures, Status
from ganeti_steward.plugins.maintenance.page.verdict import Trouble, verdict
from ganeti_steward.plugins.model.task import Held
from ganeti_steward.plugins.model.world import Refused, Reported, Silent

WELL = pages.quiet()
NODE, *_ = WELL.nodes
NAME = WELL.nodes[NODE]


def seen(found: Reported | Silent | Refused) -> Status:
    observations = {**WELL.poll.observations, NODE: found}
    return WELL._replace(poll=WELL.poll._replace(observations=observations))


def test_fine_says_what_was_looked_at() -> None:
    found = verdict(WELL, "")
    assert (found.look, found.word, found.troubles) == ("good", "Fine", ())
    assert found.facts == (
        "no incident is open, 12 of 12 node agents report a healthy node, no instance is down, "
        "no node fails N+1, disks are not checked"
    )
    figures = WELL.figures._replace(checked=3)
    assert (
        "the disks of 3 instances are in order" in verdict(WELL._replace(figures=figures), "").facts
    )


def test_a_suspect_node_is_nothing_to_look_at() -> None:
    """There is nothing to be done about it; the page names it all the same."""
    report = Reported(b'{"status":"suspect"}', "suspect", "", NOW)
    found = verdict(seen(report), "")
    assert (found.look, found.troubles) == ("good", ())
    assert f"11 of 12 node agents report a healthy node, suspect: {NAME}, " in found.facts


def test_what_is_not_read_yet_is_not_fine() -> None:
    assert verdict(Status(NOW), "").word == "Not known yet"


@pytest.mark.parametrize(
    ("status", "fault", "trouble"),
    [
        (WELL, "no luxid", Trouble("bad", "the daemon is not healthy", "rounds")),
        (
            WELL._replace(figures=Figures(down=("web2", "web1"))),
            "",
            Trouble("bad", "2 instances that should run are down: web1, web2"),
        ),
        (
            WELL._replace(figures=Figures(degraded=("web1",), checked=3)),
            "",
            Trouble("warn", "1 instance has degraded disks: web1"),
        ),
        (
            WELL._replace(incidents=(INCIDENT,)),
            "",
            Trouble("warn", "1 incident is open: node1.lab", "incidents"),
        ),
        (
            WELL._replace(incidents=(INCIDENT._replace(action="dead"),)),
            "",
            Trouble("bad", "1 node is dead: node1.lab", "incidents"),
        ),
        (
            WELL._replace(incidents=(DONE,)),
            "",
            Trouble("bad", "1 repair has failed: node2.lab", "incidents"),
        ),
        (
            WELL._replace(incidents=(DONE._replace(status="completed"),)),
            "",
            Trouble("warn", "1 repair has ended and must be acknowledged: node2.lab", "incidents"),
        ),
        (
            seen(Silent(NOW, "no route")),
            "",
            Trouble("warn", f"1 node agent is silent: {NAME}", "nodes"),
        ),
        (
            seen(Refused(NOW, "901 s old")),
            "",
            Trouble("warn", f"1 report of a node is refused: {NAME}", "nodes"),
        ),
        (
            seen(Reported(INCIDENT.original, "evacuate", "", NOW)),
            "",
            Trouble("warn", f"1 node reports a fault without an incident: {NAME}", "nodes"),
        ),
        (
            WELL._replace(held=(Held("cluster", "storm", "5 of 7"), Held("cluster", "window", ""))),
            "",
            Trouble("warn", "storm holds 1", "next"),
        ),
    ],
)
def test_each_trouble(status: Status, fault: str, trouble: Trouble) -> None:
    found = verdict(status, fault)
    assert (found.look, found.word, found.troubles) == (trouble.look, "Look here", (trouble,))


def test_a_result_that_was_acknowledged_is_fine() -> None:
    over = DONE._replace(status="completed", acknowledged=True)
    assert verdict(WELL._replace(incidents=(over,)), "").word == "Fine"


def test_nodes_that_fail_n1() -> None:
    group, *_ = WELL.overview
    (first, *others) = group.nodes
    lacking = group._replace(nodes=(first._replace(notes=(FAILS_N1,)), *others))
    found = verdict(WELL._replace(overview=(lacking,)), "").troubles
    assert found == (Trouble("warn", f"1 node fails N+1: {first.name}", "nodes"),)


def test_the_worst_comes_first_and_long_lists_end() -> None:
    observations = {uuid: Silent(NOW, "no route") for uuid in WELL.nodes}
    silent = STATUS._replace(
        nodes=WELL.nodes, poll=STATUS.poll._replace(observations=observations), overview=()
    )
    found = verdict(silent, "").troubles
    assert [one.look for one in found] == ["bad", "bad", "warn", "warn", "warn"]
    (agents,) = (one.text for one in found if "agents" in one.text)
    assert agents.startswith(f"12 node agents are silent: {NAME}, ")
    assert agents.endswith(" and 7 more")
