"""The brakes by scenarios: what holds an incident back, and when it goes on."""

from __future__ import annotations

from typing import Any

import pytest
from maintained import CONFIG, EVACUATE, OK, REPAIR, WORSE, Maintained, evacuating
from worlds import group

from ganeti_steward.plugins.maintenance.config import OBSERVE
from ganeti_steward.plugins.maintenance.engine.reservations import passing_nodes
from ganeti_steward.plugins.model.incident import COMPLETED, FAILED, NOTED, PENDING


@pytest.mark.parametrize(
    ("config", "brake", "sentence"),
    [
        ({"mode": OBSERVE}, "observe", "the mode is observe, it would: drain"),
        ({"hold_time": 300}, "hold", "reported for 0 s of the hold time of 300 s"),
        (
            {"windows": ("Sun 00:00-00:01",)},
            "window",
            "Tue 22:13 is in none of the maintenance windows: Sun 00:00-00:01",
        ),
    ],
)
def test_a_brake_of_the_configuration(config: dict[str, object], brake: str, sentence: str) -> None:
    cluster = evacuating(CONFIG._replace(**config))
    assert cluster.held() == {brake: sentence}
    assert (cluster.queue, cluster.incident("node2").status) == ({}, NOTED)


def test_the_hold_time_passes() -> None:
    cluster = evacuating(CONFIG._replace(hold_time=300))
    cluster.wait(299)
    cluster.round()
    assert cluster.incident("node2").status == PENDING


def test_the_hold_time_starts_again_after_another_report() -> None:
    cluster = evacuating(CONFIG._replace(hold_time=300))
    cluster.wait(200)
    cluster.report("node2", OK)
    cluster.round()
    cluster.report("node2", EVACUATE)
    cluster.wait(200)
    cluster.round()
    assert "hold" in cluster.held()
    cluster.wait(301)
    cluster.round()
    assert cluster.incident("node2").status == PENDING


def test_nothing_begins_while_the_node_reports_something_else() -> None:
    """The hold time alone passes; any report is not the report of the incident."""
    cluster = evacuating(CONFIG._replace(hold_time=300))
    cluster.wait(200)
    cluster.report("node2", OK)
    cluster.round()
    cluster.wait(150)
    cluster.round()
    sentence = "node node2 reports Ok now; its incident is forgotten in 449 s"
    assert cluster.held() == {"not-reported": sentence}
    assert (cluster.queue, cluster.incident("node2").status) == ({}, NOTED)


def test_the_word_that_a_silent_node_is_off_lets_its_incident_begin() -> None:
    cluster = evacuating(CONFIG._replace(hold_time=300))
    uuid = cluster.incident("node2").uuid
    cluster.silence("node2")
    cluster.wait(301)
    cluster.tag("node2", "maintd:stopped:other")
    cluster.round()
    assert "silent" in cluster.held()
    cluster.untag("node2", "maintd:stopped:other")
    cluster.tag("node2", f"maintd:stopped:{uuid}")
    cluster.round()
    assert (cluster.held(), cluster.incident("node2").status) == ({}, PENDING)


def test_no_command_is_begun_on_a_node_that_is_off() -> None:
    cluster = Maintained(config=CONFIG._replace(hold_time=300))
    cluster.report("node2", REPAIR)
    cluster.round()
    cluster.silence("node2")
    cluster.wait(301)
    cluster.tag("node2", f"maintd:stopped:{cluster.incident('node2').uuid}")
    cluster.round()
    assert "silent" in cluster.held()


def test_the_word_that_a_node_is_off_counts_for_nothing_where_it_reports() -> None:
    cluster = evacuating(CONFIG._replace(hold_time=300))
    cluster.tag("node2", f"maintd:stopped:{cluster.incident('node2').uuid}")
    cluster.wait(301)
    cluster.report("node2", OK)
    cluster.round()
    sentence = "node node2 reports Ok now; its incident is forgotten in 600 s"
    assert cluster.held() == {"not-reported": sentence}


def test_pause_with_its_reason() -> None:
    cluster = Maintained()
    cluster.cluster_tags.add("maintd:pause:power-works")
    cluster.report("node2", EVACUATE)
    cluster.round()
    assert cluster.held() == {"pause": "maintenance is paused: power works"}
    cluster.cluster_tags.clear()
    cluster.run()
    assert cluster.incident("node2").status == COMPLETED


def test_opt_out_of_a_node() -> None:
    cluster = Maintained()
    cluster.tag("node2", "maintd:off")
    cluster.report("node2", EVACUATE)
    cluster.round()
    assert cluster.held() == {"opt-out": "node node2 has the tag maintd:off"}


def test_the_master_is_not_drained_but_repaired() -> None:
    cluster = evacuating(node="node1")
    assert set(cluster.held()) == {"master"}
    cluster.report("node1", REPAIR)
    cluster.round()
    assert not cluster.commands, "the evacuation comes first"
    cluster.tag("node1", cluster.incident("node1", "evacuate").cancel_tag)
    cluster.run()
    assert cluster.incident("node1", "live-repair").status == COMPLETED


def test_most_nodes_at_once() -> None:
    cluster = Maintained()
    cluster.report("node2", EVACUATE)
    cluster.round()
    cluster.report("node3", WORSE)
    cluster.round()
    assert cluster.held()["most-nodes"] == "1 of at most 1 nodes are under repair: node2"
    cluster.run()
    assert {one.status for one in cluster.records.values()} == {COMPLETED}


def test_a_storm_stops_everything() -> None:
    cluster = evacuating(CONFIG._replace(storm_share=0.4, most_nodes=4))
    cluster.end(1)
    cluster.report("node3", EVACUATE)
    cluster.round()
    assert (
        cluster.held()["storm"]
        == "2 of 4 nodes in service report a fault, more than the share of 0.4"
    )
    assert len(cluster.queue) == 1
    cluster.report("node3", OK)
    cluster.run()
    assert cluster.incident("node2").status == COMPLETED


def test_a_storm_does_not_end_because_nodes_fall_silent() -> None:
    cluster = evacuating(CONFIG._replace(storm_share=0.4, most_nodes=4))
    cluster.end(1)
    cluster.report("node3", EVACUATE)
    cluster.round()
    cluster.silence("node3")
    cluster.round()
    assert (
        cluster.held()["storm"]
        == "2 of 4 nodes in service report a fault (1 of them before they fell silent), more than "
        "the share of 0.4"
    )
    assert len(cluster.queue) == 1


def test_one_ill_node_is_never_a_storm() -> None:
    cluster = evacuating(CONFIG._replace(storm_share=0))
    assert cluster.incident("node2").status == PENDING


def test_master_candidates() -> None:
    cluster = Maintained()
    for node in ("node2", "node3"):
        cluster.change(node, master_candidate=True)
    cluster.change("node3", offline=True, master_candidate=False)
    cluster.change("node4", drained=True)
    cluster.report("node2", EVACUATE)
    cluster.round()
    assert cluster.incident("node2").status == NOTED
    assert set(cluster.held()) == {"candidate-pool"}, "the master would be the only one"
    cluster.change("node4", drained=False)
    assert cluster.round().started, "node4 is promoted"
    again = Maintained()
    again.change("node2", master_candidate=True)
    again.report("node2", EVACUATE)
    decision = again.round()
    assert decision.started, "the others are promoted"


def test_every_brake_is_reported() -> None:
    config = CONFIG._replace(mode=OBSERVE, hold_time=300, windows=("Sun 00:00-00:01",))
    cluster = Maintained(config=config)
    cluster.cluster_tags.add("maintd:pause:")
    cluster.tag("node1", "maintd:off")
    cluster.report("node1", EVACUATE)
    cluster.round()
    assert set(cluster.held()) == {"observe", "hold", "window", "pause", "opt-out", "master"}


def test_a_stuck_incident_raises_an_alarm() -> None:
    cluster = evacuating(CONFIG._replace(stuck_after=3600))
    cluster.start(1)
    cluster.wait(3600)
    cluster.round()
    assert "nothing has started or ended for 3601 s" in cluster.held()["stuck"]


@pytest.mark.parametrize("original", [EVACUATE, OK])
def test_a_report_that_was_not_renewed_is_silence(original: bytes) -> None:
    """Polling has stopped: neither a fault nor health is concluded from what was seen last."""
    cluster = evacuating(CONFIG._replace(hold_time=2000))
    cluster.report("node2", original)
    cluster.round()
    cluster.polling = False
    cluster.wait(2000)
    cluster.round()
    assert (cluster.incident("node2").status, cluster.queue) == (NOTED, {})
    # The greatest age at a poll, then one poll that is missed, and the time it may take.
    assert "s old, more than 1030 s" in cluster.held()["silent"]
    cluster.polling = True
    cluster.round()
    assert "silent" not in cluster.held()


@pytest.mark.parametrize("now", [OK, EVACUATE, None])
def test_a_record_alone_has_no_command_run(now: bytes | None) -> None:
    """Everybody who may write job filters could forge one that is under way."""
    cluster = Maintained(config=CONFIG._replace(mode=OBSERVE))
    cluster.report("node2", REPAIR)
    cluster.round()
    (uuid, record), *_ = cluster.records.items()
    forged = record._replace(status=PENDING, first_seen=1, observed_since=1)
    cluster.records[uuid] = forged
    cluster.config = CONFIG
    if now is None:
        cluster.silence("node2")
    else:
        cluster.report("node2", now)
    cluster.round()
    assert not cluster.commands
    if now != EVACUATE:
        assert "node2 does not report now what requests the command" in str(cluster.held())
    cluster.report("node2", REPAIR)
    cluster.run()
    assert (now == EVACUATE) or cluster.commands


def test_a_node_whose_report_is_over_is_avoided_for_a_short_time_only() -> None:
    cluster = Maintained(config=CONFIG._replace(mode=OBSERVE, hold_time=300))
    cluster.report("node2", EVACUATE)
    cluster.round()
    assert passing_nodes(cluster.world(), cluster.config) == {"node2"}
    cluster.wait(400)
    cluster.round()
    assert passing_nodes(cluster.world(), cluster.config) == frozenset()
    cluster.report("node2", OK)
    cluster.round()
    assert passing_nodes(cluster.world(), cluster.config) == {"node2"}


# What waits for a person


def six(**config: Any) -> Maintained:
    """Six nodes without instances, with the default settings for storms and waiting nodes."""
    defaults = {"storm_share": 0.2, "most_waiting": 2, **config}
    cluster = Maintained(nodes=6, instances=0, config=CONFIG._replace(**defaults))
    for number in range(1, 7):
        cluster.report(f"node{number}", OK)
    return cluster


def out(cluster: Maintained) -> list[str]:
    """Names of the nodes that are out of service."""
    return sorted(one.name for one in cluster.nodes.values() if one.offline or one.drained)


@pytest.mark.parametrize("silent", [True, False])
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_no_node_after_the_other_goes_out_of_service(limit: int, silent: bool) -> None:
    # Nodes that fell silent count for a storm.
    cluster = six(most_waiting=limit, **({"storm_share": 1} if silent else {}))
    for number in range(2, 7):
        cluster.report(f"node{number}", EVACUATE)
        cluster.run()
        if silent:
            cluster.silence(f"node{number}")
        cluster.wait(3600)
    assert out(cluster) == [f"node{number}" for number in range(2, 2 + limit)]
    late = [one for one in cluster.records.values() if one.status == NOTED]
    assert len(late) == 5 - limit
    if silent:
        cluster.report("node6", EVACUATE)
        cluster.round()
        sentence = cluster.held()["most-waiting"]
        assert sentence.startswith(f"{limit} of at most {limit} nodes are out of service")
        first = cluster.incident("node2")
        assert f"node2 (completed, incident {first.uuid})" in sentence
        cluster.untag("node2", first.tag)
        cluster.run()
        assert "node6" in out(cluster), "an acknowledgement lets the next one begin"


def test_nodes_that_are_evacuated_at_the_moment_count() -> None:
    cluster = six(most_nodes=5, storm_share=1)
    for number in range(2, 7):
        cluster.report(f"node{number}", EVACUATE)
    assert len(cluster.round().started) == 2
    cluster.run()
    assert len(out(cluster)) == 2


def test_a_live_repair_takes_no_node_out_of_service() -> None:
    cluster = six(most_waiting=1)
    cluster.report("node2", EVACUATE)
    cluster.run()
    cluster.report("node3", REPAIR)
    cluster.run()
    assert cluster.incident("node3").status == COMPLETED


def test_a_failed_evacuation_counts_as_well() -> None:
    cluster = six(most_waiting=1)
    cluster.report("node2", EVACUATE)
    cluster.round()
    cluster.end(1)
    cluster.round()
    cluster.end(2, "no")
    cluster.round()
    assert cluster.incident("node2").status == FAILED
    cluster.run()
    cluster.report("node3", EVACUATE)
    cluster.run()
    assert out(cluster) == ["node2"]
    assert "node2 (failed, incident" in cluster.held()["most-waiting"]


@pytest.mark.parametrize("role", ["offline", "drained"])
@pytest.mark.parametrize("after", ["", "ack", "off", "canceled"])
def test_nodes_that_wait_for_parts_are_no_storm(role: str, after: str) -> None:
    cluster = six()
    cluster.report("node2", EVACUATE)
    cluster.run()
    first = cluster.incident("node2")
    cluster.change("node2", drained=role == "drained", offline=role == "offline")
    if after == "ack":
        cluster.untag("node2", first.tag)
    elif after == "off":
        cluster.tag("node2", "maintd:off")
    elif after == "canceled":
        cluster.tag("node2", first.cancel_tag)
    cluster.run()
    cluster.report("node3", EVACUATE)
    cluster.run()
    assert (cluster.incident("node3").status, cluster.held()) == (COMPLETED, {})


@pytest.mark.parametrize("excluded", ["tag", "group", "offline", "acknowledged in service"])
def test_nodes_a_person_knows_of_are_no_storm(excluded: str) -> None:
    cluster = six()
    for name in ("node4", "node5"):
        if excluded == "tag":
            cluster.tag(name, "maintd:off")
        elif excluded == "group":
            cluster.groups["other"] = group("other", "other", ["maintd:off"])
            cluster.change(name, group="other")
        elif excluded == "offline":
            cluster.change(name, offline=True)
        else:
            cluster.config = cluster.config._replace(storm_share=1)
        cluster.report(name, REPAIR)
        cluster.run()
        if excluded.startswith("ack"):
            cluster.untag(name, cluster.incident(name).tag)
            cluster.run()
    cluster.config = cluster.config._replace(storm_share=0.2)
    cluster.report("node3", EVACUATE)
    cluster.run()
    assert cluster.incident("node3").status == COMPLETED


def test_new_faults_are_a_storm_beside_old_ones() -> None:
    """Those known already make the share of the others no smaller."""
    cluster = six(most_nodes=6)
    cluster.report("node2", EVACUATE)
    cluster.run()
    for name in ("node3", "node4"):
        cluster.report(name, EVACUATE)
    cluster.round()
    assert "2 of 5 nodes in service report a fault" in cluster.held()["storm"]
