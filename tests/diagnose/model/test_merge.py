"""Many findings, one object: the same bytes whatever the order, the worst status, one action."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.model.finding import STATUSES, Finding, severity
from ganeti_steward.diagnose.model.diagnosis import Several, consolidate

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=8,
)
NAMES = st.sampled_from(["smart", "smart:sda", "smart:sdb", "md:md0", "command:raid", "größe"])
FINDINGS = st.lists(
    st.builds(
        Finding,
        NAMES,
        st.sampled_from(STATUSES),
        st.sampled_from(["", "fix", "swap"]),
        JSON,
    ),
    max_size=8,
)


def turned(value: Any, chance: random.Random) -> Any:
    """The same value, its objects written in another order."""
    if isinstance(value, dict):
        keys = list(value)
        chance.shuffle(keys)
        return {key: turned(value[key], chance) for key in keys}
    return [turned(item, chance) for item in value] if isinstance(value, list) else value


@given(FINDINGS, st.randoms(use_true_random=False))
def test_the_order_makes_no_difference(findings: list[Finding], chance: random.Random) -> None:
    other = [finding._replace(details=turned(finding.details, chance)) for finding in findings]
    other += other[: len(other) // 2]
    chance.shuffle(other)
    assert canonical(consolidate(findings)) == canonical(consolidate(other))


@given(FINDINGS)
def test_what_the_object_is(findings: list[Finding]) -> None:
    ill = [finding for finding in findings if finding.status != "Ok"]
    # What requests nothing must not change the object of an incident.
    ill = [finding for finding in ill if finding.status != "suspect"] or ill
    found = consolidate(findings)
    if not ill:
        assert found == {"status": "Ok"}
        return
    assert severity(found["status"]) == max(severity(finding.status) for finding in ill)
    details = found["details"]
    assert {(one["source"], one["status"]) for one in details} == {f[:2] for f in ill}
    keys = [(one["source"], canonical(one)) for one in details]
    assert keys == sorted(set(keys))
    commands = {one.command for one in ill if one.command and one.status == "live-repair"}
    alone = found["status"] == "live-repair" and len(commands) == 1
    assert found.get("command") == (commands.pop() if alone else None)


@given(FINDINGS)
def test_bytes_are_ascii_without_blanks(findings: list[Finding]) -> None:
    found = consolidate(findings)
    raw = canonical(found)
    assert raw.isascii()
    assert json.loads(raw) == found
    plain = json.dumps(found, sort_keys=True, separators=(",", ":"))
    assert raw == plain.encode()


def test_one_object_to_the_letter() -> None:
    found = consolidate(
        [
            Finding("smart:sdb", "live-repair", "change-disk", {"ü": 1, "a": [2, None]}),
            Finding("md:md0", "Ok"),
            Finding("edac", "evacuate", "change-disk", "bad DIMM"),
            Finding("smart:sdb", "live-repair", "change-disk", {"a": [2, None], "ü": 1}),
        ]
    )
    assert canonical(found) == (
        rb'{"details":['
        rb'{"details":"bad DIMM","source":"edac","status":"evacuate"},'
        rb'{"command":"change-disk","details":{"a":[2,null],"\u00fc":1},'
        rb'"source":"smart:sdb","status":"live-repair"}],"status":"evacuate"}'
    )


def test_sorted_by_source_before_text() -> None:
    """The text of a finding begins with its command, which must not decide first."""
    found = consolidate(
        [
            Finding("a", "live-repair", "z"),
            Finding("b", "live-repair", "a"),
            Finding("a", "evacuate"),
        ]
    )
    assert [(one["source"], one["status"]) for one in found["details"]] == [
        ("a", "live-repair"),
        ("a", "evacuate"),
        ("b", "live-repair"),
    ]


@pytest.mark.parametrize(
    ("several", "command", "status"),
    [
        (Several(), None, "live-repair"),
        (Several("wrapper"), "wrapper", "live-repair"),
        (Several("wrapper", "evacuate"), None, "evacuate"),
        (Several("", "evacuate-failover"), None, "evacuate-failover"),
    ],
    ids=["nothing", "wrapper", "escalated", "failover"],
)
def test_several_commands(several: Several, command: str | None, status: str) -> None:
    findings = [Finding("a", "live-repair", "fix"), Finding("b", "live-repair", "swap")]
    found = consolidate(findings, several)
    assert (found.get("command"), found["status"]) == (command, status)
    assert [one["command"] for one in found["details"]] == ["fix", "swap"]
    # One command, or a worse finding beside: nothing is to be chosen.
    one = consolidate(findings[:1] * 2, several)
    assert (one["command"], one["status"]) == ("fix", "live-repair")
    worse = consolidate([*findings, Finding("c", "evacuate-failover")], several)
    assert worse["status"] == "evacuate-failover"
    assert "command" not in worse


def test_a_command_beside_findings_without_one() -> None:
    found = consolidate([Finding("a", "live-repair"), Finding("b", "live-repair", "swap")])
    assert found["command"] == "swap"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 2, "a": 3}, {2, 3}])
def test_what_is_no_json(value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        canonical(value)
