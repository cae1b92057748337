"""The client of luxid, against a socket that answers as luxid does."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from daemons import luxid

from ganeti_steward.allocators.jobs.operations import migrate
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.jobs import Submitted
from ganeti_steward.core.ganeti.luxi import Luxi, NotReached
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.plugins.model.operations import after, set_tags


def refused(error: object) -> bytes:
    return json.dumps({"success": False, "result": error}).encode() + b"\x03"


def test_a_call(tmp_path: Path) -> None:
    def answer(method: str, arguments: list[Any]) -> Any:
        return {"name": "cluster.lab", "padding": "x" * 300000}

    with luxid(tmp_path, answer) as daemon:
        assert Luxi(daemon.path).info()["name"] == "cluster.lab"
        assert daemon.requests == [{"method": "QueryClusterInfo", "args": [], "version": 3000000}]


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (refused(["OpPrereqError", ["Unknown\noutput fields", "wrong_input"]]), "Unknown output f"),
        (refused("Failed to parse request: x"), "Failed to parse request: x"),
        (refused(["Odd"]), "['Odd']"),
        (b"no JSON\x03", "the answer is not what luxid answers"),
        (b"[]\x03", "the answer is not what luxid answers"),
        (b"[" * 100_000 + b"\x03", "the answer is not what luxid answers"),
        (b'{"success":true}\x03', "the answer is not what luxid answers"),
        (b'{"success":true', "the connection was closed before the answer"),
        (None, "the connection was closed before the answer"),
    ],
)
def test_errors_name_socket_and_method(tmp_path: Path, answer: bytes | None, fault: str) -> None:
    with (
        luxid(tmp_path, lambda method, arguments: answer) as daemon,
        pytest.raises(StewardError) as caught,
    ):
        Luxi(daemon.path).info()
    assert str(caught.value).startswith(f"luxid at {daemon.path}, QueryClusterInfo: {fault}")
    assert "\n" not in str(caught.value)


def test_no_answer(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(path)
        listening.listen()
        with pytest.raises(StewardError, match=r"QueryClusterInfo: no answer within 0\.05 s"):
            Luxi(path, time_limit=0.05).info()


def test_a_call_without_a_limit_ends_when_luxid_ends_it(tmp_path: Path) -> None:
    """With its answer, or without one."""

    def answer(method: str, arguments: list[Any]) -> Any:
        time.sleep(0.3)
        return None if arguments else {"name": "c"}

    with luxid(tmp_path, answer) as daemon:
        client = Luxi(daemon.path, time_limit=0.05).without_limit()
        assert client.info() == {"name": "c"}
        with pytest.raises(StewardError, match="the connection was closed before the answer"):
            client.call("Query", "node")


def test_a_call_that_was_not_made(tmp_path: Path) -> None:
    """It differs from one of which nothing is known."""
    with pytest.raises(NotReached):
        Luxi(str(tmp_path / "none")).info()
    with luxid(tmp_path, lambda *_: None) as daemon, pytest.raises(StewardError) as caught:
        Luxi(daemon.path).info()
    assert not isinstance(caught.value, NotReached)


def test_no_listener(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match=r"no socket .*/luxid: luxid runs on the master only"):
        Luxi(str(tmp_path / "luxid")).info()
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(path)
    with pytest.raises(StewardError, match=r"luxid is stopped: nothing listens at .*/socket"):
        Luxi(path).info()
    with pytest.raises(StewardError, match="AF_UNIX path too long"):
        Luxi("/" + "x" * 200).info()


def test_rows(tmp_path: Path) -> None:
    data = [[[0, "n1"], [0, 5]], [[0, "n2"], [4, None]]]
    with luxid(tmp_path, lambda method, arguments: {"data": data, "fields": []}) as daemon:
        rows = Luxi(daemon.path).rows("node", ("name", "mfree"))
    assert rows == [{"name": "n1", "mfree": 5}, {"name": "n2", "mfree": None}]
    assert daemon.requests[0]["args"] == ["node", ["name", "mfree"], None]


def test_a_field_ganeti_does_not_know(tmp_path: Path) -> None:
    data = [[[0, "n1"], [1, None]]]
    with (
        luxid(tmp_path, lambda method, arguments: {"data": data}) as daemon,
        pytest.raises(StewardError, match="nodes have no field 'odd' in this Ganeti"),
    ):
        Luxi(daemon.path).rows("node", ("name", "odd"))


def test_submit(tmp_path: Path) -> None:
    """Every operation carries a reason, behind those it has; each job has its own answer."""

    def answer(method: str, arguments: list[Any]) -> Any:
        return [[True, 7], [False, ["JobQueueDrainError", ["Job queue is drained"]]]]

    own = {**migrate("i2.lab"), "reason": [["gnt:user", "mine", 3]]}
    with luxid(tmp_path, answer) as daemon:
        client = Luxi(daemon.path, clock=lambda: 12345)
        done = client.submit([[migrate("i1.lab", "n1.lab")], [own]], "balance")
    assert done == [Submitted((7,)), Submitted((), "Job queue is drained")]
    trail = ["gnt:client:gnt-steward", "balance", 12345]
    (first,), (second,) = daemon.requests[0]["args"][0]
    assert first == {**migrate("i1.lab", "n1.lab"), "reason": [trail]}
    assert second["reason"] == [["gnt:user", "mine", 3], trail]


def test_what_a_user_gives_as_the_reason_comes_first(tmp_path: Path) -> None:
    with luxid(tmp_path, lambda method, arguments: [[True, 7]]) as daemon:
        client = Luxi(daemon.path, clock=lambda: 1, user_reason="ticket 7")
        client.submit([[migrate("a")]], "balance")
    (job,) = daemon.requests[0]["args"][0]
    assert job[0]["reason"] == [
        ["gnt:user", "ticket 7", 1],
        ["gnt:client:gnt-steward", "balance", 1],
    ]


def test_a_reason_source_of_its_own(tmp_path: Path) -> None:
    with luxid(tmp_path, lambda method, arguments: [[True, 7]]) as daemon:
        client = Luxi(daemon.path, clock=lambda: 1, reason_source="gnt:daemon:steward")
        client.submit([[migrate("a")]], "harep")
    (job,) = daemon.requests[0]["args"][0]
    assert job[0]["reason"] == [["gnt:daemon:steward", "harep", 1]]


def test_trails_of_their_own(tmp_path: Path) -> None:
    """One call; the trail of each job on each of its operations, behind those it has."""

    def answer(method: str, arguments: list[Any]) -> Any:
        return [[True, number] for number in range(7, 7 + len(arguments[0]))]

    own = {**migrate("b"), "reason": [["gnt:user", "mine", 3]], "depends": [[-1, ["success"]]]}
    trails = [[("gnt:daemon:maintd", "u1"), ("gnt:daemon:maintd", "s1")], [("x", "u2")], []]
    with luxid(tmp_path, answer) as daemon:
        client = Luxi(daemon.path, clock=lambda: 5)
        done = client.submit_with_trails([[migrate("a"), own], [own], [own]], trails)
    assert [one.numbers for one in done] == [(7,), (8,), (9,)]
    assert len(daemon.requests) == 1
    (first, second), (third,), (fourth,) = daemon.requests[0]["args"][0]
    added = [["gnt:daemon:maintd", "u1", 5], ["gnt:daemon:maintd", "s1", 5]]
    assert first["reason"] == added
    assert second["reason"] == [["gnt:user", "mine", 3], *added]
    assert third["reason"] == [["gnt:user", "mine", 3], ["x", "u2", 5]]
    assert fourth == own
    with pytest.raises(ValueError, match="shorter"):
        client.submit_with_trails([[migrate("a")]], [])


def test_reasons_are_ascii(tmp_path: Path) -> None:
    with luxid(tmp_path, lambda method, arguments: [[True, 7]]) as daemon:
        client = Luxi(daemon.path, clock=lambda: 1)
        client.submit([[{**migrate("a"), "reason": [["J\u00f6rg", "\u20ac", 2]]}]], "na\u00efve\n")
    (job,) = daemon.requests[0]["args"][0]
    assert job[0]["reason"] == [
        ["J\\xf6rg", "\\u20ac", 2],
        ["gnt:client:gnt-steward", "na\\xefve\n", 1],
    ]


def test_a_job_with_other_text_is_not_sent(tmp_path: Path) -> None:
    """Neither is what was to be submitted with it: jobs may depend on each other."""
    with luxid(tmp_path, lambda method, arguments: [[True, 7]]) as daemon:
        done = Luxi(daemon.path).submit(
            [[migrate("a")], [set_tags("node", "n", ["caf\u00e9"])]], "x"
        )
    assert daemon.requests == []
    assert [one.numbers for one in done] == [(), ()]
    assert {one.error.partition(":")[0] for one in done} == {"OP_TAGS_SET"}


def test_waiting_for_other_jobs(tmp_path: Path) -> None:
    operation = after(migrate("a"), [12], ["success", "error"])
    assert operation == {**migrate("a"), "depends": [[12, ["success", "error"]]]}
    both = after(operation, [-1, -2])
    assert both["depends"] == [[12, ["success", "error"]], [-1, ["success"]], [-2, ["success"]]]
    assert after({**migrate("a"), "depends": None}, [3])["depends"] == [[3, ["success"]]]
    assert "depends" not in migrate("a")
    with luxid(tmp_path, lambda method, arguments: [[True, 7]]) as daemon:
        Luxi(daemon.path).submit([[both]], "x")
    (job,) = daemon.requests[0]["args"][0]
    assert job[0]["depends"] == both["depends"]


def test_rows_of_a_condition(tmp_path: Path) -> None:
    with luxid(tmp_path, lambda method, arguments: {"data": []}) as daemon:
        assert Luxi(daemon.path).rows("job", ("id",), [">", "id", 7]) == []
    assert daemon.requests[0]["args"] == ["job", ["id"], [">", "id", 7]]


def test_a_submission_that_is_refused_as_a_whole(tmp_path: Path) -> None:
    """It is known that nothing was taken, unlike after a broken connection."""
    drained = refused(["JobQueueDrainError", ["Job queue is drained"]])
    with luxid(tmp_path, lambda method, arguments: drained) as daemon:
        done = Luxi(daemon.path).submit([[migrate("a")], [migrate("b")]], "x")
    fault = f"luxid at {daemon.path}, SubmitManyJobs: Job queue is drained"
    assert done == [Submitted((), fault)] * 2
    with (
        luxid(tmp_path, lambda method, arguments: None) as daemon,
        pytest.raises(StewardError, match="SubmitManyJobs: the connection was closed"),
    ):
        Luxi(daemon.path).submit([[migrate("a")]], "x")


def test_states(tmp_path: Path) -> None:
    failed = ["OpExecError", ["Disk\n is gone"]]
    rows = [
        [1, "success", ["success"], [None]],
        [2, "error", ["success", "error", "error"], [None, failed, ["OpExecError", ["after it"]]]],
        None,
        [4, "canceled", ["canceled"], [None]],
        [5, None, None, None],
    ]
    with luxid(tmp_path, lambda method, arguments: rows) as daemon:
        states = Luxi(daemon.path).states([1, 2, 3, 4, 5])
        assert Luxi(daemon.path).states([]) == []
    assert [state.status for state in states] == ["success", "error", "lost", "canceled", "lost"]
    assert [state.error for state in states][:2] == ["", "Disk is gone"]
    assert all(state.ended for state in states)
    assert not JobState(5, "canceling").ended
    assert len(daemon.requests) == 1


def test_cancel(tmp_path: Path) -> None:
    with luxid(tmp_path, lambda method, arguments: [False, "Job 9 not found"]) as daemon:
        assert Luxi(daemon.path).cancel(9) == "Job 9 not found"
    assert daemon.requests[0]["args"] == [9, False]
