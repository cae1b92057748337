"""When a node of which nothing answers is switched off: the proof, the witnesses, a person."""

from __future__ import annotations

import random
from typing import Final

import pytest
from asserting import some
from dying import (
    ADDRESS,
    DOWN,
    GONE,
    LIFE,
    LIMIT,
    OFF,
    dead,
    dying,
    healthy,
    lives,
    observe,
    switched_off,
)
from evacuated import SECOND
from worlds import NOW, incident, uuid_of, with_node

from ganeti_steward.allocators.jobs.operations import failover
from ganeti_steward.core.model.cluster import HYPERVISOR_FIGURES
from ganeti_steward.plugins.model.incident import CANCELED, COMPLETED, DEAD, FAILED, NOTED, PENDING
from ganeti_steward.plugins.model.operations import set_role
from ganeti_steward.plugins.model.world import Observation, Refused, Reported, Silent


def test_it_is_switched_off_and_everything_comes_back() -> None:
    cluster = dying(fence="act")
    cluster.round()
    cluster.round(LIMIT)
    assert cluster.jobs == []  # it is noted first
    assert cluster.run(seconds=1).status == COMPLETED
    assert cluster.jobs[:2] == [OFF, [set_role("n2", "offline")]]
    names = [job[0]["instance_name"] for job in cluster.jobs[2:5]]
    assert sorted(names) == ["cache", "shop", "web"]
    assert failover("web") in [job[0] for job in cluster.jobs]
    assert [job[0]["OP_ID"] for job in cluster.jobs[5:]] == ["OP_INSTANCE_REPLACE_DISKS"]


def test_the_word_of_an_admin() -> None:
    cluster = dying()
    cluster.round()
    cluster.round(LIMIT)
    cluster.node("n2", tags=frozenset({cluster.incident.stopped_tag}))
    assert cluster.run(seconds=1).status == COMPLETED
    assert cluster.jobs[0] == [set_role("n2", "offline")]


def test_no_more_nodes_are_switched_off_than_may_be_out_of_service() -> None:
    cluster = dying(fence="act")
    cluster.config = cluster.config._replace(most_waiting=1)
    ended = incident("n4", status=COMPLETED, demoted=("n4",), tagged=True)
    tags = frozenset({ended.ready_tag})
    cluster.now = cluster.now._replace(incidents={ended.uuid: ended})
    cluster.now = with_node(cluster.now, "n4", offline=True, tags=tags)
    cluster.round()
    for _ in range(3):
        cluster.round(LIMIT)
    assert (dead(cluster), cluster.jobs) == ([NOTED], [])
    assert "1 of at most 1 nodes are out of service" in cluster.sentences("most-waiting")[0]


def test_nothing_is_done_before_a_new_daemon_has_polled_it() -> None:
    cluster = dying(fence="act")
    cluster.round()
    cluster.round(LIMIT)
    cluster.node("n2", tags=frozenset({cluster.incident.stopped_tag}))
    seen = {**cluster.now.observations}
    del seen[uuid_of("n2")]
    cluster.now = cluster.now._replace(observations=seen)
    for _ in range(3):
        cluster.round()
    assert (dead(cluster), cluster.jobs) == ([NOTED], [])
    (sentence,) = cluster.sentences("silent")
    assert sentence == "whether n2 answers is not known: it was not polled since the start"
    observe(cluster, "n2", GONE)
    assert cluster.run(seconds=1).status == COMPLETED


@pytest.mark.parametrize(
    "peer",
    [
        Reported(b'{"status":"Ok"}', "Ok", "", NOW),
        Silent(NOW, "connection refused"),
        Refused(NOW, "too old"),
    ],
)
def test_nothing_is_switched_off_while_a_peer_may_be_connected(peer: Observation) -> None:
    cluster = dying(fence="act")
    observe(cluster, "n3", peer)
    cluster.round()
    for _ in range(5):
        cluster.round(LIMIT)
    assert (dead(cluster), cluster.jobs) == ([NOTED], [])
    assert "whether DRBD is connected to n2 on n3 is not known" in cluster.sentences("silent")[-1]
    observe(cluster, "n3", healthy())
    cluster.round()
    assert cluster.jobs == [OFF]


def test_a_report_from_before_the_peer_has_noticed_does_not_count() -> None:
    """The clock of the peer may be 150 s ahead."""
    cluster = dying(fence="act")
    cluster.config = cluster.config._replace(dead_after=30)
    cluster.round()
    for _ in range(20):
        cluster.round(10)
    assert (dead(cluster), cluster.jobs) == ([NOTED], [])
    cluster.round(10)
    cluster.round(10)
    assert cluster.jobs[0] == OFF


#: What a candidate reports of n2: its machine does not answer, it does, it did not look.
_UNSEEN: Final = healthy()
_SEEN: Final = healthy(unreached=("192.0.2.109",))
_UNKNOWN: Final = healthy(unreached=None)


@pytest.mark.parametrize(
    ("candidates", "offs"),
    [
        # Without n2: the master has seen its silence itself.
        ({}, True),
        ({"n4": _UNKNOWN}, True),
        ({"n3": _UNKNOWN, "n4": _UNKNOWN}, False),
        ({"n3": _UNKNOWN, "n4": _UNKNOWN, "n5": _UNKNOWN}, False),
        ({"n3": _UNKNOWN, "n4": Silent(NOW, "refused"), "n5": Refused(NOW, "old")}, False),
        ({"n5": _SEEN}, False),
        ({"n1": _SEEN}, True),
    ],
)
def test_a_majority_of_the_candidates_has_to_miss_it(
    candidates: dict[str, Observation], offs: bool
) -> None:
    cluster = dying(DOWN[1], fence="act")
    cluster.round()
    for name, found in candidates.items():
        observe(cluster, name, found)
    for _ in range(4):
        cluster.round(LIMIT)
    assert (OFF in cluster.jobs) == offs


def test_candidates_that_are_out_of_service_have_no_vote() -> None:
    cluster = dying(DOWN[1], fence="act")
    for name in ("n3", "n4", "n5"):
        observe(cluster, name, _UNKNOWN)
    cluster.round()
    for _ in range(3):
        cluster.round(LIMIT)
    (sentence,) = cluster.sentences("silent")
    assert sentence.startswith(
        "only 1 of 4 other master candidates report that they do not reach n2: there is no report "
        "about it from n3, n4, n5 since it fell silent"
    )
    cluster.now = with_node(cluster.now, "n3", offline=True)
    cluster.now = with_node(cluster.now, "n4", master_candidate=False)
    observe(cluster, "n5", _UNSEEN)
    cluster.round()
    assert cluster.jobs == [OFF]


def test_one_that_another_candidate_reaches_is_not_noted() -> None:
    cluster = dying(fence="act")
    observe(cluster, "n5", _SEEN)
    for _ in range(5):
        cluster.round(600)
    assert (dead(cluster), cluster.jobs) == ([], [])
    (sentence,) = cluster.sentences("silent")
    assert sentence == "nothing of n2 answers, but n2 runs: its machine answers n5"


def test_a_person_permits_it() -> None:
    cluster = dying(fence="confirm")
    cluster.round()
    for _ in range(3):
        cluster.round(LIMIT)
    assert (dead(cluster), cluster.jobs) == ([NOTED], [])
    (sentence,) = cluster.sentences("fence")
    uuid = cluster.incident.uuid
    assert sentence.startswith(f"gnt-steward incident fence {uuid} permits it, or a person does it")
    cluster.node("n2", tags=frozenset({f"maintd:fence:{uuid_of('n2')}"}))
    cluster.round()
    assert cluster.jobs == []
    cluster.node("n2", tags=frozenset({f"maintd:fence:{uuid}"}))
    assert cluster.run(seconds=1).status == COMPLETED
    assert cluster.jobs[0] == OFF


def test_what_a_person_permits_needs_the_same_proof() -> None:
    cluster = dying(fence="confirm")
    cluster.round()
    cluster.round(LIMIT)
    cluster.node("n2", tags=frozenset({cluster.incident.fence_tag}))
    observe(cluster, "n4", GONE)
    cluster.dies("n4")
    for _ in range(3):
        cluster.round(LIMIT)
    assert (dead(cluster), cluster.jobs) == ([NOTED], [])


@pytest.mark.parametrize("status", [FAILED, COMPLETED, CANCELED])
@pytest.mark.parametrize("sign", ["", *LIFE])
def test_it_is_noted_again_only_if_it_answered_since_the_last_time(status: str, sign: str) -> None:
    tagged = status != CANCELED
    before = incident("n2", DEAD, status=status, tagged=tagged)
    cluster = dying()
    cluster.config = cluster.config._replace(healthy_delay=10**5)
    cluster.now = cluster.now._replace(incidents={before.uuid: before})
    cluster.now = with_node(cluster.now, "n2", tags=frozenset({before.tag} if tagged else ()))
    cluster.round()
    if sign:
        lives(cluster, sign)
        cluster.round()
        observe(cluster, "n2", GONE)
        cluster.dies("n2")
    for _ in range(3):
        cluster.round(LIMIT)
    assert dead(cluster).count(NOTED) == bool(sign)


def test_another_one_falls_silent_before_it_is_switched_off() -> None:
    cluster = dying(fence="act")
    cluster.round()
    cluster.round(LIMIT)
    observe(cluster, "n4", GONE)
    cluster.dies("n4")
    for _ in range(5):
        cluster.round(10)
    assert (dead(cluster), cluster.jobs) == ([NOTED], [])
    assert "n4 answers nothing either" in " ".join(cluster.sentences("storm"))


@pytest.mark.parametrize("sign", LIFE)
def test_it_answers_again_after_the_repair_was_begun(sign: str) -> None:
    cluster = dying(fence="act")
    cluster.outcome = lambda job: "the controller does not answer"
    cluster.round()
    cluster.round(LIMIT)
    cluster.round()
    assert (dead(cluster), cluster.jobs) == ([PENDING], [OFF])
    lives(cluster, sign)
    cluster.round()
    assert cluster.incident.status == FAILED
    assert "again before it was marked offline" in cluster.incident.note
    cluster.outcome = switched_off
    cluster.round()
    assert all(job[0]["OP_ID"] in ("OP_OOB_COMMAND", "OP_TAGS_SET") for job in cluster.jobs)


@pytest.mark.parametrize("sign", LIFE)
@pytest.mark.parametrize("healthy_delay", [0, 600])
def test_it_answers_again_after_it_was_switched_off(healthy_delay: int, sign: str) -> None:
    """Also where it has answered for the healthy delay: it is not forgotten."""
    cluster = dying(fence="act", healthy_delay=healthy_delay)
    cluster.round()
    cluster.round(LIMIT)
    cluster.round()
    assert (dead(cluster), cluster.jobs) == ([PENDING], [OFF])
    lives(cluster, sign)
    cluster.round()
    assert cluster.incident.status == FAILED
    assert "again before it was marked offline" in cluster.incident.note
    cluster.round()
    assert "OP_NODE_SET_PARAMS" not in str(cluster.jobs)


# -- whatever comes


@pytest.mark.parametrize("seed", range(40))
def test_only_uninterrupted_silence_of_one_node_has_it_switched_off(seed: int) -> None:
    """In any order of what is seen of it, of a peer and of another node."""
    rng = random.Random(seed)
    cluster, since, off = dying(fence="act"), NOW, 0
    for _ in some(range(60)):
        cluster.now = with_node(cluster.now, "n2", missing=HYPERVISOR_FIGURES)
        observe(cluster, "n2", GONE)
        observe(cluster, "n4", healthy())
        cluster.now = with_node(cluster.now, "n4", missing=())
        linked = rng.random() < 0.1
        observe(cluster, "n3", healthy(ADDRESS) if linked else healthy())
        reached = rng.random() < 0.1
        observe(cluster, "n5", _SEEN if reached else _UNSEEN)
        sign = rng.choice([*LIFE]) if rng.random() < 0.1 else ""
        if sign:
            lives(cluster, sign)
        other = rng.random() < 0.1
        if other:
            observe(cluster, "n4", GONE)
            cluster.dies("n4")
        before = len(cluster.jobs)
        cluster.round(rng.choice([10, 60]))
        now = cluster.now.now
        since = now if sign else since
        if OFF in cluster.jobs[before:]:
            off += 1
            assert (sign, linked, reached, other) == ("", False, False, False)
            assert now - since >= (LIMIT - 60) * SECOND
            break
    assert off <= 1
