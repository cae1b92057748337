"""``gnt-steward filter explain``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from queued import Queued
from standin import StandIn

if TYPE_CHECKING:
    import clusters
    from front import Front
    from ruled import Call

A, B, C = (f"{letter * 8}-0000-4000-8000-000000000000" for letter in "abc")


@pytest.fixture
def cluster(nodes: clusters.Message) -> Queued:
    return Queued(StandIn(nodes))


def predicate(name: str) -> list[Any]:
    return [["opcode", ["=", "OP_ID", name]]]


def test_a_waiting_job(call: Call, cluster: Queued) -> None:
    cluster.put(A, priority=1, predicates=predicate("OP_TAGS_SET"))
    cluster.put(B, priority=2, predicates=predicate("OP_TEST_DELAY"), action=["RATE_LIMIT", 1])
    cluster.put(C, priority=3)
    cluster.job(4, "OP_TEST_DELAY", "running")
    cluster.job(5, "OP_TEST_DELAY")
    done = call("explain", "5")
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [
        "Job 5 (TEST_DELAY), queued",
        f"  Rule {A}, priority 1, PAUSE: does not match",
        '    predicates[0][1]: ["=", "OP_ID", "OP_TAGS_SET"] is not true of opcode 1 '
        '(OP_TEST_DELAY): OP_ID is "OP_TEST_DELAY"',
        f"  Rule {B}, priority 2, RATE_LIMIT 1: matches and applies",
        "    predicates[0]: true of opcode 1 (OP_TEST_DELAY)",
        f"  Rule {C}, priority 3, PAUSE: matches, but an earlier rule applies",
        f"  Result: applies: {B}; rule {B} (RATE_LIMIT 1) allows 1 job at a time: 4 (running)",
    ]


def test_data(call: Call, cluster: Queued) -> None:
    cluster.put(A, predicates=[["reason", ["=~", "reason", "x"]]])
    cluster.job(5, "OP_TEST_DELAY")
    data = json.loads(call("explain", "5", "--json").out)
    assert data["applying"] is None
    assert data["outcome"] == "it starts in the next pass of the scheduler"
    (rule,) = data["rules"]
    assert (rule["uuid"], rule["action"], rule["matched"]) == (A, "PAUSE", False)
    assert rule["causes"][0]["part"] == ["=~", "reason", "x"]


def test_the_dialect(call: Call, cluster: Queued) -> None:
    cluster.put(A, predicates=[["reason", ["=~", "source", "gnt:"]]])
    cluster.job(5, "OP_TEST_DELAY")
    assert "no rule applies" in call("explain", "5").out
    assert f"applies: {A}" in call("explain", "5", "--dialect", "design").out


def test_the_limit_of_the_cluster(call: Call, cluster: Queued) -> None:
    for number in (1, 2, 3):
        cluster.job(number, "OP_TEST_DELAY", "running")
    cluster.job(4, "OP_TEST_DELAY")
    assert "the cluster runs 3 jobs at a time: 1 (running), 2 (" in call("explain", "4").out
    assert "it starts in the next" in call("explain", "4", "--max-running", "4").out


def test_a_finished_job(call: Call, cluster: Queued) -> None:
    cluster.job(3, "OP_TEST_DELAY", "success")
    assert "it has ended (success)" in call("explain", "3").out


def test_what_cannot_be_read_is_left_out(call: Call, cluster: Queued) -> None:
    cluster.put(A, action="EXPLODE")
    cluster.put(B, predicates=[["opcode", ["=~", "OP_ID", 7]]])
    cluster.job(3, "OP_TEST_DELAY")
    cluster.job(4, "OP_TEST_DELAY")
    cluster.standin.queue.rows[4]["ops"] = None
    done = call("explain", "3")
    assert (done.status, "no rule applies" in done.out) == (0, True)
    assert f"Note: rule {A} is left out: action: ACCEPT, PAUSE," in done.err
    assert f"Note: rule {B} is left out: predicates[0][1][2]: a regular" in done.err
    assert "Note: left out: job 4, key 'ops': a list of opcodes is expected" in done.err


def test_an_expression_that_only_luxid_takes(call: Call, cluster: Queued) -> None:
    """It is unknown whether such a rule matches, except where another part of it is false."""
    odd = ["=~", "OP_ID", "\\8"]
    cluster.put(A, priority=1, predicates=[["opcode", odd], ["jobid", [">", "id", 3]]])
    cluster.job(3, "OP_TEST_DELAY")
    cluster.job(4, "OP_TEST_DELAY")
    assert "Result: no rule applies" in call("explain", "3").out
    done = call("explain", "4")
    assert (done.status, done.err) == (0, "")
    assert f"Result: may apply: {A}; it is unknown whether rule {A}" in done.out
    assert "is faulty: reference to non-existent subpattern" in done.out


def test_an_unknown_job(call: Call, cluster: Queued) -> None:
    done = call("explain", "9")
    assert (done.status, done.out) == (1, "")
    assert done.err == "gnt-steward filter: there is no job 9\n"


def test_files(front: Front, tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text(json.dumps([{"id": 7, "ops": [{"OP_ID": "OP_TAGS_SET"}]}]))
    (tmp_path / "rules").write_text(json.dumps([{"action": "PAUSE"}]))
    files = ("--jobs", str(tmp_path / "jobs"), "--rules", str(tmp_path / "rules"))
    done = front("filter", "explain", "7", *files)
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[-1] == (
        "  Result: applies: entry 1; rule entry 1 (PAUSE) holds it until the rule is replaced or "
        "deleted"
    )
    assert front("filter", "explain", "7", *files, "--max-running", "0").status == 1
    (tmp_path / "rules").write_text('[{"action": "x"}]')
    done = front("filter", "explain", "7", *files)
    assert (done.status, done.out) == (1, "")
    assert f"{tmp_path}/rules: rule entry 1: action: ACCEPT, PAUSE," in done.err
    (tmp_path / "rules").write_text("[]")
    (tmp_path / "jobs").write_text("[7]")
    done = front("filter", "explain", "7", *files)
    assert f"{tmp_path}/jobs: entry 1: a job is expected" in done.err
