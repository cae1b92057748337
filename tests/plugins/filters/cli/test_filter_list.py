"""``gnt-steward filter list`` and ``info``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from records import recorded
from worlds import incident

from ganeti_steward.plugins.texts import local_time

if TYPE_CHECKING:
    from ruled import Call, Ruled

A, B, C = (f"{letter * 8}-0000-4000-8000-000000000000" for letter in "abc")
INCIDENT = incident("node1.lab")


@pytest.fixture(autouse=True)
def _rules(cluster: Ruled) -> None:
    """In another order than jobs meet them, with one that cannot be read."""
    cluster.put("dddddddd-0000-4000-8000-000000000000", action="EXPLODE")
    cluster.put(B, priority=3, action=["RATE_LIMIT", 4], predicates=[["jobid", None]])
    cluster.put(C, priority=3, reason_trail=[["gnt:user", "bunny", 1767787800 * 10**9]])
    cluster.put(A, priority=3, watermark=7)
    record = recorded(INCIDENT)
    trail = [list(one) for one in record.reasons]
    cluster.put(record.uuid, priority=0, action="CONTINUE", reason_trail=trail)


def test_list_is_in_the_order_of_jobs(call: Call) -> None:
    done = call("list", "--no-headers", "--separator", "|")
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"{INCIDENT.uuid}|0|0|[]|CONTINUE|incident node1.lab",
        f'{B}|0|3|[["jobid", null]]|RATE_LIMIT 4|-',
        f"{C}|0|3|[]|PAUSE|-",
        f"{A}|7|3|[]|PAUSE|-",
        "dddddddd-0000-4000-8000-000000000000|?|?|?|?|unreadable: action: ACCEPT, PAUSE, "
        "REJECT, CONTINUE or RATE_LIMIT with a number from 1 is expected, found the text 'EXPLODE'",
    ]


def test_list_has_headings(call: Call) -> None:
    first = call("list").out.splitlines()[0]
    assert first.split() == ["UUID", "Watermark", "Priority", "Predicates", "Action", "Purpose"]


def test_list_of_some(call: Call) -> None:
    done = call("list", A, B, "-o", "uuid", "--no-headers")
    assert done.out.split() == [B, A]


def test_list_fields(call: Call) -> None:
    done = call("list", C, "-o", "priority,reason_trail", "--no-headers")
    assert done.out == '3 [["gnt:user", "bunny", 1767787800000000000]]\n'
    assert "unknown field 'x'" in call("list", "-o", "x").err


def test_list_as_data(call: Call) -> None:
    rows = {row["uuid"]: row for row in json.loads(call("list", "--json").out)}
    assert len(rows) == 5
    assert rows[B] == {
        "uuid": B,
        "watermark": 0,
        "priority": 3,
        "predicates": [["jobid", None]],
        "action": ["RATE_LIMIT", 4],
        "reason_trail": [],
        "purpose": "",
    }


@pytest.mark.parametrize("what", ["list", "info"])
def test_an_unknown_uuid_is_one_sentence(call: Call, what: str) -> None:
    done = call(what, A, "nothing")
    assert (done.status, done.out) == (1, "")
    assert done.err == "gnt-steward filter: no filter rule has the uuid 'nothing'\n"


def test_info(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    done = call("info", B, C)
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[:6] == [
        f"UUID: {B}",
        "  Watermark: 0",
        "  Priority: 3",
        "  Predicates:",
        '    ["jobid", null]',
        "  Action: RATE_LIMIT 4",
    ]
    assert "  Predicates: none, the rule matches every job\n" in done.out
    assert done.out.endswith(" gnt:user: bunny\n")


def test_info_of_all(call: Call) -> None:
    text = call("info").out
    assert [line for line in text.splitlines() if line.startswith("UUID: ")] == [
        f"UUID: {uuid}" for uuid in (INCIDENT.uuid, B, C, A, "dddddddd-0000-4000-8000-000000000000")
    ]
    assert f"  Purpose: filter rule {INCIDENT.uuid} is the record of incident" in text
    assert "of node1.lab: without it the maintenance daemon" in text
    assert "  Unreadable: action: ACCEPT, PAUSE," in text
    # The record is not printed in full.
    assert max(map(len, text.splitlines())) < 400


@pytest.mark.parametrize("at", [2**63, 2**64, 10**40])
def test_times_beyond_64_bits(call: Call, cluster: Ruled, at: int) -> None:
    """A user of RAPI can write any number."""
    cluster.put(A, priority=3, watermark=7, reason_trail=[["gnt:user", "late", at]])
    done = call("list", A, "--json")
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out)[0]["reason_trail"] == [["gnt:user", "late", at]]
    assert call("info", A).out.endswith(f"{local_time(at)} gnt:user: late\n")
