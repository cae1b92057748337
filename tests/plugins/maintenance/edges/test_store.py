"""Records as filter rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from daemons import luxid
from records import members, put, signed_members, signing_store

from ganeti_steward.core.errors import RefusedByGaneti, StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.model.finding import EVACUATE, LIVE_REPAIR
from ganeti_steward.plugins.filters.chain import Chain
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.rule_notes import RECORD_SOURCE
from ganeti_steward.plugins.maintenance.edges.judge import RecordFault
from ganeti_steward.plugins.maintenance.edges.store import rules_of
from ganeti_steward.plugins.model.incident import (
    COMPLETED,
    FAILED,
    PENDING,
    Incident,
    Submission,
)

if TYPE_CHECKING:
    from standin import StandIn

NODE = "aaaaaaaa-1111-2222-3333-444444444444"


def incident(number: int = 1, **more: Any) -> Incident:
    uuid = f"0f0f0f0f-1111-2222-3333-{number:012}"
    made = Incident(uuid, NODE, "node2.lab", b'{"status":"evacuate"}', EVACUATE)
    return made._replace(**more)


FIRST, SECOND = incident(1), incident(2, note="é\n", open=(Submission("s", "move", (), (), 5),))


def test_records_round_trip(luxi: Luxi) -> None:
    store = signing_store(luxi)
    assert store.read_all() == ({}, (), ())
    store.write(FIRST)
    store.write(SECOND)
    assert store.read_all() == ({FIRST.uuid: FIRST, SECOND.uuid: SECOND}, (), ())
    changed = FIRST._replace(status=FAILED, jobs=(7, 8))
    store.write(changed)
    store.remove(SECOND.uuid)
    store.remove(SECOND.uuid)
    assert store.read_all() == ({FIRST.uuid: changed}, (), ())


def test_the_rule_has_no_effect(stand_in: StandIn, luxi: Luxi) -> None:
    signing_store(luxi, clock=lambda: 77).write(FIRST)
    (rule,) = stand_in.filters.values()
    assert rule["uuid"] == FIRST.uuid
    assert rule["action"] == "CONTINUE"
    assert rule["predicates"] == [["jobid", ["<", "id", 0]]]
    source, text, at = rule["reason_trail"][0]
    assert (source, at) == (RECORD_SOURCE, 77)
    assert json.loads(text)["original"] == {"status": "evacuate"}
    assert [*json.loads(text)][-1] == "hmac"
    assert json.loads(text)["version"] == 1


def test_rules_of_others_are_ignored(luxi: Luxi) -> None:
    luxi.call("ReplaceFilter", None, 0, [], ["RATE_LIMIT", 3], [["gnt:user", "mine", 5]])
    luxi.call("ReplaceFilter", None, 0, [], "PAUSE", [])
    store = signing_store(luxi)
    store.write(FIRST)
    assert store.read_all() == ({FIRST.uuid: FIRST}, (), ())


def test_a_signed_record_that_is_not_understood_holds_its_node(
    stand_in: StandIn, luxi: Luxi
) -> None:
    """It is that of a newer version, and stands for something."""
    store = signing_store(luxi)
    store.write(FIRST)
    store.write(SECOND)
    newer = signed_members({**members(SECOND), "version": 3, "brand_new": 1})
    put(stand_in, SECOND.uuid, newer)
    found, faults, notes = signing_store(luxi).read_all()
    assert (found, notes) == ({FIRST.uuid: FIRST}, ())
    sentence = (
        f"filter rule {SECOND.uuid} is the record of an incident, but not understood: the record "
        "has version 3; this program reads version 1 only"
    )
    assert faults == (RecordFault(SECOND.uuid, NODE, sentence),)


def test_a_write_is_repeated_while_luxid_does_not_answer(tmp_path: Path) -> None:
    """It may have been done; written twice it is the same."""
    row = [[0, FIRST.uuid], [0, 0]]
    answers = iter([{"data": []}, None, None, FIRST.uuid, {"data": [row]}])
    with luxid(tmp_path, lambda method, arguments: next(answers)) as daemon:
        signing_store(Luxi(daemon.path), clock=lambda: 1).write(FIRST)
    assert [one["method"] for one in daemon.requests] == [
        "Query",
        *["ReplaceFilter"] * 3,
        "Query",
    ]
    assert daemon.requests[1] == daemon.requests[3]


@pytest.mark.parametrize(("refused", "calls"), [(True, 2), (False, 4)])
def test_a_write_that_fails(tmp_path: Path, refused: bool, calls: int) -> None:
    answer = b'{"success":false,"result":"no"}\x03' if refused else None
    with (
        luxid(tmp_path, lambda method, arguments: answer) as daemon,
        pytest.raises(StewardError) as caught,
    ):
        signing_store(Luxi(daemon.path)).write(FIRST)
    assert isinstance(caught.value, RefusedByGaneti) == refused
    assert len(daemon.requests) == calls


def test_creations_are_held_while_a_node_is_evacuated(stand_in: StandIn, luxi: Luxi) -> None:
    """Two rules for each incident, gone with its repair; those of others are not touched."""
    luxi.call("ReplaceFilter", None, 0, [], "PAUSE", [["gnt:user", "mine", 5]])
    store = signing_store(luxi, holds_creations=lambda: True)
    store.write(FIRST)
    assert len(stand_in.filters) == 2
    store.write(FIRST._replace(status=PENDING))
    store.write(SECOND._replace(status=PENDING, node_name="node3.lab"))
    held = [rule["predicates"][0][1] for rule in stand_in.filters.values() if rule["predicates"]]
    named = sorted((one[2][2], one[2][1]) for one in held if one[0] == "&")
    assert named == [(f"node{n}.lab", field) for n in (2, 3) for field in ("pnode", "snode")]
    # A daemon that is started again knows them.
    store = signing_store(luxi, holds_creations=lambda: True)
    store.read_all()
    store.write(FIRST._replace(status=COMPLETED))
    assert len(stand_in.filters) == 5
    store.remove(SECOND.uuid)
    store.remove(FIRST.uuid)
    assert [rule["action"] for rule in stand_in.filters.values()] == ["PAUSE"]


def test_what_holds_creations_never_outlives_its_record(stand_in: StandIn, luxi: Luxi) -> None:
    """luxid stops deleting after any number of rules; later the rest is removed, too."""
    store, delete = signing_store(luxi, holds_creations=lambda: True), luxi.delete_filter
    with pytest.MonkeyPatch.context() as patch:
        for deleted in range(3):
            left = [delete] * deleted
            store.write(FIRST._replace(status=PENDING))
            assert len(stand_in.filters) == 3
            patch.setattr(luxi, "delete_filter", lambda uuid, left=left: _next(left, uuid))
            with pytest.raises(StewardError):
                store.remove(FIRST.uuid)
            assert len(stand_in.filters) == 3 - deleted
            assert FIRST.uuid in stand_in.filters
    store.remove(FIRST.uuid)
    assert stand_in.filters == {}


def _next(left: list[Callable[[str], None]], uuid: str) -> None:
    if not left:
        raise StewardError("luxid does not answer")
    left.pop()(uuid)


def actions(stand_in: StandIn) -> list[str]:
    return sorted(rule["action"] for rule in stand_in.filters.values())


def test_rules_that_hold_creations_do_not_outlive_their_incident(
    stand_in: StandIn, luxi: Luxi
) -> None:
    """Also where others have deleted its record, or one of the rules."""
    pending = FIRST._replace(status=PENDING)
    signing_store(luxi, holds_creations=lambda: True).write(pending)
    store = signing_store(luxi, holds_creations=lambda: True)
    luxi.delete_filter(pending.uuid)
    store.reconcile(store.read_all().incidents)
    assert actions(stand_in) == []
    store.write(pending)
    luxi.delete_filter(next(u for u, r in stand_in.filters.items() if r["action"] == "PAUSE"))
    assert actions(stand_in) == ["CONTINUE", "PAUSE"]
    store.reconcile(store.read_all().incidents)
    assert actions(stand_in) == ["CONTINUE", "PAUSE", "PAUSE"]


@pytest.mark.parametrize(
    "change",
    [
        {"predicates": []},
        {"predicates": [["opcode", ["=", "OP_ID", "OP_INSTANCE_MIGRATE"]]]},
        {"action": "REJECT"},
        {"action": ["RATE_LIMIT", 1]},
        {"priority": 0},
        {"reason_trail": []},
        {"reason_trail": [["maintd:held-creations", "another incident", 1]]},
        {"action": "MAGIC"},
    ],
    ids=str,
)
def test_rules_that_hold_creations_are_written_back(
    stand_in: StandIn, luxi: Luxi, change: dict[str, Any]
) -> None:
    """Where others have changed one of them; a daemon that begins then does the same."""
    pending = FIRST._replace(status=PENDING)
    store = signing_store(luxi, holds_creations=lambda: True)
    store.write(pending)
    right = {uuid: dict(row) for uuid, row in stand_in.filters.items()}
    for daemon in (store, signing_store(luxi, holds_creations=lambda: True)):
        altered = next(row for row in stand_in.filters.values() if row["action"] == "PAUSE")
        altered.update(change)
        daemon.reconcile(daemon.read_all(rewrite=True).incidents)
        assert stand_in.filters.keys() == right.keys()
        for uuid, row in right.items():
            now = stand_in.filters[uuid]
            assert [now[key] for key in _EFFECT] == [row[key] for key in _EFFECT]
            assert now["reason_trail"][0][:2] == row["reason_trail"][0][:2]


_EFFECT = ("action", "predicates", "priority")


def test_rules_that_hold_creations_follow_the_configuration(stand_in: StandIn, luxi: Luxi) -> None:
    holds = [True]
    store = signing_store(luxi, holds_creations=lambda: holds[0])
    store.write(FIRST._replace(status=PENDING))
    for wanted, found in ((False, ["CONTINUE"]), (True, ["CONTINUE", "PAUSE", "PAUSE"])):
        holds[0] = wanted
        store.reconcile(store.read_all().incidents)
        assert actions(stand_in) == found


def test_nothing_is_written_where_all_is_as_it_should_be(stand_in: StandIn, luxi: Luxi) -> None:
    store = signing_store(luxi, holds_creations=lambda: True)
    store.write(FIRST._replace(status=PENDING))
    before = dict(stand_in.filters)
    store.reconcile(store.read_all().incidents)
    assert stand_in.filters == before


def test_rules_of_an_unreadable_record_stay(stand_in: StandIn, luxi: Luxi) -> None:
    signing_store(luxi, holds_creations=lambda: True).write(FIRST._replace(status=PENDING))
    put(stand_in, FIRST.uuid, signed_members({**members(FIRST), "version": 3}))
    store = signing_store(luxi, holds_creations=lambda: True)
    records = store.read_all()
    assert records.incidents == {}
    store.reconcile(records.incidents)
    assert actions(stand_in) == ["CONTINUE", "PAUSE", "PAUSE"]


def test_creations_are_not_held_by_default(stand_in: StandIn, luxi: Luxi) -> None:
    signing_store(luxi).write(FIRST._replace(status=PENDING))
    assert [*stand_in.filters] == [FIRST.uuid]


def test_a_held_creation_and_others() -> None:
    """As luxid evaluates the rules; only creations that name the node wait."""
    chain = Chain(rules_of(FIRST._replace(status=PENDING), 5))

    def held(**parameters: str) -> bool:
        return (
            chain.applying(Job(1, opcodes=({"OP_ID": "OP_INSTANCE_CREATE", **parameters},)))
            is not None
        )

    assert held(pnode="node2.lab")
    assert held(pnode="node1.lab", snode="node2.lab")
    assert not held(pnode="node1.lab", snode="node3.lab")
    assert not held(iallocator="steward")
    assert not chain.applying(
        Job(1, opcodes=({"OP_ID": "OP_INSTANCE_MIGRATE", "pnode": "node2.lab"},))
    )
    assert rules_of(FIRST._replace(status=PENDING, action=LIVE_REPAIR), 5) == ()
