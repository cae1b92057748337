"""``gnt-steward filter lint``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from records import recorded
from worlds import incident

if TYPE_CHECKING:
    from front import Front
    from ruled import Call, Ruled

A, B = (f"{letter * 8}-0000-4000-8000-000000000000" for letter in "ab")
NEVER: list[Any] = [["reason", ["=~", "reason", "bunny"]]]
DELAYS: list[Any] = [["opcode", ["=", "OP_ID", "OP_TEST_DELAY"]]]


def test_rules_of_the_cluster(call: Call, cluster: Ruled) -> None:
    cluster.put(A, predicates=NEVER)
    cluster.put(B, action="EXPLODE")
    done = call("lint", "--no-headers", "--separator", "|")
    assert (done.status, done.err) == (1, "")
    first, second = done.out.splitlines()
    assert first.startswith(f"error|{A}|never|predicates[0][1]|luxid never finds '=~' true")
    assert second.startswith(f"error|{B}|invalid|-|action: ACCEPT, PAUSE, REJECT, CONTINUE or")


def test_nothing_is_printed_without_findings(call: Call, cluster: Ruled) -> None:
    record = recorded(incident("node1.lab"))
    trail = [list(one) for one in record.reasons]
    cluster.put(record.uuid, priority=0, action="CONTINUE", reason_trail=trail)
    cluster.put(A, predicates=DELAYS)
    done = call("lint")
    assert (done.status, done.out, done.err) == (0, "", "")
    assert json.loads(call("lint", "--json").out) == []


def test_notes_do_not_change_the_exit_status(call: Call, cluster: Ruled) -> None:
    cluster.put(A)
    done = call("lint", "-o", "level,check", "--no-headers")
    assert (done.status, done.out) == (0, "note always\nnote daemon\n")


def lint_file(front: Front, path: Path, content: Any, *options: str) -> Any:
    file = path / "rules.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return front("filter", "lint", str(file), *options)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (7, "a rule is expected, found the number 7"),
        ({"uuid": A.upper()}, "is not a uuid in lower case"),
        ({"action": "pause"}, "a number from 1 is expected, found the text 'pause'"),
        ({"action": "RATE_LIMIT 3"}, "found the text 'RATE_LIMIT 3'"),
        ({"action": ["RATE_LIMIT", 0]}, 'found ["RATE_LIMIT", 0]'),
        ({"action": ["RATE_LIMIT", 1.5]}, 'found ["RATE_LIMIT", 1.5]'),
        ({"action": ["RATE_LIMIT", "3"]}, 'found ["RATE_LIMIT", "3"]'),
        ({"priority": -1}, "priority: a whole number from 0"),
        ({"priority": None}, "priority: a whole number from 0"),
        ({"priority": 1.5}, "priority: a whole number from 0 is expected, found the number 1.5"),
        ({"predicates": {}}, "predicates: a list is expected"),
        ({"predicates": [["user", None]]}, "the name of a predicate is jobid, opcode or reason"),
        ({"predicates": [["opcode", ["=*", "x", "y"]]]}, "'=*' is not an operator"),
        ({"predicates": [["opcode", ["=", "x", "\u20ac"]]]}, "is not ASCII"),
        ({"colour": "pink"}, "there is no key 'colour'; uuid, watermark, priority"),
        ({"reason": "x"}, "the reason trail is not a list of sources"),
        ({"uuid": A, "purpose": "unreadable: a fault"}, "a fault"),
    ],
    ids=str,
)  # fmt: skip
def test_what_luxid_would_refuse(front: Front, tmp_path: Path, rule: Any, text: str) -> None:
    done = lint_file(front, tmp_path, [rule], "--json")
    assert done.status == 1
    findings = json.loads(done.out)
    assert {one["check"] for one in findings} == {"invalid"}
    assert any(text in one["text"] for one in findings)


def test_what_luxid_takes(front: Front, tmp_path: Path) -> None:
    twice = [{"uuid": A}, {"uuid": A}]
    found = json.loads(lint_file(front, tmp_path, twice, "--json").out)
    assert [one["text"] for one in found] == ["two rules have this uuid"]
    rules = [
        {"action": ["RATE_LIMIT", 3.0], "priority": 1.0, "predicates": DELAYS},
        {"uuid": A, "action": "ACCEPT", "predicates": DELAYS, "priority": 9, "watermark": 7},
    ]
    done = lint_file(front, tmp_path, rules, "-o", "uuid,check", "--no-headers")
    assert (done.status, done.out) == (1, f"{A} shadowed\n")


@pytest.mark.parametrize("content", ["{}", "[", "[" * 9000, "7"])
def test_files_without_rules(front: Front, tmp_path: Path, content: str) -> None:
    done = lint_file(front, tmp_path, content)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith(f"gnt-steward filter: {tmp_path}/rules.json: ")
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("depth", [150, 300, 480])
def test_deep_expressions(front: Front, tmp_path: Path, depth: int) -> None:
    expression = '["!", ' * depth + '["=", "repeat", 0]' + "]" * depth
    done = lint_file(front, tmp_path, f'[{{"predicates": [["opcode", {expression}]]}}]', "--json")
    deep = any("more than 200 levels" in one["text"] for one in json.loads(done.out))
    assert (deep, done.err) == (depth > 200, "")


def test_a_missing_file(front: Front, tmp_path: Path) -> None:
    done = front("filter", "lint", str(tmp_path / "x"))
    assert done.err == f"gnt-steward filter: {tmp_path}/x: No such file or directory\n"


def test_rules_that_list_prints(call: Call, cluster: Ruled, front: Front, tmp_path: Path) -> None:
    cluster.put(A, predicates=NEVER, priority=3, watermark=5, action=["RATE_LIMIT", 2])
    cluster.put(B, action="EXPLODE")
    live = json.loads(call("lint", "--json").out)
    done = lint_file(front, tmp_path, call("list", "--json").out, "--json")
    assert json.loads(done.out) == live
