"""What people say while a round goes on: it is read again before tasks are handed over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fake_parts import A, B, Fakes, deciding, fault, starting, two_incidents
from worlds import instance, node, with_instance, with_node, world

from ganeti_steward.plugins.maintenance.daemon.words import against_routine, read_words
from ganeti_steward.plugins.maintenance.engine.decision import RoutineStarted
from ganeti_steward.plugins.model.operations import start
from ganeti_steward.plugins.model.task import Task
from ganeti_steward.plugins.model.world import World


@pytest.fixture
def fakes() -> Iterator[Fakes]:
    with two_incidents() as fakes:
        yield fakes


def tagged(name: str, tag: str) -> Any:
    """The tags are read again, and a node has one more."""
    return lambda world: with_node(world, name, tags=(tag,))


def paused(world: World) -> World:
    cluster = world.cluster
    tags = ("maintd:pause:works",)
    made = type(cluster)(cluster.groups, cluster.nodes, cluster.instances, tags)
    return world._replace(cluster=made)


@pytest.mark.parametrize(
    ("words", "brake", "sentence"),
    [
        (tagged(A.node_name, A.cancel_tag), "canceled", f"tag {A.cancel_tag} was set"),
        (
            tagged(A.node_name, "maintd:off"),
            "opt-out",
            f"node {A.node_name} has the tag maintd:off",
        ),
    ],
)
def test_tags_of_a_node_withdraw_its_task(
    fakes: Fakes, words: Any, brake: str, sentence: str
) -> None:
    """It was recorded, so its record is written again without it; others are handed over."""
    outcome = deciding(fakes, starting(A, B)).rounds(read_words=words).round()
    assert fakes.done("submit") == [("submit", (B.uuid,))]
    assert fakes.done("write") == [("write", A.uuid), ("write", B.uuid), ("write", A.uuid)]
    assert fakes.stored[A.uuid].open == ()
    (held,) = outcome.held
    assert (held.subject, held.brake) == (A.uuid, brake)
    assert held.sentence.startswith(sentence)


def test_a_pause_holds_everything(fakes: Fakes) -> None:
    outcome = deciding(fakes, starting(A, B)).rounds(read_words=paused).round()
    assert fakes.done("submit") == []
    assert [(one.subject, one.brake) for one in outcome.held] == [
        (A.uuid, "pause"),
        (B.uuid, "pause"),
    ]


def test_words_that_cannot_be_read_hold_everything(fakes: Fakes) -> None:
    def fails(world: World) -> World:
        raise fault("luxid is not running")

    outcome = deciding(fakes, starting(A)).rounds(read_words=fails).round()
    assert fakes.done("submit") == []
    assert fakes.stored[A.uuid].open == ()
    assert "cannot be read again: luxid is not running" in outcome.held[0].sentence


def test_they_are_read_after_the_vote_and_only_with_something_to_do(fakes: Fakes) -> None:
    def read(world: World) -> World:
        fakes.note("words")
        return world

    deciding(fakes, starting(A)).rounds(read_words=read).round()
    assert [what for what, _ in fakes.done("vote", "words", "submit")] == [
        "vote",
        "vote",
        "words",
        "submit",
    ]
    fakes.calls.clear()
    fakes.rounds(read_words=read).round()
    assert fakes.done("words") == []


def test_routine_work_is_withheld_too() -> None:
    made = world([node("n1"), node("n2")], [instance("a", "n1", "n2")])
    work = Task("start", frozenset({"n1", "n2"}), frozenset({"a"}), "start a", [[start("a")]])
    started = RoutineStarted("site", "1", work)
    assert against_routine(made, started) == []
    for now in (
        with_node(made, "n2", tags=("maintd:off",)),
        with_instance(made, "a", tags=("maintd:off",)),
        paused(made),
    ):
        (held,) = against_routine(now, started)
        assert held.subject == "site cluster"


class Client:
    """luxid, with other tags than before."""

    def info(self) -> dict[str, Any]:
        return {"tags": ["maintd:pause:x"]}

    def rows(self, what: str, fields: tuple[str, ...], /) -> list[dict[str, Any]]:
        assert fields == ("name", "tags")
        return [{"name": {"node": "n1", "instance": "a"}.get(what, "g1"), "tags": [what]}]


def test_all_tags_are_read() -> None:
    """What is gone keeps those that it had."""
    made = with_node(
        world([node("n1"), node("n2")], [instance("a", "n1", "n2")]), "n2", tags=("x",)
    )
    now = read_words(Client(), made)
    assert now.cluster_tags == {"maintd:pause:x"}
    assert {one.name: one.tags for one in now.cluster.nodes} == {"n1": ("node",), "n2": ("x",)}
    assert now.instances["a"].tags == ("instance",)
    assert now.cluster.instances[0].nodes == made.cluster.instances[0].nodes
