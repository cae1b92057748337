"""What nodes report takes limited room in Ganeti's configuration."""

from __future__ import annotations

import json
from random import Random

import pytest
from maintained import CONFIG, OK, Maintained, diagnose
from thorough import often, seeds

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.model.finding import object_id
from ganeti_steward.core.node_agent.protocol import LONGEST_OBJECT
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.record import read_record, write_record
from ganeti_steward.plugins.maintenance.engine.decision import Recent
from ganeti_steward.plugins.model.incident import (
    COMPLETED,
    FAILED,
    NOTED,
    Incident,
)
from ganeti_steward.plugins.model.kept_object import LONGEST_KEPT, kept_of
from ganeti_steward.plugins.model.storage import failing_volumes

#: Bytes in Ganeti's configuration that ``docs/explanation/incidents.md`` states for a record
#: without instances, and for each instance.
RECORD, INSTANCE = 12_000, 2_000

PAUSING = CONFIG._replace(incident_pause=60, healthy_delay=900)


def stored(incident: Incident) -> int:
    """Bytes of a record in Ganeti's configuration, which is JSON."""
    return len(json.dumps(write_record(incident)))


# What is kept of an object


@pytest.mark.parametrize(
    "details",
    [
        "x" * 60_000,
        "\\" * 30_000,
        '"' * 30_000,
        "\N{BOMB}" * 5_000,
        "\0" * 10_000,
        [[]] * 20_000,
        {str(i): i for i in range(5_000)},
        [{"source": "s", "details": {"physical_volumes": [f"/dev/sd{i}" for i in range(4000)]}}],
        [{"source": "s", "details": {"physical_volumes": ["\\" * 20_000]}}],
        {"physical_volumes": ["/dev/sda"], "more": "x" * 50_000},
    ],
    ids=lambda found: str(found)[:20],
)
@pytest.mark.parametrize("command", ["", "c" * 4_000, "fix"])
def test_a_large_object(details: object, command: str) -> None:
    original = diagnose("live-repair", details=details, **({"command": command} if command else {}))
    kept = kept_of(original)
    assert len(json.dumps(kept.decode())) <= LONGEST_KEPT
    assert kept_of(kept) == kept
    found = json.loads(kept)
    assert found["status"] == "live-repair"
    assert found.get("command", "") == (command if len(command) < 256 else "")
    assert found["cut"]["bytes"] == len(original)
    assert canonical(details).decode().startswith(found["cut"]["beginning"].removesuffix("..."))


def test_a_small_object_is_kept_as_it_is() -> None:
    original = diagnose("live-repair", details="x" * 3000, more=[1, None])
    assert kept_of(original) == original


def test_all_failing_volumes_or_none() -> None:
    """Half of them would be half a repair."""
    few = [f"/dev/sd{letter}" for letter in "abc"]
    many = [f"/dev/disk{i}" for i in range(500)]
    for names, kept in ((few, few), (many, [])):
        object_ = diagnose("live-repair", details={"physical_volumes": names, "x": "y" * 9000})
        assert failing_volumes(kept_of(object_)) == tuple(sorted(kept))


def test_members_of_that_name_in_a_report() -> None:
    """A node may report what looks like something cut: it is an object like any other."""
    for cut in ("x", 1, None, {"beginning": 5}, {"bytes": "x"}, [1] * 40_000):
        cluster = Maintained()
        cluster.report("node2", diagnose("evacuate", cut=cut))
        cluster.round()
        assert cluster.incident("node2").action == "evacuate"


def test_it_is_known_by_its_hash() -> None:
    """The large object is the same incident, a different one with the same beginning is not."""
    cluster = Maintained()
    large = diagnose("live-repair", command="fix-nic", details="x" * 60_000)
    cluster.report("node2", large)
    cluster.run()
    incident = cluster.incident("node2")
    assert (incident.status, incident.object_id) == (COMPLETED, object_id(large))
    assert stored(incident) < RECORD
    cluster.records = {
        uuid: read_record(write_record(one)) for uuid, one in cluster.records.items()
    }
    cluster.run()
    assert (len(cluster.records), len(cluster.commands)) == (1, 1)
    cluster.report("node2", diagnose("live-repair", command="fix-nic", details="x" * 60_001))
    cluster.run()
    assert (len(cluster.records), len(cluster.commands)) == (2, 2)


def test_long_texts() -> None:
    cluster = Maintained()
    cluster.report("node2", diagnose("evacuate"))
    cluster.round()
    incident = cluster.incident("node2")
    for text in ("x" * 100_000, "\\" * 100_000, "\N{BOMB}" * 100_000):
        attempts = tuple(incident.attempt(f"inst{i}")._replace(reason=text) for i in range(10))
        large = incident._replace(
            note=text,
            jobs=tuple(range(10**9, 10**9 + 50_000)),
            unmovable=tuple((one.instance, text) for one in attempts),
            attempts=attempts,
        )
        assert stored(large) <= RECORD + len(attempts) * INSTANCE


# How many


def objects(action: str = "live-repair") -> list[bytes]:
    return [diagnose(action, command="fix-nic", details=i) for i in range(20)]


def test_so_many_incidents_of_a_node() -> None:
    cluster = Maintained()
    for one in objects():
        cluster.report("node2", one)
        cluster.run()
    assert len(cluster.records) == CONFIG.most_incidents == 4
    held = cluster.held()["incidents"]
    assert held.startswith("node node2 has 4 incidents, ")
    assert all(uuid in held for uuid in cluster.records)
    assert held.endswith(
        "of at most 4: what it reports now (live-repair) gets none before one of them is "
        "acknowledged or canceled"
    )
    assert len(cluster.commands) == 4


def test_another_node_is_not_affected() -> None:
    cluster = Maintained()
    for one in objects():
        cluster.report("node2", one)
        cluster.run()
    cluster.report("node3", objects()[0])
    cluster.run()
    assert cluster.incident("node3").status == COMPLETED


def test_what_is_more_severe_is_never_missed() -> None:
    cluster = Maintained()
    for action in ("live-repair", "evacuate", "evacuate-failover"):
        for one in objects(action):
            cluster.report("node2", one)
            cluster.run()
    found = [one.action for one in cluster.records.values()]
    assert sorted(found) == [*["evacuate", "evacuate-failover"], *["live-repair"] * 4]


def test_a_person_makes_room() -> None:
    """The oldest that was acknowledged goes, at once; it is no incident of the node any more."""
    cluster = Maintained()
    for one in objects()[:4]:
        cluster.report("node2", one)
        cluster.run()
    oldest = min(cluster.records.values(), key=lambda one: one.changed)
    cluster.untag("node2", oldest.tag)
    cluster.run()
    cluster.report("node2", objects()[4])
    decision = cluster.round()
    assert decision.removed == (oldest.uuid,)
    (folded,) = (one for one in decision.changes if one.after is None)
    assert (folded.event, folded.before and folded.before.uuid) == (
        "moved to the audit log",
        oldest.uuid,
    )
    assert len(cluster.records) == 4


def test_what_is_not_done_yet_makes_room() -> None:
    """A fault that was seen once, and that nothing was begun about, takes no room from others."""
    cluster = Maintained(config=CONFIG._replace(hold_time=300))
    for one in objects():
        cluster.report("node2", one)
        cluster.round()
        assert len(cluster.records) <= 4
        assert one in {incident.original for incident in cluster.records.values()}
    assert {one.status for one in cluster.records.values()} == {NOTED}


def test_a_failed_one_stays() -> None:
    cluster = Maintained()
    for one in objects()[:4]:
        cluster.report("node2", one)
        cluster.run()
    for uuid, one_ in cluster.records.items():
        cluster.records[uuid] = one_._replace(status=FAILED)
    cluster.report("node2", objects()[4])
    cluster.run()
    assert len(cluster.records) == 4


# How soon


def test_an_object_that_changes_all_the_time() -> None:
    """Each further incident comes later; after a restart the records count."""
    cluster = Maintained(config=PAUSING)
    opened = []
    for minute in range(24 * 60):
        cluster.report("node2", diagnose("live-repair", details=minute))
        cluster.now = START + minute * 60 * 10**9
        before = set(cluster.records)
        cluster.run(5)
        opened += [minute] * bool(set(cluster.records) - before)
        for incident in list(cluster.records.values()):
            cluster.untag("node2", incident.ready_tag)
        if minute == 100:
            sentence = cluster.held()["changing"]
            assert sentence.startswith("node node2 has reported 7 objects with live-repair within")
    assert opened[:7] == [0, 1, 3, 7, 15, 31, 63]
    assert len(opened) <= 12


def test_another_action_is_not_delayed() -> None:
    cluster = Maintained(config=PAUSING)
    for one in objects()[:3]:
        cluster.report("node2", one)
        cluster.run()
    cluster.report("node2", diagnose("evacuate"))
    cluster.round()
    assert cluster.incident("node2", "evacuate").action == "evacuate"


def test_the_same_object_again_is_not_delayed() -> None:
    """An admin who has removed the tag of a failure need not wait."""
    cluster = Maintained(config=PAUSING)
    cluster.report("node2", diagnose("evacuate"))
    for _ in range(5):
        cluster.round()
        incident = cluster.incident("node2")
        tagged = incident._replace(status=FAILED, tag=incident.failed_tag, tagged=True, open=())
        cluster.records[incident.uuid] = tagged
    assert len({one.uuid for each in cluster.decisions for one in each.records}) == 5
    ((_, (opened,)),) = cluster.recent.opened.items()
    assert opened[1] == object_id(diagnose("evacuate"))


def test_after_a_restart() -> None:
    cluster = Maintained(config=PAUSING)
    cluster.report("node2", objects()[0])
    cluster.run()
    cluster.recent = Recent()
    cluster.report("node2", objects()[1])
    cluster.round()
    assert len(cluster.records) == 1
    assert "changing" in cluster.held()


def test_no_pause() -> None:
    """Nothing grows with it either."""
    cluster = Maintained(config=CONFIG._replace(most_incidents=1))
    for minute in range(2000):
        cluster.report("node2", diagnose("live-repair", details=minute))
        cluster.round()
        for incident in list(cluster.records.values()):
            cluster.untag("node2", incident.tag)
            cluster.records[incident.uuid] = incident._replace(tagged=True)
    (times,) = cluster.recent.opened.values()
    assert len(times) == 32


# How long


def test_what_a_person_has_dealt_with_and_is_not_reported() -> None:
    cluster = Maintained(config=CONFIG._replace(fold_after=86400))
    cluster.report("node2", objects()[0])
    cluster.run()
    cluster.wait(90_000)
    cluster.run()
    assert len(cluster.records) == 1, "it was not acknowledged"
    cluster.untag("node2", cluster.incident("node2").tag)
    cluster.run()
    cluster.wait(90_000)
    cluster.run()
    assert len(cluster.records) == 1, "it is still reported: it would begin again"
    cluster.silence("node2")
    decision = cluster.round()
    assert [one.event for one in decision.changes] == ["moved to the audit log"]
    assert cluster.records == {}


# All together


@pytest.mark.parametrize("seed", seeds(3, 300))
def test_hostile_nodes_for_days(seed: int) -> None:
    """Whatever nodes report and people do, all records together have the stated bound."""
    random = Random(seed)
    config = Maintd(mode="act", storm_share=1, most_nodes=4, hold_time=random.choice([0, 300]))
    cluster = Maintained(nodes=4, instances=0, config=config)
    most = 4 * (config.most_incidents + 2) * RECORD
    largest = 0
    for _ in range(often(400, 4000)):
        for node in ("node1", "node2", "node3", "node4"):
            _hostile(cluster, node, random)
        _person(cluster, random)
        cluster.run(random.randrange(1, 4))
        cluster.records = {
            uuid: read_record(write_record(one)) for uuid, one in cluster.records.items()
        }
        cluster.wait(random.choice([10, 60, 600, 3600]))
        largest = max(largest, sum(map(stored, cluster.records.values())))
    assert 4 * LONGEST_KEPT < largest <= most
    assert len(cluster.commands) <= 4 * 12 * (cluster.now - START) / (86400 * 10**9) + 4 * 12


START = Maintained().now


def _hostile(cluster: Maintained, node: str, random: Random) -> None:
    """It reports anything of the largest size, its own old objects, or nothing."""
    kind = random.randrange(10)
    if kind == 0:
        cluster.silence(node)
    elif kind == 1:
        cluster.report(node, OK)
    elif kind < 8:
        filling = random.choice(["x", "\\", '"', "\N{BOMB}", "\0"])
        room = (LONGEST_OBJECT - 200) // len(canonical(filling))
        details = str(random.random()) + filling * room
        action = random.choice(["live-repair"] * 5 + ["evacuate", "evacuate-failover"])
        more = {"command": "fix-nic"} if action == "live-repair" else {}
        cluster.report(node, diagnose(action, details=details, **more))


def _person(cluster: Maintained, random: Random) -> None:
    """Incidents are acknowledged or canceled now and then, or their records deleted."""
    for uuid, incident in list(cluster.records.items()):
        kind, node = random.randrange(60), incident.node_name
        if kind == 0:
            cluster.untag(node, incident.tag)
        elif kind == 1:
            cluster.tag(node, incident.cancel_tag)
        elif kind == 2:
            del cluster.records[uuid]
