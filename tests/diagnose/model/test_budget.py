"""Findings of any size and number: the object stays short, its status and commands stay."""

from __future__ import annotations

import hashlib
from random import Random

import pytest

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.model.finding import (
    EVACUATE,
    LIVE_REPAIR,
    OK,
    Finding,
    NotApplicable,
    Unknown,
    severity,
)
from ganeti_steward.core.node_agent.protocol import LONGEST_OBJECT
from ganeti_steward.diagnose.model.budget import (
    DETAILS,
    FINDINGS,
    REASONS,
    within_budget,
    within_list,
)
from ganeti_steward.diagnose.model.diagnosis import consolidate

LARGE = list(range(20_000))
TEXT = canonical(LARGE)
DIGEST = {"sha256": hashlib.sha256(TEXT).hexdigest(), "size": len(TEXT)}


def finding(number: int, size: int, command: str = "", status: str = LIVE_REPAIR) -> Finding:
    return Finding(f"acme:drive{number}", status, command, "x" * size)


def test_details_beyond_the_budget_of_a_finding() -> None:
    """They are another finding when they change, and the same one while they do not."""
    (found,) = within_budget("acme", [Finding("acme:drive0", EVACUATE, "", LARGE)])
    assert found == Finding("acme:drive0", EVACUATE, "", DIGEST)
    (other,) = within_budget("acme", [Finding("acme:drive0", EVACUATE, "", LARGE[1:])])
    assert other != found
    (again,) = within_budget("acme", [found])
    assert again == found
    small = Finding("acme:drive0", EVACUATE, "", "x" * (DETAILS - 2))
    assert within_budget("acme", [small]) == [small]


def test_a_source_with_large_findings() -> None:
    """The largest details go first; no finding goes."""
    given = [finding(number, 100 * number) for number in range(80)]
    found = within_budget("acme", given)
    assert {one.source for one in found} == {one.source for one in given}
    kept = [one for one in found if one in given]
    assert kept == given[: len(kept)]
    assert 30 < len(kept) < 60
    shuffled = list(given)
    Random(1).shuffle(shuffled)
    assert sorted(map(canonical, within_budget("acme", shuffled))) == sorted(map(canonical, found))


def test_a_source_with_very_many_findings() -> None:
    """One for each status and command; earlier findings about each object stay."""
    given = [finding(number, 10, "swap") for number in range(FINDINGS)]
    given += [Finding("acme:case", EVACUATE), finding(9999, 10)]
    *others, unknown = sorted(within_budget("acme", [*given, Finding("acme", OK)]), key=str)
    assert unknown == Unknown("acme", f"reports more than {FINDINGS} findings")
    assert Finding("acme", OK) in others
    assert Finding("acme:case", EVACUATE) in others
    assert finding(9999, 10) in others
    (together,) = (one for one in others if isinstance(one, Finding) and one.command == "swap")
    assert (together.source, together.status) == ("acme", LIVE_REPAIR)
    assert together.details["findings"] == FINDINGS


def test_reasons() -> None:
    given = [Unknown("acme", "x" * 10_000), NotApplicable("acme:fan", "y" * 10_000)]
    assert [len(one[1]) for one in within_budget("acme", given)] == [500, 500]
    many = [(f"acme:{number:05}", "z" * 400) for number in range(1000)]
    listed = within_list(many)
    assert len(canonical(listed)) < 1.2 * REASONS
    assert listed[0] == {"source": "acme:00000", "reason": "z" * 400}
    more = 1000 - len(listed) + 1
    assert listed[-1] == {"source": "diagnose", "reason": f"{more} more are not listed"}
    assert within_list(many[:10]) == [{"source": one, "reason": why} for one, why in many[:10]]


@pytest.mark.parametrize(
    "findings",
    [
        [Finding(f"command:c{number}", LIVE_REPAIR, "", "\\" * 8000) for number in range(40)],
        [finding(number, 300) for number in range(5000)],
        [Finding(f"acme:{'long' * 1000}{number}", LIVE_REPAIR, "swap") for number in range(500)],
        [Finding(f"command:{number:0250}", LIVE_REPAIR, "swap") for number in range(500)],
        [Finding("acme", LIVE_REPAIR, f"fix-{number:0200}") for number in range(900)],
    ],
    ids=["large", "many", "long names", "many sources", "many commands"],
)
def test_the_object_is_never_too_long(findings: list[Finding]) -> None:
    """Its own status and command are those of all findings."""
    worst = Finding("zulu:case", "evacuate-failover", "", {"fan": 3})
    for more in ([], [worst]):
        found = consolidate([*findings, *more])
        text = canonical(found)
        assert len(text) <= LONGEST_OBJECT
        status = max((one.status for one in (*findings, *more)), key=severity)
        assert found["status"] == status
        wanted = {one.command for one in findings if one.command}
        if status == LIVE_REPAIR:
            assert found.get("command") == (wanted.pop() if len(wanted) == 1 else None)
        shuffled = [*findings, *more]
        Random(2).shuffle(shuffled)
        assert canonical(consolidate(shuffled)) == text


def test_small_findings_stay_beside_large_ones() -> None:
    large = [Finding(f"command:c{number}", LIVE_REPAIR, "", "x" * 8000) for number in range(20)]
    found = consolidate([*large, finding(3, 10, "swap")])
    assert found["command"] == "swap"
    (small,) = (one for one in found["details"] if one["source"] == "acme:drive3")
    assert small["details"] == "x" * 10
    whole = [one for one in found["details"] if one["details"] == "x" * 8000]
    assert len(whole) >= 6
