"""Filter rules through a luxid that answers as the real one does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from daemons import luxid

from ganeti_steward.core.errors import RefusedByGaneti, StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.filter_rules import (
    CONTINUE,
    PAUSE,
    RATE_LIMIT,
    FilterRule,
    FilterRules,
)

UUID = "0f0f0f0f-1111-2222-3333-444444444444"
ACTION = "ACCEPT, PAUSE, REJECT, CONTINUE or RATE_LIMIT with a number from 1 is expected"
WHOLE = "a whole number from 0 is expected, found"
FIELDS = ["uuid", "priority", "predicates", "action", "reason_trail", "watermark"]


def row(uuid: str, **changed: Any) -> list[list[Any]]:
    usual = {
        "uuid": uuid,
        "priority": 0,
        "predicates": [],
        "action": "CONTINUE",
        "reason_trail": [["luxid", "", 5]],
        "watermark": 9,
    }
    assert changed.keys() <= usual.keys()
    return [[0, value] for value in (usual | changed).values()]


def refused(text: str) -> bytes:
    return json.dumps({"success": False, "result": ["OpPrereqError", [text]]}).encode() + b"\x03"


def read(tmp_path: Path, *rows: object) -> tuple[tuple[FilterRule, ...], dict[str, str]]:
    with luxid(tmp_path, lambda method, arguments: {"data": rows}) as daemon:
        rules, unreadable = FilterRules(Luxi(daemon.path)).read()
    assert [one["args"] for one in daemon.requests] == [["filter", FIELDS, None]]
    return rules, dict(unreadable)


def test_rules_are_read_in_the_order_jobs_meet_them(tmp_path: Path) -> None:
    predicates = [["jobid", ["<", "id", 0]], ["reason", None]]
    rules, unreadable = read(
        tmp_path,
        row("c", priority=5, action=["RATE_LIMIT", 3]),
        row("b", watermark=12),
        row("z", predicates=predicates, reason_trail=[["a", "b", 1], ["luxid", "", 2]]),
        row("a", watermark=12, action="PAUSE"),
    )
    assert unreadable == {}
    assert [rule.uuid for rule in rules] == ["z", "a", "b", "c"]
    assert rules[0] == FilterRule(
        "z", 0, tuple(predicates), CONTINUE, 0, (Reason("a", "b", 1), Reason("luxid", "", 2)), 9
    )
    assert (rules[1].action, rules[1].limit) == (PAUSE, 0)
    assert (rules[3].action, rules[3].limit) == (RATE_LIMIT, 3)


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"action": "DELAY"}, f"action: {ACTION}, found the text 'DELAY'"),
        ({"action": ["RATE_LIMIT", 0]}, f'action: {ACTION}, found ["RATE_LIMIT", 0]'),
        ({"action": ["RATE_LIMIT", True]}, f'action: {ACTION}, found ["RATE_LIMIT", true]'),
        ({"action": {}}, f"action: {ACTION}, found an object"),
        ({"priority": None}, "priority: a whole number from 0 is expected, found null"),
        ({"priority": True}, "priority: a whole number from 0 is expected, found true"),
        ({"predicates": "x"}, "predicates: a list is expected, found the text 'x'"),
        (
            {"priority": -1, "watermark": {}},
            f"priority: {WHOLE} the number -1; watermark: {WHOLE} an object",
        ),
        ({"reason_trail": [["a", "b"]]}, "the reason trail is not a list of sources"),
        ({"reason_trail": [5]}, "the reason trail is not a list of sources"),
    ],
)
def test_a_rule_that_cannot_be_read_hides_no_other(
    tmp_path: Path, changed: dict[str, Any], fault: str
) -> None:
    rules, unreadable = read(tmp_path, row("bad", **changed), row("good"))
    assert [rule.uuid for rule in rules] == ["good"]
    assert list(unreadable) == ["bad"]
    assert unreadable["bad"].startswith(fault)


def test_text_that_luxid_writes_in_a_wrong_encoding(tmp_path: Path) -> None:
    """It writes the low byte of each character."""
    rows = [row("a", reason_trail=[["a", "Jos#", 1]])]
    answer = json.dumps({"success": True, "result": {"data": rows}}).encode() + b"\x03"
    with luxid(tmp_path, lambda method, arguments: answer.replace(b"#", b"\xe9")) as daemon:
        (rule,) = FilterRules(Luxi(daemon.path)).read().rules
    assert rule.reasons == (Reason("a", "Jos\ufffd", 1),)


@pytest.mark.parametrize(
    ("rule", "arguments"),
    [
        (FilterRule(""), [None, 0, [], "CONTINUE", []]),
        (
            FilterRule(
                UUID, 7, (["jobid", ["<", "id", 0]],), CONTINUE, 0, (Reason("s", "t", 3),), 99
            ),
            [UUID, 7, [["jobid", ["<", "id", 0]]], "CONTINUE", [["s", "t", 3]]],
        ),
        (FilterRule(UUID, action=RATE_LIMIT, limit=4), [UUID, 0, [], ["RATE_LIMIT", 4], []]),
    ],
)
def test_writing(tmp_path: Path, rule: FilterRule, arguments: list[Any]) -> None:
    with luxid(tmp_path, lambda method, arguments: UUID) as daemon:
        assert FilterRules(Luxi(daemon.path)).write(rule) == UUID
    (request,) = daemon.requests
    assert (request["method"], request["args"]) == ("ReplaceFilter", arguments)


@pytest.mark.parametrize(
    "rule",
    [
        FilterRule(UUID, reasons=(Reason("s", "J\u00f6rg", 3),)),
        FilterRule(UUID, predicates=(["reason", ["=", "reason", "\u20ac"]],)),
    ],
)
def test_other_text_than_ascii_is_never_sent(tmp_path: Path, rule: FilterRule) -> None:
    with (
        luxid(tmp_path, lambda method, arguments: UUID) as daemon,
        pytest.raises(
            RefusedByGaneti,
            match=rf"filter rule {UUID}: .* is not ASCII, and Ganeti's daemons can stop at that",
        ),
    ):
        FilterRules(Luxi(daemon.path)).write(rule)
    assert daemon.requests == []


def test_a_write_of_which_nothing_is_known_is_not_a_refusal(tmp_path: Path) -> None:
    with (
        luxid(tmp_path, lambda method, arguments: None) as daemon,
        pytest.raises(StewardError, match="closed before the answer") as caught,
    ):
        FilterRules(Luxi(daemon.path)).write(FilterRule(UUID))
    assert not isinstance(caught.value, RefusedByGaneti)


@pytest.mark.parametrize(("left", "raises"), [([], False), ([[[0, UUID]]], True)])
def test_deleting_what_is_gone_is_no_error(tmp_path: Path, left: object, raises: bool) -> None:
    def answer(method: str, arguments: list[Any]) -> Any:
        return {"data": left} if method == "Query" else refused("no such rule")

    with luxid(tmp_path, answer) as daemon:
        rules = FilterRules(Luxi(daemon.path))
        if raises:
            with pytest.raises(RefusedByGaneti, match="no such rule"):
                rules.delete(UUID)
        else:
            assert rules.delete(UUID) is False
    assert daemon.requests[1]["args"] == ["filter", ["uuid"], None]


def test_deleting(tmp_path: Path) -> None:
    def answer(method: str, arguments: list[Any]) -> Any:
        assert (method, arguments) == ("DeleteFilter", [UUID])
        return []

    with luxid(tmp_path, answer) as daemon:
        assert FilterRules(Luxi(daemon.path)).delete(UUID) is True
    assert len(daemon.requests) == 1


def nested(levels: int) -> Any:
    found: Any = ["=", "id", 0]
    for _ in range(levels):
        found = ["!", found]
    return found


@pytest.mark.parametrize("levels", [250, 450, 600, 900])
def test_a_rule_that_is_nested_too_deeply_hides_no_other(tmp_path: Path, levels: int) -> None:
    deep = row("bad", predicates=[["jobid", nested(levels)]])
    rules, unreadable = read(tmp_path, deep, row("good"))
    assert [rule.uuid for rule in rules] == ["good"]
    assert unreadable == {"bad": "predicates: more than 200 levels are too many to be evaluated"}


@pytest.mark.parametrize(
    "trail", [[[1, "a", 5]], [["a", {}, 5]], [["a", "b", "5"]], [["a", "b", float("inf")]], [5], {}]
)
def test_a_reason_of_another_form_hides_no_other(tmp_path: Path, trail: list[Any]) -> None:
    rules, unreadable = read(tmp_path, row("bad", reason_trail=trail), row("good"))
    assert [rule.uuid for rule in rules] == ["good"]
    assert unreadable["bad"] == "the reason trail is not a list of sources, texts and times"


def test_text_of_no_encoding_is_replaced(tmp_path: Path) -> None:
    rules, _ = read(tmp_path, row("good", reason_trail=[["gnt:user", "\ud800!", 2**70]]))
    assert rules[0].reasons == (Reason("gnt:user", "\ufffd!", 2**70),)
