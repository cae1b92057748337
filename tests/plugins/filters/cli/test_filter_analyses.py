"""``gnt-steward filter simulate`` and ``diff``."""

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
    from workspace import Done

A, B = (f"{letter * 8}-0000-4000-8000-000000000000" for letter in "ab")
DELAYS: list[Any] = [["opcode", ["=", "OP_ID", "OP_TEST_DELAY"]]]
LIMIT: dict[str, Any] = {"uuid": A, "action": ["RATE_LIMIT", 1], "predicates": DELAYS}
PAUSE: dict[str, Any] = {"uuid": B, "priority": 1, "action": "PAUSE"}


@pytest.fixture
def cluster(nodes: clusters.Message) -> Queued:
    return Queued(StandIn(nodes))


def row(number: int, name: str = "OP_TEST_DELAY", **more: Any) -> dict[str, Any]:
    return {"id": number, "ops": [{"OP_ID": name}], **more}


def written(path: Path, name: str, content: Any) -> str:
    (path / name).write_text(json.dumps(content))
    return str(path / name)


def simulated(front: Front, path: Path, rules: Any, jobs: Any, *options: str) -> Done:
    files = written(path, "rules", rules), written(path, "jobs", jobs)
    return front("filter", "simulate", *files, *options)


JOBS = [
    row(1, submitted=1000, duration=5),
    row(2, received_ts=[1001, 0], start_ts=[1100, 0], end_ts=[1107, 0]),
    row(3, "OP_TAGS_SET", submitted=1002),
]


def test_simulate(front: Front, tmp_path: Path) -> None:
    done = simulated(front, tmp_path, [LIMIT, PAUSE], JOBS, "--duration", "2")
    assert (done.status, done.err) == (0, "")
    assert [line.split() for line in done.out.splitlines()] == [
        ["Job", "Summary", "Submitted", "Started", "Ended", "Outcome", "Cause", "Rule"],
        ["1", "TEST_DELAY", "0", "0", "5", "ended", "-", A],
        ["2", "TEST_DELAY", "1", "5", "12", "ended", "-", A],
        ["3", "TAGS_SET", "2", "-", "-", "waiting", "paused", B],
    ]


def test_simulate_as_data(front: Front, tmp_path: Path) -> None:
    done = simulated(front, tmp_path, [LIMIT], JOBS, "--duration=2", "--json", "-o", "job,waited")
    assert json.loads(done.out) == [
        {"job": 1, "waited": 0},
        {"job": 2, "waited": 4},
        {"job": 3, "waited": 0},
    ]
    done = simulated(front, tmp_path, [PAUSE], JOBS[2:], "--duration=2", "--json")
    (found,) = json.loads(done.out)
    assert (found["started"], found["cause"], found["behind"]) == ("", "paused", [])


def test_simulate_with_few_places(front: Front, tmp_path: Path) -> None:
    options = ("--duration=2", "--max-running=1", "-o", "started", "--no-headers")
    assert simulated(front, tmp_path, [], JOBS, *options).out.split() == ["0", "5", "12"]


@pytest.mark.parametrize(
    ("rules", "jobs", "text"),
    [
        ([], JOBS, "/jobs: job 3: nothing gives its duration"),
        ([], [JOBS[0], JOBS[0]], "/jobs: two jobs have the number 1"),
        ([], [{"id": 1}], "/jobs: entry 1: job 1, key 'ops': a list of opcodes is expected"),
        ([], [row(1, duration="x")], "/jobs: job 1: key 'duration': seconds are expected"),
        ([{"predicates": [["x", None]]}], JOBS, "/rules: rule entry 1: predicates[0][0]: "),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_simulate_with_faulty_files(
    front: Front, tmp_path: Path, rules: Any, jobs: Any, text: str
) -> None:
    done = simulated(front, tmp_path, rules, jobs)
    assert (done.status, done.out) == (1, "")
    assert text in done.err
    assert len(done.err.splitlines()) == 1


def test_simulate_refuses_a_negative_duration(front: Front, tmp_path: Path) -> None:
    done = simulated(front, tmp_path, [], JOBS, "--duration=-1")
    assert done.err == "gnt-steward filter: --duration -1.0: seconds from 0 are expected\n"


def test_simulate_the_rules_of_the_cluster(call: Call, cluster: Queued, tmp_path: Path) -> None:
    cluster.put(A, action=["RATE_LIMIT", 1])
    jobs = written(tmp_path, "jobs", [row(number, duration=3) for number in (1, 2)])
    done = call("simulate", "live", jobs, "-o", "ended", "--no-headers")
    assert done.out.split() == ["3", "6"]


def test_diff_beside_the_cluster(call: Call, cluster: Queued, tmp_path: Path) -> None:
    cluster.put(A, predicates=DELAYS)
    cluster.job(1, "OP_TEST_DELAY", "running")
    cluster.job(2, "OP_TEST_DELAY")
    cluster.job(3, "OP_TAGS_SET")
    cluster.job(4, "OP_TAGS_SET", "success")
    new = written(tmp_path, "new", [PAUSE])
    done = call("diff", "live", new, "--separator", "|")
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [
        "Job|Summary|Status|Before|RuleBefore|After|RuleAfter",
        f"3|TAGS_SET|queued|starts|-|waits: paused|{B}",
    ]
    same = call("diff", "live", "live")
    assert (same.status, same.out) == (0, "")
    assert json.loads(call("diff", "live", "live", "--json").out) == []


def test_diff_of_finished_jobs(front: Front, tmp_path: Path) -> None:
    old, new = written(tmp_path, "old", []), written(tmp_path, "new", [LIMIT])
    jobs = written(tmp_path, "jobs", [row(9, status="success")])
    assert front("filter", "diff", old, new, "--jobs", jobs).out == ""
    done = front("filter", "diff", old, new, "--jobs", jobs, "--finished", "--no-headers")
    assert done.out.split() == ["9", "TEST_DELAY", "success", "accepted", "-", "limited", A]


def test_diff_of_a_missing_file(front: Front, tmp_path: Path) -> None:
    done = front("filter", "diff", str(tmp_path / "x"), str(tmp_path / "x"))
    assert done.err == f"gnt-steward filter: {tmp_path}/x: No such file or directory\n"
