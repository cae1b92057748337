"""``gnt-steward filter add``, ``replace`` and ``delete``."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from daemons import rapi
from records import recorded
from worlds import incident

if TYPE_CHECKING:
    from front import Front
    from ruled import Call, Ruled

A, B = (f"{letter * 8}-0000-4000-8000-000000000000" for letter in "ab")
DELAYS: list[Any] = [["opcode", ["=", "OP_ID", "OP_TEST_DELAY"]]]
INCIDENT = incident("node1.lab")


def put_incident(cluster: Ruled) -> None:
    rule = recorded(INCIDENT)
    trail = [list(one) for one in rule.reasons]
    cluster.put(rule.uuid, priority=1000, action="CONTINUE", reason_trail=trail)


def test_add(call: Call, cluster: Ruled) -> None:
    before = time.time_ns()
    done = call(
        "add",
        "--priority=5",
        f"--predicates={json.dumps(DELAYS)}",
        "--action=RATE_LIMIT 3",
        "--reason=pink bunny",
    )
    (rule,) = cluster.rules
    assert (done.status, done.out, done.err) == (0, f"{rule['uuid']}\n", "")
    assert (rule["priority"], rule["predicates"]) == (5, DELAYS)
    assert rule["action"] == ["RATE_LIMIT", 3]
    (source, text, at), (luxid, _, _) = rule["reason_trail"]
    assert (source, text, luxid) == ("gnt:user", "pink bunny", "luxid")
    assert before <= at <= time.time_ns()


MISSPELT: list[Any] = [["opcode", ["=", "OP_ID", "OP_INSTANCE_CREAT"]]]


def test_add_refuses_a_rule_that_lint_finds_an_error_in(call: Call, cluster: Ruled) -> None:
    words = ("add", "--action=REJECT", f"--predicates={json.dumps(MISSPELT)}")
    done = call(*words)
    assert (done.status, done.out, cluster.rules) == (1, "", [])
    assert "predicates[0][1]: no opcode of Ganeti 3 has the name 'OP_INSTANCE_CREAT'" in done.err
    assert done.err.endswith("; --force adds it nevertheless\n")
    done = call(*words, "--force")
    assert (done.status, done.err) == (0, "")
    assert [rule["predicates"] for rule in cluster.rules] == [MISSPELT]


def test_add_notes_what_lint_warns_of(call: Call, cluster: Ruled) -> None:
    done = call("add", "--action=PAUSE", '--predicates=[["reason",["!=","reason","x"]]]')
    (rule,) = cluster.rules
    assert (done.status, done.out) == (0, f"{rule['uuid']}\n")
    assert done.err.startswith("Note: predicates[0][1]: every job satisfies the expression: luxid")


def test_add_has_the_defaults_of_ganeti(call: Call, cluster: Ruled) -> None:
    call("add")
    (rule,) = cluster.rules
    assert (rule["priority"], rule["predicates"], rule["action"]) == (0, [], "CONTINUE")
    assert len(rule["reason_trail"]) == 1


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--priority=-1", "priority: a whole number from 0 is expected, found the text '-1'"),
        ("--priority=1.5", "priority: a whole number"),
        ("--priority=", "priority: a whole number from 0 is expected, found the text ''"),
        ("--action=pause", "action: ACCEPT, PAUSE, REJECT, CONTINUE or RATE_LIMIT with"),
        ("--action=RATE_LIMIT", "a number from 1 is expected, found the text 'RATE_LIMIT'"),
        ("--action=RATE_LIMIT 0", "found [\"RATE_LIMIT\", 0]"),
        ("--action=RATE_LIMIT 1.5", "found the text 'RATE_LIMIT 1.5'"),
        ("--predicates=[", "predicates: not JSON: "),
        ("--predicates={}", "predicates: a list is expected, found an object"),
        (f"--predicates={'[' * 150}{']' * 150}", "predicates[0]"),
        (f"--predicates={'[' * 300}{']' * 300}", "predicates: more than 200 levels are too many"),
        (f"--predicates={'[' * 9000}", "predicates: more than 200 levels are too many"),
        (
            '--predicates=[["opcode", ["&", ["=~", "OP_ID", "x"], ["=", "pnode"]]]]',
            "predicates[0][1][2]: operator '=' takes a field and a value, not 1 parts",
        ),
        (
            '--predicates=[["reason", ["=", "reason", "J\u00fcrgen"]]]',
            "predicates: '\\xfc' is not ASCII",
        ),
        ("--predicates=[[\"reason\", [\"=\", \"reason\", \"\\u20ac\"]]]", "'\\u20ac' is not ASCII"),
        ("--reason=J\u00fcrgen", "reason: '\\xfc' is not ASCII, and Ganeti's daemons can stop"),
    ],
    ids=lambda text: text[:30],
)  # fmt: skip
@pytest.mark.parametrize("what", [["add"], ["replace", A]], ids=lambda words: words[0])
def test_nothing_faulty_is_sent(
    call: Call, cluster: Ruled, what: list[str], option: str, message: str
) -> None:
    done = call(*what, option)
    assert (done.status, done.out, cluster.rules) == (1, "", [])
    assert done.err.startswith("gnt-steward filter: ")
    assert message in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(("depth", "status"), [(198, 0), (199, 1), (490, 1)])
def test_a_rule_is_not_written_that_cannot_be_read(
    call: Call, cluster: Ruled, depth: int, status: int
) -> None:
    deep = '["!", ' * depth + "null" + "]" * depth
    done = call("add", f'--predicates=[["opcode", {deep}]]')
    assert (done.status, len(cluster.rules)) == (status, 1 - status)
    assert ("more than 200 levels" in done.err) == bool(status)
    assert call("list", "--no-headers", "-o", "purpose").out == "-\n" * (1 - status)


def test_all_faults_are_named_at_once(call: Call, cluster: Ruled) -> None:
    done = call("replace", "x", "--priority=x", "--predicates={}", "--action=x", "--reason=\u00fc")
    assert (done.status, cluster.rules) == (1, [])
    places = ["uuid", "priority", "predicates", "reason", "action"]
    faults = done.err.removeprefix("gnt-steward filter: ").split("; ")
    assert [fault.partition(":")[0] for fault in faults] == places


@pytest.mark.parametrize("uuid", [A.upper(), "x", A + "\n", A.replace("-", "")])
def test_a_new_uuid_is_checked(call: Call, cluster: Ruled, uuid: str) -> None:
    done = call("replace", uuid)
    assert (done.status, cluster.rules) == (1, [])
    assert "is not a uuid in lower case, which Ganeti requires" in done.err


def test_replace_creates(call: Call, cluster: Ruled) -> None:
    done = call("replace", A, "--action=REJECT")
    assert done.out == f"{A}\n"
    (rule,) = cluster.rules
    assert (rule["uuid"], rule["action"], rule["predicates"]) == (A, "REJECT", [])


def test_replace_changes_what_is_given_only(call: Call, cluster: Ruled) -> None:
    trail = [["gnt:user", "bunny", 1], ["luxid", "", 2]]
    cluster.put(A, priority=4, predicates=DELAYS, action=["RATE_LIMIT", 2], reason_trail=trail)
    cluster.standin.queue.last = 9
    assert call("replace", A, "--priority=7").status == 0
    (rule,) = cluster.rules
    assert (rule["priority"], rule["predicates"]) == (7, DELAYS)
    assert (rule["action"], rule["watermark"]) == (["RATE_LIMIT", 2], 9)
    assert [one[:2] for one in rule["reason_trail"]] == [["gnt:user", "bunny"], ["luxid", ""]]
    call("replace", A, "--action=PAUSE", "--reason=pony", "--predicates=[]")
    (rule,) = cluster.rules
    assert (rule["priority"], rule["predicates"], rule["action"]) == (7, [], "PAUSE")
    assert [one[1] for one in rule["reason_trail"]] == ["pony", ""]


def test_delete(call: Call, cluster: Ruled) -> None:
    cluster.put(A)
    cluster.put(B)
    done = call("delete", A)
    assert (done.status, done.out, done.err) == (0, "", "")
    assert [rule["uuid"] for rule in cluster.rules] == [B]


def test_an_unknown_rule_is_not_deleted_nor_any_other(call: Call, cluster: Ruled) -> None:
    cluster.put(A)
    done = call("delete", A, B)
    assert (done.status, len(cluster.rules)) == (1, 1)
    assert done.err == f"gnt-steward filter: no filter rule has the uuid '{B}'\n"


@pytest.mark.parametrize("what", ["delete", "replace"])
def test_records_of_incidents_are_protected(call: Call, cluster: Ruled, what: str) -> None:
    put_incident(cluster)
    done = call(what, INCIDENT.uuid)
    assert done.status == 1
    assert done.err == (
        f"gnt-steward filter: filter rule {INCIDENT.uuid} is the record of incident "
        f"{INCIDENT.uuid} of node1.lab: without it the maintenance daemon does not know the "
        "incident; --force changes it nevertheless\n"
    )
    (rule,) = cluster.rules
    assert rule["reason_trail"][-1][0] == "maintd:incident"


def test_force(call: Call, cluster: Ruled) -> None:
    put_incident(cluster)
    assert call("replace", INCIDENT.uuid, "--force", "--priority=1").status == 0
    assert cluster.rules[0]["priority"] == 1
    assert cluster.rules[0]["reason_trail"][0][0] == "maintd:incident"
    assert call("delete", INCIDENT.uuid, "--force").status == 0
    assert cluster.rules == []


@pytest.mark.parametrize("what", ["delete", "replace"])
def test_what_cannot_be_read_is_protected(call: Call, cluster: Ruled, what: str) -> None:
    cluster.put(A, action="EXPLODE")
    done = call(what, A)
    assert (done.status, cluster.rules[0]["action"]) == (1, "EXPLODE")
    assert f"filter rule {A} cannot be read (action: ACCEPT, PAUSE," in done.err
    assert call(what, A, "--force").status == 0
    assert [rule["action"] for rule in cluster.rules] == ["CONTINUE"] * (what == "replace")


def test_a_rule_of_the_daemon_is_protected(call: Call, cluster: Ruled) -> None:
    cluster.put(A, reason_trail=[["maintd:drain", "node1.lab", 0]])
    assert "is used by the maintenance daemon: 'node1.lab'; --force" in call("delete", A).err
    assert call("list", "-o", "purpose", "--no-headers").out == "maintd node1.lab\n"


def test_a_refusal_is_one_sentence(call: Call, cluster: Ruled) -> None:
    cluster.put(A)
    cluster.refused = {"ReplaceFilter": "it is full", "DeleteFilter": "it is locked"}
    assert "it is full" in call("add").err
    assert "it is locked" in call("delete", A).err
    assert [rule["uuid"] for rule in cluster.rules] == [A]


def test_a_rule_that_vanishes_meanwhile_is_deleted(
    call: Call, cluster: Ruled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other admins delete rules, too."""
    cluster.put(A)
    delete = cluster.standin.delete_filter
    twice = {"DeleteFilter": lambda uuid: [delete(uuid), delete(uuid)]}
    monkeypatch.setattr(cluster.standin, "methods", cluster.standin.methods | twice)
    assert call("delete", A).status == 0
    assert cluster.rules == []


def test_files_have_no_rules(front: Front, tmp_path: Any) -> None:
    done = front("filter", "add", "--text-data", str(tmp_path / "x"))
    assert done.status == 2
    assert "unrecognized arguments: --text-data" in done.err


def test_rapi_without_write_access(front: Front, cluster: Ruled) -> None:
    cluster.put(A)

    def answer(method: str, path: str) -> tuple[int, Any]:
        return (200, cluster.rules) if method == "GET" else (403, {"code": 403})

    with rapi(answer) as daemon:
        options = ("--rapi", daemon.host, "--rapi-insecure")
        for words in (["add"], ["replace", A], ["delete", A], ["recipe", "drain", "x", "--submit"]):
            done = front("filter", *words, *options)
            assert (done.status, done.out) == (1, "")
            assert "may not do that (no write access in" in done.err
