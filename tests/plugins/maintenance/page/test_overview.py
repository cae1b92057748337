"""How full the nodes will be: the moves of a round are remembered until their jobs have ended."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import count

import pytest
from clusters import generate
from worlds import NOW, SECOND, incident, instance, node, with_instance, world

from ganeti_steward.allocators.balancing.planning.plan_balance import plan_balance
from ganeti_steward.allocators.capacity.standard_room import Room
from ganeti_steward.allocators.jobs.operations import migrate
from ganeti_steward.allocators.overview.amounts import Overview
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.model.cluster_reader import read_cluster
from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.requests import Balance
from ganeti_steward.plugins.maintenance.daemon import figures, reporting
from ganeti_steward.plugins.maintenance.daemon.figures import Drawn, drawn, figures_of
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.maintenance.daemon.reporting import (
    StatusReport,
    moves_under_way,
)
from ganeti_steward.plugins.maintenance.edges.poll import NOTHING
from ganeti_steward.plugins.maintenance.edges.status import Status
from ganeti_steward.plugins.maintenance.engine.decision import Decision, RoutineStarted, Started
from ganeti_steward.plugins.maintenance.harep.health import repair_job
from ganeti_steward.plugins.model.disks import DiskHealth
from ganeti_steward.plugins.model.incident import Incident, Submission
from ganeti_steward.plugins.model.operations import set_tags
from ganeti_steward.plugins.model.progress import Emptied
from ganeti_steward.plugins.model.routine import RoutineJob
from ganeti_steward.plugins.model.task import Held, Task
from ganeti_steward.plugins.model.world import World

NODES = [node("n1"), node("n2"), node("n3")]
WORLD = world(NODES, [instance("web1", "n1", "n2"), instance("web2", "n3", "n1")])
MOVE = Task(
    "move",
    frozenset({"n1", "n2"}),
    frozenset({"web1"}),
    "move web1",
    ([migrate("web1"), set_tags("node", "n1", ["x"])], [migrate("unknown")]),
)
OPEN = Submission("s1", "move", ("n1", "n2"), ("web1",), NOW, (7,))
MOVED = {"web1": ("n2", "n1")}


def room(_: World) -> tuple[Room, ...]:
    return ()


def round_of(
    *open_tasks: Submission, seen: World = WORLD, decision: Decision | None = None
) -> Round:
    one = incident("n1")._replace(open=open_tasks)
    return Round(NOW, 0.5, seen, decision or Decision(), {one.uuid: one})


def memory(overview: Overview) -> dict[str, list[float]]:
    """Node -> MiB in use now, and then."""
    (group,) = overview
    return {
        one.name: [each[0].used for each in (one.now, one.after) if each] for one in group.nodes
    }


def test_moves_of_a_repair_until_its_jobs_have_ended() -> None:
    begun = round_of(OPEN)._replace(started=(Started(incident("n1").uuid, "s1", MOVE),))
    moves = moves_under_way({}, begun)
    assert moves == MOVED
    moves = moves_under_way(moves, round_of(OPEN))
    assert moves == MOVED
    assert moves_under_way(moves, Round(NOW, 0.5)) == MOVED
    assert moves_under_way(moves, round_of()) == {}


def test_moves_of_routine_work() -> None:
    begun = round_of()._replace(routine=(RoutineStarted("rebalance", "s2", MOVE),))
    moves = moves_under_way({}, begun)
    assert moves == MOVED
    job = RoutineJob(8, "rebalance", "move", "", ("n1", "n2"), ("web1",), status="running")
    assert moves_under_way(moves, round_of(seen=WORLD._replace(routine=(job,)))) == MOVED
    ended = WORLD._replace(routine=(job._replace(status="success"),))
    assert moves_under_way(moves, round_of(seen=ended)) == {}


def test_a_move_to_a_node_that_is_not_known_yet_is_not_shown() -> None:
    anywhere = repair_job("new-secondary", "web2", "hail", may_fail_over=False)
    task = MOVE._replace(jobs=(anywhere, [migrate("web1")]))
    begun = round_of()._replace(routine=(RoutineStarted("harep", "s2", task),))
    assert moves_under_way({}, begun) == MOVED


def test_moves_that_only_observe_mode_holds() -> None:
    moves = moves_under_way({}, round_of(decision=Decision(observed=(MOVE,))))
    assert moves == MOVED
    assert moves_under_way(moves, round_of()) == {}


def test_the_figures() -> None:
    found = memory(drawn(WORLD, MOVED).overview)
    assert found == {"n1": [1024, 0], "n2": [0, 1024], "n3": [1024, 1024]}
    assert memory(drawn(WORLD, {}).overview) == {"n1": [1024], "n2": [0], "n3": [1024]}
    gone = {"web3": ("n1",), "web1": ("n2", "n9")}
    assert memory(drawn(WORLD, gone).overview) == memory(drawn(WORLD, {}).overview)


def test_the_cluster_in_figures() -> None:
    """Disks count only where a check was made lately."""
    seen = with_instance(WORLD, "web2", status="ERROR_down")
    disks = {
        "web1": DiskHealth(NOW - SECOND, ("disk 0 is degraded on n2",)),
        "web2": DiskHealth(NOW - 3600 * SECOND, ("disk 0 is degraded on n1",)),
        "gone": DiskHealth(NOW, ("disk 0 is degraded on n1",)),
    }
    found = figures_of(seen._replace(disks=disks), drawn(seen, {}).scores, ())
    assert (found.down, found.checked, found.degraded) == (("web2",), 1, ("web1",))
    ((group, score),) = found.scores
    plan = plan_balance(Balance(), seen.cluster, Config(), Options())
    assert [(one.group, one.score_before) for one in plan.groups] == [(group, score)]


def test_a_group_without_usable_nodes_has_no_score() -> None:
    offline = [one._replace(offline=True) for one in NODES]
    assert drawn(world(offline, []), {}).scores == ()


def report(
    published: list[Status], room: Callable[[World], tuple[Room, ...]] = room
) -> StatusReport:
    return StatusReport(
        published.append,
        poll=lambda: NOTHING,
        mode=lambda: "observe",
        problems=lambda: (Held("cluster", "configuration", "old"),),
        history=lambda: (),
        started=NOW,
        room=room,
    )


def test_the_status_after_rounds() -> None:
    published: list[Status] = []
    observe = report(published)
    for number in range(25):
        observe(round_of(decision=Decision(observed=(MOVE,)))._replace(at=NOW + number * SECOND))
    observe(Round(NOW, 0.25, fault="no luxid"))
    *_, before, last = published
    assert [line.number for line in last.recent] == list(range(7, 27))
    assert last.recent[-1] == (26, NOW + SECOND // 4, 0.25, 0, 0, "no luxid")
    assert last.overview == before.overview
    assert memory(before.overview)["n2"] == [0, 1024]


def test_a_picture_that_cannot_be_drawn_hides_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> Drawn:
        raise KeyError("n1")

    monkeypatch.setattr(reporting, "drawn", broken)
    published: list[Status] = []
    observe = report(published)
    with caplog.at_level(logging.WARNING):
        observe(round_of())
    (status,) = published
    (problem,) = observe.problems
    assert problem.sentence.startswith("how full the nodes are cannot be shown: KeyError: 'n1' (")
    known: tuple[Incident, ...] = status.incidents or ()
    assert (status.overview, len(known)) == ((), 1)
    assert "how full the nodes are cannot be shown" in caplog.text


def test_the_room_is_counted_now_and_then() -> None:
    """Of many nodes it takes longer than a round; what was counted stays shown until then."""
    numbers, published = count(1), list[Status]()
    observe = report(published, lambda _: (Room("drbd", 2048, 20480, 2, next(numbers)),))
    for minutes in (0, 14, 15, 29, -60):
        observe(round_of()._replace(at=NOW + minutes * 60 * SECOND))
    observe(Round(NOW + 60 * 60 * SECOND, 0.25, fault="no luxid"))
    found = [one.fits for status in published for one in status.figures.room]
    assert found == [1, 1, 2, 2, 3, 3]


def test_room_that_cannot_be_counted_hides_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: World) -> tuple[Room, ...]:
        raise KeyError("n1")

    published: list[Status] = []
    with caplog.at_level(logging.WARNING):
        report(published, broken)(round_of())
    (status,) = published
    assert status.figures.room == ()
    assert status.overview
    assert "how many more instances fit cannot be shown" in caplog.text


@pytest.mark.parametrize(("nodes", "counted"), [(250, 1), (251, 0)])
def test_room_of_very_many_nodes_is_not_counted(nodes: int, counted: int) -> None:
    cluster = read_cluster(generate(f"--nodes={nodes}", "--fill=.9", "--request=none"))
    assert len(figures.room(WORLD._replace(cluster=cluster))) == counted


def test_how_many_instances_have_left() -> None:
    """The number of the first round in which the repair is under way is the total."""
    published = list[Status]()
    report = StatusReport(
        published.append, lambda: NOTHING, lambda: "act", lambda: (), lambda: (), NOW, room
    )
    one = incident("n1", status="pending")
    later = world(NODES, [instance("web1", "n2", "n3"), instance("web2", "n3", "n1")])
    for seen, record in ((WORLD, one), (later, one), (later, one._replace(status="completed"))):
        report(Round(NOW, 0.5, seen, Decision(), {one.uuid: record}))
    assert [status.emptied for status in published] == [
        {one.uuid: Emptied(2, 2)},
        {one.uuid: Emptied(1, 2)},
        {},
    ]
