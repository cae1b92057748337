"""A node of which nothing answers: what is noted, and which copies are started elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from dying import (
    ADDRESS,
    DOWN,
    GONE,
    LIFE,
    LIMIT,
    OTHER,
    PRIMARY,
    dead,
    dying,
    healthy,
    lives,
    observe,
)
from worlds import incident, instance

from ganeti_steward.allocators.jobs.operations import failover
from ganeti_steward.plugins.model.incident import DEAD, FAILED, NOTED


def test_it_is_noted_after_the_limit_and_names_what_is_down() -> None:
    cluster = dying()
    for _ in range(LIMIT // 30):
        cluster.round(30)
        assert dead(cluster) == []
    (sentence,) = cluster.sentences("silent")
    assert sentence == "nothing of n2 answers: after 300 s of that it is noted as dead"
    cluster.round(30)
    assert dead(cluster) == [NOTED]
    for _ in range(5):
        cluster.round(600)
    assert cluster.jobs == []
    (sentence,) = cluster.sentences("wait")
    assert (
        "3 instances are down with it: cache, shop, web; see gnt-node power status n2" in sentence
    )
    assert f"gnt-node add-tags n2 maintd:stopped:{cluster.incident.uuid}" in sentence


def test_it_is_never_noted_without_a_limit() -> None:
    cluster = dying(fence="act")
    cluster.config = cluster.config._replace(dead_after=0)
    for _ in range(5):
        cluster.round(600)
    assert (dead(cluster), cluster.jobs) == ([], [])


@pytest.mark.parametrize("sign", LIFE)
def test_what_shows_any_life_is_not_dead(sign: str) -> None:
    cluster = dying(fence="act")
    lives(cluster, sign)
    for _ in range(5):
        cluster.round(600)
    assert (dead(cluster), cluster.jobs) == ([], [])


def test_it_is_forgotten_when_a_later_report_shows_a_connection() -> None:
    cluster = dying(fence="act")
    cluster.config = cluster.config._replace(dead_after=30)
    observe(cluster, "n3", healthy(ADDRESS))
    cluster.round()
    cluster.round(60)
    assert (dead(cluster), cluster.jobs) == ([NOTED], [])
    cluster.round(200)
    assert (dead(cluster), cluster.jobs) == ([], [])


@pytest.mark.parametrize("sign", LIFE)
def test_it_is_forgotten_as_soon_as_it_shows_life(sign: str) -> None:
    cluster = dying()
    cluster.round()
    cluster.round(LIMIT)
    cluster.round()
    assert dead(cluster) == [NOTED]
    lives(cluster, sign)
    cluster.round()
    assert dead(cluster) == []


def test_several_are_not_noted() -> None:
    cluster = dying(fence="act")
    for name in ("n1", "n3", "n5"):
        observe(cluster, name, healthy(unreached=(PRIMARY, OTHER)))
    observe(cluster, "n4", GONE)
    cluster.dies("n4")
    for _ in range(5):
        cluster.round(600)
    assert (dead(cluster), cluster.jobs) == ([], [])
    assert (
        cluster.sentences("storm")
        == ["nothing of n2, n4 answers: this node or a network may be cut off"] * 2
    )


def test_one_that_drbd_is_connected_to_runs() -> None:
    cluster = dying(fence="act")
    observe(cluster, "n3", healthy("198.51.100.9", ADDRESS))
    for _ in range(5):
        cluster.round(600)
    assert (dead(cluster), cluster.jobs) == ([], [])
    (sentence,) = cluster.sentences("silent")
    assert sentence == "nothing of n2 answers, but n2 runs: DRBD is connected to it on n3"


@pytest.mark.parametrize(
    ("action", "fields", "noted"),
    [
        ("evacuate-failover", {}, False),
        ("evacuate-failover", {"status": FAILED}, False),
        ("evacuate", {}, True),
        ("live-repair", {}, True),
    ],
)
def test_what_an_incident_explains_is_not_noted_again(
    action: str, fields: dict[str, Any], noted: bool
) -> None:
    cluster = dying()
    about = incident("n2", action, **fields)
    cluster.now = cluster.now._replace(incidents={about.uuid: about})
    cluster.round()
    cluster.round(LIMIT)
    assert bool(dead(cluster)) == noted


# -- the copies


def test_only_copies_that_were_in_sync_are_started() -> None:
    both = [instance(name, "n2", "n3", status="ERROR_nodedown") for name in ("new", "old")]
    cluster = dying(*both, fence="act")
    cluster.disks("old", "disk/0 has lost its connection")
    cluster.round()
    cluster.round(LIMIT)
    found = cluster.run(seconds=1)
    assert found.status == FAILED
    moved = {job[0]["instance_name"] for job in cluster.jobs if "instance_name" in job[0]}
    assert moved == {"new"}
    ((name, reason),) = found.unmovable
    assert name == "old"
    assert "disk/0 has lost its connection" in reason


def test_the_check_of_a_node_that_was_ill_does_not_count() -> None:
    cluster = dying(DOWN[0], fence="act")
    ill = incident("n2", "evacuate")
    cluster.now = cluster.now._replace(incidents={ill.uuid: ill})
    cluster.round()
    for _ in range(4):
        cluster.round(LIMIT)
    (found,) = (one for one in cluster.now.incidents.values() if one.action == DEAD)
    assert found.status == FAILED
    assert "what was written since would be lost on n3" in found.note
    assert failover("web") not in [job[0] for job in cluster.jobs]
