"""What the maintenance daemon needs of luxid: trails, dependencies, filter rules and tags."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, Final

import pytest

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.core.model.opcodes import Job, Operation
from ganeti_steward.plugins.filters.filter_rules import CONTINUE, FilterRule, FilterRules
from ganeti_steward.plugins.maintenance.queue.job_search import jobs_with_reason
from ganeti_steward.plugins.model.operations import after, remove_tags, set_tags

from ..cluster import Lab, until

SOURCE: Final = "gnt:daemon:maintd"
NODE: Final = "node2.lab"
#: Never matches, so that the rule is a note only.
NO_JOB: Final = ["jobid", ["<", "id", 0]]


def delay(seconds: float = 0.01) -> Operation:
    return {
        "OP_ID": "OP_TEST_DELAY",
        "duration": seconds,
        "on_master": False,
        "on_nodes": [],
        "no_locks": True,
        "interruptible": False,
        "repeat": 0,
    }


@pytest.fixture
def rules(lab: Lab) -> Iterator[FilterRules]:
    found = FilterRules(lab.luxi)
    yield found
    for rule in found.read().rules:
        found.delete(rule.uuid)


def submit(luxi: Luxi, *jobs: Job) -> list[int]:
    done = luxi.submit(jobs, "test of luxid")
    assert [one.error for one in done] == [""] * len(jobs)
    return [number for one in done for number in one.numbers]


def ended(luxi: Luxi, *numbers: int) -> list[JobState]:
    until(lambda: all(state.ended for state in luxi.states(numbers)))
    return luxi.states(numbers)


def job(luxi: Luxi, number: int) -> dict[str, Any]:
    fields = ("id", "status", "ops", "start_ts", "end_ts")
    (row,) = luxi.rows("job", fields, ["=", "id", number])
    return row


def test_dependencies_within_one_call(lab: Lab) -> None:
    luxi = lab.luxi
    first, second, third = submit(
        luxi, [delay(1)], [after(delay(), [-1])], [after(delay(), [-1, -2])]
    )

    assert [state.status for state in ended(luxi, first, second, third)] == ["success"] * 3
    # luxid stores the numbers.
    assert job(luxi, second)["ops"][0]["depends"] == [[first, ["success"]]]
    assert job(luxi, third)["ops"][0]["depends"] == [[second, ["success"]], [first, ["success"]]]
    assert job(luxi, first)["end_ts"] <= job(luxi, second)["start_ts"]
    assert job(luxi, second)["end_ts"] <= job(luxi, third)["start_ts"]


def test_dependencies_on_jobs_of_other_calls(lab: Lab) -> None:
    luxi = lab.luxi
    (first,) = submit(luxi, [delay()])
    good, bad, lost, wants_error = submit(
        luxi,
        [after(delay(), [first])],
        [after(delay(), [first], ["error"])],
        [after(delay(), [999999])],
        [after(delay(), [-1], ["error"])],
    )

    states = ended(luxi, good, bad, lost, wants_error)
    assert [state.status for state in states] == ["success", "error", "error", "success"]
    assert f"Dependency job {first} finished with status 'success'" in states[1].error
    assert "Job 999999 not found" in states[2].error


def test_trails_of_several_jobs_in_one_call(lab: Lab) -> None:
    luxi = lab.luxi
    (before,) = submit(luxi, [delay()])
    incident, other = str(uuid.uuid4()), str(uuid.uuid4())
    own = {**delay(), "reason": [["gnt:user", "mine", 3]]}
    trails = [[(SOURCE, incident), (SOURCE, "d\u00e9but")], [(SOURCE, other)]]

    done = luxi.submit_with_trails([[delay(), own], [delay()]], trails)

    ((first,), (second,)) = [one.numbers for one in done]
    ended(luxi, first, second)
    found = jobs_with_reason(luxi, SOURCE)
    assert [one.number for one in found][-2:] == [first, second]
    (mine,) = jobs_with_reason(luxi, SOURCE, incident)
    assert (mine.number, mine.status) == (first, "success")
    assert mine.operations == ("OP_TEST_DELAY", "OP_TEST_DELAY")
    texts = [[reason[:2] for reason in trail] for trail in mine.reasons]
    added = [(SOURCE, incident), (SOURCE, "d\\xe9but")]
    assert texts == [
        [*added, ("gnt:opcode:test_delay", f"job={first};index=0")],
        [("gnt:user", "mine"), *added, ("gnt:opcode:test_delay", f"job={first};index=1")],
    ]
    # The page size changes nothing, the number before which is searched does.
    assert jobs_with_reason(luxi, SOURCE, page=1) == found
    assert [one.number for one in jobs_with_reason(luxi, SOURCE, after=first)] == [second]
    assert before not in {one.number for one in found}
    luxi.call("ArchiveJob", first)
    assert jobs_with_reason(luxi, SOURCE, incident) == []


def test_a_rule_as_a_record(lab: Lab, rules: FilterRules) -> None:
    luxi, name = lab.luxi, str(uuid.uuid4())
    reason = Reason("maintd:event", '{"note":"d\\u00e9but \\"x\\"\\n"}\n', 7)
    rule = FilterRule(name, 5, (NO_JOB,), CONTINUE, 0, (reason,))

    assert rules.write(rule) == name
    (read,) = rules.read().rules
    assert read[:5] == rule[:5]
    assert read.reasons[0] == reason
    assert [one.source for one in read.reasons] == ["maintd:event", "luxid"]

    # It holds no job, and its watermark divides the queue.
    (number,) = submit(luxi, [delay()])
    assert ended(luxi, number)[0].status == "success"
    assert number > read.watermark
    found = jobs_with_reason(luxi, "gnt:client:gnt-steward", after=read.watermark)
    assert number in {one.number for one in found}

    assert rules.write(rule._replace(priority=6, reasons=())) == name
    (again,) = rules.read().rules
    assert (again.priority, len(again.reasons)) == (6, 1)
    assert again.watermark >= number
    assert rules.delete(name) is True
    assert rules.delete(name) is False
    assert rules.read().rules == ()


def test_rules_of_every_action(lab: Lab, rules: FilterRules) -> None:
    expression = ["&", ["==", "OP_ID", "OP_NONE"], ["=~", "OP_ID", "x$"]]
    never = (["opcode", expression], ["reason", None])
    written = {
        rules.write(FilterRule("", at, never, action, limit)): (at, action, limit)
        for at, (action, limit) in enumerate(
            [("ACCEPT", 0), ("CONTINUE", 0), ("PAUSE", 0), ("REJECT", 0), ("RATE_LIMIT", 3)]
        )
    }

    found, unreadable = rules.read()
    assert unreadable == {}
    assert {rule.uuid: (rule.priority, rule.action, rule.limit) for rule in found} == written
    assert {str(rule.predicates) for rule in found} == {str(never)}
    assert [rule.priority for rule in found] == [0, 1, 2, 3, 4]


def test_tags(lab: Lab) -> None:
    luxi, tags = lab.luxi, ["maintd:cancel:test", "maintd:test:a+b"]
    objects = {"node": NODE, "cluster": ""}
    jobs = [[set_tags(kind, name, tags)] for kind, name in objects.items()]
    assert {state.status for state in ended(luxi, *submit(luxi, *jobs))} == {"success"}
    (found,) = [row["tags"] for row in luxi.rows("node", ("name", "tags")) if row["name"] == NODE]
    assert set(tags) <= {*found}
    assert set(tags) <= {*luxi.info()["tags"]}

    jobs = [[remove_tags(kind, name, tags)] for kind, name in objects.items()]
    again = submit(luxi, *jobs, *jobs)
    assert [state.status for state in ended(luxi, *again)] == ["success"] * 2 + ["error"] * 2
    assert not {*tags} & {*luxi.info()["tags"]}
