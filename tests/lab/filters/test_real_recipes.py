"""The recipes through RAPI, on jobs of a real Ganeti."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ganeti_steward.plugins.filters.filter_rules import PAUSE, FilterRule, FilterRules

from ..cluster import Lab, op, until
from ..live import STEWARD, ways

NAME = "pink bunny"
TAG = op("TAGS_SET", kind="cluster", tags=["filtered"])

Recipe = Callable[[str], None]


@pytest.fixture
def recipe(lab: Lab) -> Iterator[Recipe]:
    """Creates a recipe from a node that is not the master, and removes it in the end."""
    rapi, name = ways(lab).rapi, shlex.quote(NAME)

    def create(text: str) -> None:
        which, _, options = text.partition(" ")
        lab.ok(f"-n 2 {STEWARD} filter recipe {which} {name} {options} {rapi} --submit")

    yield create
    lab.run(f"-n 2 {STEWARD} filter recipe remove {name} {rapi}")
    assert FilterRules(lab.luxi).read().rules == ()
    lab.do(op("TAGS_DEL", kind="cluster", tags=["filtered"]))


def delay(seconds: float = 0.05, *reasons: str) -> dict[str, Any]:
    trail = [["gnt:user", one, 1] for one in reasons]
    plain = {"on_master": False, "on_nodes": [], "repeat": 0}
    return op("TEST_DELAY", duration=seconds, no_locks=True, interruptible=False, **plain) | {
        "reason": trail
    }


def submit(lab: Lab, *operations: dict[str, Any]) -> list[int]:
    found = lab.luxi.call("SubmitManyJobs", [[one] for one in operations])
    return [int(number) for _, number in found]


def become(lab: Lab, numbers: list[int], *states: str) -> None:
    """The jobs come to be in these states, and the queued ones stay so."""
    until(lambda: [lab.job(one) for one in numbers] == [*states])
    if "queued" in states:
        time.sleep(1)
        assert [lab.job(one) for one in numbers] == [*states]


def lift(lab: Lab) -> None:
    lab.ok(f"{STEWARD} filter recipe remove {shlex.quote(NAME)} {ways(lab).luxi}")


def test_drain(lab: Lab, recipe: Recipe) -> None:
    recipe("drain")
    numbers = submit(lab, TAG, delay())
    become(lab, numbers, "canceled", "canceled")
    lift(lab)
    become(lab, submit(lab, TAG), "success")


def test_soft_drain(lab: Lab, recipe: Recipe) -> None:
    """What is queued already runs, here as soon as another rule lets it."""
    rules = FilterRules(lab.luxi)
    held = rules.write(FilterRule("", 99, (("opcode", ["=", "OP_ID", "OP_TEST_DELAY"]),), PAUSE))
    old = submit(lab, delay())
    recipe("soft-drain")
    new = submit(lab, delay(), TAG)
    rules.delete(held)
    become(lab, [*old, *new], "success", "queued", "queued")
    lift(lab)
    become(lab, [*old, *new], "success", "success", "success")


def test_all_but_one_maintenance(lab: Lab, recipe: Recipe) -> None:
    recipe("only")
    numbers = submit(lab, TAG, delay(0.05, NAME), delay(0.05, "other", NAME), delay(0.05, "other"))
    become(lab, numbers, "queued", "success", "success", "queued")
    lift(lab)
    become(lab, numbers, *["success"] * 4)


def test_no_creation_of_instances(lab: Lab, recipe: Recipe) -> None:
    recipe("forbid")
    create = lab.create("filtered.lab", "node1.lab", "diskless")
    become(lab, submit(lab, create, TAG), "canceled", "success")
    assert "filtered.lab" not in lab.instances()


def test_a_limit(lab: Lab, recipe: Recipe) -> None:
    """Never more than two at a time, and all of them in the end."""
    recipe("limit 2 --opcode OP_TEST_DELAY")
    numbers = submit(lab, *(delay(4) for _ in range(4)))
    become(lab, submit(lab, TAG), "success")
    until(lambda: [lab.job(one) for one in numbers] == ["success"] * 4)
    rows = lab.luxi.rows("job", ("id", "start_ts", "end_ts"))
    spans = [(row["start_ts"], row["end_ts"]) for row in rows if int(row["id"]) in numbers]
    beside = [sum(begun <= start < end for begun, end in spans) for start, _ in spans]
    assert max(beside) == 2


def test_two_owners(lab: Lab, recipe: Recipe) -> None:
    """One lifts what is its own, the other's drain goes on."""
    rapi = ways(lab).rapi
    recipe("drain")
    lab.ok(f"{STEWARD} filter recipe drain blue {rapi} --submit")
    lift(lab)
    become(lab, submit(lab, TAG), "canceled")
    lab.ok(f"{STEWARD} filter recipe remove blue {rapi}")
    become(lab, submit(lab, TAG), "success")


@pytest.mark.parametrize("way", ["luxi", "rapi"])
def test_questions_about_a_real_queue(lab: Lab, recipe: Recipe, way: str) -> None:
    """Why a job waits, whether rules are sound, and what lifting them would change."""
    options = getattr(ways(lab), way)
    recipe("only")
    waiting, let = submit(lab, TAG, delay(1, NAME))
    until(lambda: lab.job(let) in ("waiting", "running", "success"))
    text = lab.ok(f"{STEWARD} filter explain {waiting} {options}").text
    assert f"Job {waiting} (TAGS_SET), queued" in text
    assert '"reason" is "' in text or "is not true of reason" in text
    assert "Result: applies:" in text
    (pause,) = [rule for rule in FilterRules(lab.luxi).read().rules if rule.action == PAUSE]
    assert f"Rule {pause.uuid}, priority 31, PAUSE: matches and applies" in text
    assert lab.ok(f"{STEWARD} filter lint {options}").status == 0
    empty = lab.directory / "no-rules.json"
    empty.write_text("[]")
    difference = lab.ok(f"{STEWARD} filter diff live {empty} {options}").text
    assert str(waiting) in difference
    lift(lab)
    become(lab, [waiting, let], "success", "success")
