"""Moves that are run: what Ganeti does is named, a terminal confirms, the score is read again."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import clusters
import pytest
from daemons import luxid, rapi
from fixed_plan import install
from live import Ganeti
from standin import StandIn
from standin_server import serving
from test_command_balance import cluster as two_groups
from test_command_balance import plan
from workspace import PROGRAMS

from ganeti_steward.allocators.jobs.job_sets import ways
from ganeti_steward.allocators.jobs.operations import failover, migrate, replace_secondary
from ganeti_steward.core.ganeti.sources import SourceOptions, open_client
from ganeti_steward.core.model.cluster import Instance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from front import Front

    from ganeti_steward.core.ganeti.luxi import Luxi

Message = dict[str, Any]

#: Seconds in which a command has to print what a test waits for.
LIMIT = 300


def cluster() -> Message:
    return clusters.generate(
        "--nodes=6",
        "--mix=drbd=1",
        "--seed=7",
        "--per-node=3",
        "--fill=.3",
        "--drained=1",
        "--down=0",
    )


def socket_of(client: Luxi) -> str:
    return client.where.removeprefix("luxid at ")


def stopped(message: Message) -> Message:
    """The same cluster with all instances down."""
    instances = {name: one | {"admin_state": "down"} for name, one in message["instances"].items()}
    return message | {"instances": instances}


@pytest.mark.parametrize("command", ["balance", "group-evacuate"])
def test_a_stopped_instance_is_failed_over(front: Front, command: str) -> None:
    """In table, script and data; the script stays right if the instance is started before."""
    message = (
        cluster()
        if command == "balance"
        else clusters.generate(
            "--nodes=9",
            "--groups=3",
            "--mix=drbd=1",
            "--seed=7",
            "--per-node=2",
            "--fill=.2",
            "--down=0",
        )
    )
    call = [command, *(["group00"] if command == "group-evacuate" else []), "--file"]
    for state, (word, other) in {
        "up": ("migrate", "failover"),
        "down": ("failover", "migrate"),
    }.items():
        file = front.message(stopped(message) if state == "down" else message)
        table = front(*call, file).out
        assert re.search(rf" (replace\+)?{word}(\+replace)? ", table)
        assert other not in table
        script = front(*call, file, "-C").out
        commands = [line for line in script.splitlines() if " migrate " in line]
        assert commands
        noted = [line for line in commands if line.endswith("  # Ganeti does a failover")]
        assert noted == (commands if state == "down" else [])
        assert all("--allow-failover" in line for line in commands)


def test_notes_of_an_evacuation(front: Front) -> None:
    message = clusters.generate("--nodes=4", "--mix=drbd=1", "--seed=3", "--per-node=2", "--down=0")
    name = sorted(message["instances"])[0]
    wanted = {"type": "node-evacuate", "instances": [name], "evac_mode": "primary-only"}
    for given, text in (
        (message, "Steps: migrate to the secondary."),
        (stopped(message), "Steps: fail over to the secondary."),
    ):
        printed = front("explain", "--json", front.message(given | {"request": wanted})).out
        assert json.loads(printed)["explanations"][0]["notes"][0] == text


@pytest.mark.parametrize(
    ("changed", "how"),
    [
        ({}, "migrate"),
        ({"oper_ram": None}, "failover"),
        ({"always_failover": True}, "failover"),
        ({"admin_state": "down"}, "failover"),
    ],
    ids=["up", "not running", "always_failover", "down"],
)
def test_what_a_live_cluster_sends(
    front: Front, tmp_path: Path, changed: Message, how: str
) -> None:
    """Whether an instance runs and may migrate is known of a live cluster."""
    ganeti = Ganeti(cluster())
    for row in ganeti.instances:
        row["beparams"]["always_failover"] = changed.get("always_failover", False)
        row |= {key: value for key, value in changed.items() if key in row}
    with luxid(tmp_path, ganeti.luxi) as daemon:
        done = front("balance", "--json", "--no-disk-moves", "--luxi-socket", daemon.path)
    steps = json.loads(done.out)["steps"]
    assert {step["how"] for step in steps} == {how}


def test_each_operation_is_named() -> None:
    up = Instance("a", 1, 1, 0, (), "drbd", 1, (), (), "up", False, ("1", "2"))
    down = up._replace(state="down")
    job = [migrate("a"), replace_secondary("a", "3"), failover("a")]
    assert ways(job, up) == "migrate+replace+failover"
    assert ways(job, down) == "failover+replace+failover"


def on_a_terminal(front: Front, answer: str, *arguments: str) -> tuple[int, str]:
    """``gnt-steward`` with a terminal as its standard input, and an answer to its question."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        [PROGRAMS / "gnt-steward", *arguments],
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "GNT_STEWARD_CONFIG": str(front.config_file)},
    ) as running:
        os.close(slave)
        assert running.stdout is not None
        printed, until = b"", time.monotonic() + LIMIT
        try:
            while b"y/[n]: " not in printed:
                assert select.select([running.stdout], [], [], until - time.monotonic())[0]
                part = os.read(running.stdout.fileno(), 65536)
                assert part, printed
                printed += part
            os.write(master, answer.encode())
            printed += running.stdout.read()
            return running.wait(LIMIT), printed.decode()
        finally:
            running.kill()
            os.close(master)


@pytest.mark.parametrize("answer", ["n\n", "\n", "\x04"], ids=["no", "nothing", "end"])
def test_a_terminal_can_refuse(front: Front, tmp_path: Path, answer: str) -> None:
    stand_in = StandIn(stopped(cluster()))
    with serving(tmp_path, stand_in) as client:
        socket = socket_of(client)
        status, printed = on_a_terminal(front, answer, "balance", "-X", "--luxi-socket", socket)
    assert status == 1
    assert printed.endswith("Nothing was run.\n")
    assert stand_in.submissions == []
    assert re.search(
        r"\n\d+ moves: .*\d+ failovers? \(inst\S*\b.*\).*; [\d.]+ GiB to be copied\.\n", printed
    )


def test_a_terminal_can_confirm(front: Front, tmp_path: Path) -> None:
    """Every line has a time, and the score is that of the cluster afterwards."""
    stand_in = StandIn(cluster())
    with serving(tmp_path, stand_in) as client:
        socket = socket_of(client)
        source = ("--luxi-socket", socket)
        status, printed = on_a_terminal(front, "y\n", "balance", "-X", *source)
        again = json.loads(front("balance", "--json", "-l0", *source).out)
    assert status == 0, printed
    # The terminal shows the answer here, with its end of line.
    lines = printed.replace("y/[n]: ", "y/[n]: \n").splitlines()
    progress = [line for line in lines if re.search(r"set \d+/", line)]
    assert progress
    assert all(re.match(r"\d\d:\d\d:\d\d set \d+/\d+ job \d+ ", line) for line in progress)
    found = re.fullmatch(
        r"Group (\S+): score (\S+) before, (\S+) reached \((\S+) planned\)", lines[-1]
    )
    assert found
    group, before, reached, planned = found.groups()
    (now,) = again["groups"]
    assert (group, reached) == (now["group"], f"{now['score_before']:.8f}")
    assert float(planned) < float(before)
    # What Ganeti reports is not exactly what was planned: memory in use is not what was given.
    assert float(reached) < float(before)


def test_without_a_terminal_nothing_is_run(front: Front, tmp_path: Path) -> None:
    stand_in = StandIn(cluster())
    with serving(tmp_path, stand_in) as client:
        done = front("balance", "-X", "--luxi-socket", socket_of(client))
    assert done.status == 1
    assert done.err.endswith("-X must be confirmed: run it on a terminal, or with --yes\n")
    assert stand_in.submissions == []


def test_nothing_is_confirmed_with_yes(front: Front, tmp_path: Path) -> None:
    stand_in = StandIn(cluster())
    with serving(tmp_path, stand_in) as client:
        socket = socket_of(client)
        done = front("balance", "-X", "--yes", "--luxi-socket", socket)
    assert done.status == 0
    assert "y/[n]" not in done.out
    assert stand_in.submissions


def test_the_cluster_cannot_be_read_afterwards(front: Front, tmp_path: Path) -> None:
    """The moves are done all the same."""

    class Leaving(StandIn):
        def call(self, method: str, arguments: Sequence[Any]) -> Message:
            if self.submissions and method == "Query":
                return {"success": False, "result": "luxid is stopping"}
            return super().call(method, arguments)

    with serving(tmp_path, stand_in := Leaving(cluster())) as client:
        source = ("--luxi-socket", socket_of(client))
        done = front("balance", "-X", "--yes", *source)
    assert done.status == 0
    assert stand_in.submissions
    last = done.out.splitlines()[-1]
    assert last == f"The score reached is not known: {client.where}, Query: luxid is stopping"


class Queue(Ganeti):
    """A cluster that takes jobs; the one with this number fails."""

    def __init__(self, message: Message, failing: int = 0) -> None:
        super().__init__(message)
        self.failing = failing
        self.jobs: list[list[Message]] = []

    def luxi(self, method: str, arguments: list[Any]) -> Any:
        if method == "SubmitManyJobs":
            begin = len(self.jobs) + 1
            self.jobs += arguments[0]
            return [[True, begin + at] for at in range(len(arguments[0]))]
        if method != "QueryJobs":
            return super().luxi(method, arguments)
        words = ["error" if number == self.failing else "success" for number in arguments[0]]
        errors = [["OpExecError", ["no room"]]]
        return [[n, word, [word], errors] for n, word in zip(arguments[0], words, strict=True)]


def test_running_a_plan(front: Front, tmp_path: Path) -> None:
    message = two_groups()
    install(front)
    queue = Queue(message)
    with luxid(tmp_path, queue.luxi) as daemon:
        done = front("balance", "-X", "--yes", "--luxi-socket", daemon.path)
    assert (done.status, done.err) == (0, "")
    planned = [job for jobs in plan(front, message)["job_sets"] for job in jobs]
    ran = [
        [{key: value for key, value in op.items() if key != "reason"} for op in job]
        for job in queue.jobs
    ]
    assert ran == planned
    assert {op["reason"][0][1] for job in queue.jobs for op in job} == {"balance"}
    # The plan is printed before the first job.
    assert done.out.index("job sets\n") < done.out.index("set 1/")
    assert "\n3 jobs done\n" in done.out
    # This queue does nothing, and the plan is a fixed one.
    reached = "Group group00: score 10.50000000 before, 10.50000000 reached (3.00000000 planned)"
    assert done.out.endswith(f"\n{reached}\n")


def test_the_reason_a_user_gives(front: Front, tmp_path: Path) -> None:
    install(front)
    with luxid(tmp_path, Queue(two_groups()).luxi) as daemon:
        front("balance", "-X", "--yes", "--reason", "ticket 7", "--luxi-socket", daemon.path)
        submitted = [one for one in daemon.requests if one["method"] == "SubmitManyJobs"]
    reasons = [entry[:2] for entry in submitted[0]["args"][0][0][0]["reason"]]
    assert reasons == [["gnt:user", "ticket 7"], ["gnt:client:gnt-steward", "balance"]]
    with rapi(lambda method, path: (404, {})) as server:
        options = SourceOptions(rapi=server.host, rapi_insecure=True, reason="ticket 7")
        open_client(options).submit([[migrate("a")]], "balance")
    assert server.requests[0].path.endswith("?reason=ticket+7+%28balance%29")


def test_a_failing_job_stops_the_run(front: Front, tmp_path: Path) -> None:
    install(front)
    queue = Queue(two_groups(), failing=1)
    with luxid(tmp_path, queue.luxi) as daemon:
        done = front("balance", "-X", "--yes", "--luxi-socket", daemon.path)
    assert done.status == 1
    assert len(queue.jobs) == 1
    assert "error (no room)" in done.out
    assert "0 jobs done, 1 failed, 2 not begun\n" in done.out


def test_nothing_to_run(front: Front, tmp_path: Path) -> None:
    install(front)
    queue = Queue(two_groups())
    with luxid(tmp_path, queue.luxi) as daemon:
        done = front("balance", "-X", "--yes", "-l0", "--luxi-socket", daemon.path)
    assert (done.status, queue.jobs) == (0, [])
