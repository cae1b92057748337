"""A node of which nothing answers: what is noted, what is a proof, what follows."""

from __future__ import annotations

import random
from typing import Any, Final

import pytest
from asserting import some
from evacuated import SECOND, Evacuated
from worlds import NOW, changed, incident, instance, node, uuid_of, with_node, world

from ganeti_steward.allocators.jobs.operations import failover
from ganeti_steward.core.model.cluster import HYPERVISOR_FIGURES
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.model.incident import CANCELED, COMPLETED, DEAD, FAILED, NOTED, PENDING
from ganeti_steward.plugins.model.operations import out_of_band, set_role
from ganeti_steward.plugins.model.world import Observation, Refused, Reported, Silent

LIMIT: Final = 300
GONE: Final = Silent(NOW, "the connection timed out", gone=True)
DOWN: Final = (
    instance("web", "n2", "n3", status="ERROR_nodedown"),
    instance("cache", "n2", template="diskless", status="ERROR_nodedown"),
    instance("shop", "n2", template="ext", status="ERROR_nodedown"),
)
OFF: Final = [out_of_band("n2", "power-off"), out_of_band("n2", "power-status")]
ADDRESS: Final = "198.51.100.2"
PRIMARY: Final = "192.0.2.102"
OTHER: Final = "192.0.2.104"


def healthy(*linked: str, unreached: tuple[str, ...] | None = (PRIMARY,)) -> Reported:
    return Reported(b'{"status":"Ok"}', "Ok", "", NOW, linked=linked, unreached=unreached)


def dying(*instances: Any, **settings: Any) -> Evacuated:
    """``n2`` has just died; the others are healthy, and DRBD of none is connected to it."""
    nodes = [node(f"n{at}", master=at == 1, master_candidate=True) for at in range(1, 6)]
    nodes[1] = changed(nodes[1], primary_ip=PRIMARY, secondary_ip=ADDRESS)
    nodes[3] = changed(nodes[3], primary_ip=OTHER)
    seen: dict[str, Observation] = {f"n{at}": healthy() for at in (1, 3, 4, 5)}
    start = world(nodes, instances or DOWN, observations={**seen, "n2": GONE})
    cluster = Evacuated(start, dead_after=LIMIT, most_nodes=5, most_waiting=5, **settings)
    cluster.dies("n2")
    cluster.outcome = switched_off
    for one in start.cluster.instances:
        if one.template == "drbd":
            cluster.disks(one.name)
    return cluster


def switched_off(job: Job) -> list[Any]:
    if job[0]["OP_ID"] != "OP_OOB_COMMAND":
        return [None] * len(job)
    return [[[[0, "n2"], [0, None]]], [[[0, "n2"], [0, {"powered": False}]]]][: len(job)]


def observe(cluster: Evacuated, name: str, found: Observation) -> None:
    seen = {**cluster.now.observations, uuid_of(name): found}
    cluster.now = cluster.now._replace(observations=seen)


def dead(cluster: Evacuated) -> list[str]:
    """The states of its incidents about dead nodes."""
    return [one.status for one in cluster.now.incidents.values() if one.action == DEAD]


# -- what is noted


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


#: What shows that the machine runs: the agent, the machine, the node daemon.
LIFE: Final = {
    "report": healthy(),
    "refused": Refused(NOW, "the signature is wrong"),
    "machine": Silent(NOW, "connection refused"),
    "node daemon": None,
}


def lives(cluster: Evacuated, sign: str) -> None:
    found = LIFE[sign]
    if found is None:
        cluster.now = with_node(cluster.now, "n2", missing=())
    else:
        observe(cluster, "n2", found)


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


# -- what is a proof


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
        "only 1 of 4 other master candidates are known not to reach n2, which is no majority: no "
        "report of n3, n4, n5 that says so was made since it fell silent"
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
    assert "again before it was known to be off" in cluster.incident.note
    cluster.outcome = switched_off
    cluster.round()
    assert all(job[0]["OP_ID"] in ("OP_OOB_COMMAND", "OP_TAGS_SET") for job in cluster.jobs)


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
