"""``gnt-steward group-evacuate``: the instances of a group to other groups."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import clusters
import pytest
from daemons import luxid, rapi
from live import Ganeti

if TYPE_CHECKING:
    from front import Front
    from workspace import Done

Message = dict[str, Any]

#: A drbd instance gets two new nodes.
HOW = "replace+migrate+replace"


def cluster(*more: str, groups: int = 3) -> Message:
    return clusters.generate(
        "--nodes=9", f"--groups={groups}", "--mix=drbd=1", "--seed=7", "--per-node=2", "--fill=.2",
        *more,
    )  # fmt: skip


def members(message: Message, group: str) -> list[str]:
    """Instances with their primary in a group."""
    (uuid,) = [uuid for uuid, one in message["nodegroups"].items() if one["name"] == group]
    nodes = message["nodes"]
    return sorted(
        name
        for name, instance in message["instances"].items()
        if nodes[instance["nodes"][0]]["group"] == uuid
    )


def rows(done: Done) -> dict[str, list[str]]:
    """The table by its first column."""
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0] == ["Instance", "From", "Group", "To", "How", "GiB"]
    return {line[0]: line[1:] for line in lines[1:] if len(line) == 6}


def plan(front: Front, message: Message, *options: str) -> Any:
    """The answer to Ganeti's own request for the same."""
    target = [uuid for uuid, one in message["nodegroups"].items() if one["name"] in options]
    wanted = {
        "type": "change-group",
        "instances": members(message, "group00"),
        "target_groups": target,
    }
    done = front("explain", "--json", front.message(message | {"request": wanted}, "request.json"))
    return json.loads(done.out)["result"]


@pytest.mark.parametrize("targets", [(), ("group02",), ("group01", "group02")])
def test_plan(front: Front, targets: tuple[str, ...]) -> None:
    message = cluster()
    to = ("--to", ",".join(targets)) if targets else ()
    done = front("group-evacuate", "group00", *to, "--file", front.message(message))
    assert (done.status, done.err) == (0, "")
    moved, failed, _ = plan(front, message, *targets)
    assert failed == []
    found = rows(done)
    assert sorted(found) == members(message, "group00")
    for name, group, nodes in moved:
        old = message["instances"][name]
        copied = f"{2 * old['disk_space_total'] / 1024:.1f}"
        assert found[name] == ["/".join(old["nodes"]), group, "/".join(nodes), HOW, copied]
    assert {row[1] for row in found.values()} <= {*targets} or not targets


def test_commands(front: Front) -> None:
    message = cluster()
    done = front("group-evacuate", "group00", "-C", "--file", front.message(message))
    assert done.status == 0
    _, _, jobs = plan(front, message)
    copies = [line for line in done.out.splitlines() if "replace-disks" in line]
    moves = [operation for job in jobs for operation in job if "remote_node" in operation]
    assert copies == [
        f"gnt-instance replace-disks -n {one['remote_node']} {one['instance_name']}"
        for one in moves
    ]
    assert done.out.startswith("# job set 1 of ")


def test_a_group_without_instances(front: Front) -> None:
    message = cluster()
    for name in members(message, "group00"):
        del message["instances"][name]
    done = front("group-evacuate", "group00", "-C", "--file", front.message(message))
    assert (done.status, done.out) == (0, "Group group00 has no instances.\n")


def with_plain() -> tuple[Message, str]:
    """One of the group's instances cannot be moved."""
    message = cluster()
    name = members(message, "group00")[0]
    message["instances"][name]["disk_template"] = "plain"
    del message["instances"][name]["nodes"][1:]
    return message, name


@pytest.mark.parametrize("option", [(), ("-C",), ("-X", "--yes")])
def test_all_or_nothing(front: Front, tmp_path: Path, option: tuple[str, ...]) -> None:
    message, name = with_plain()
    queue = Queue(message)
    with luxid(tmp_path, queue.luxi) as daemon:
        done = front("group-evacuate", "group00", *option, "--luxi-socket", daemon.path)
    assert done.status == 1
    assert f"{name} cannot be moved: " in done.err
    assert queue.jobs == {}
    if option:
        total = len(members(message, "group00"))
        assert f"1 instance of {total} cannot be moved; --partial moves the others" in done.err
    if option == ("-C",):
        assert done.out == ""
    else:
        assert name not in rows(done)


def test_partial(front: Front, tmp_path: Path) -> None:
    message, name = with_plain()
    queue = Queue(message)
    options = ("group-evacuate", "group00", "--partial")
    with luxid(tmp_path, queue.luxi) as daemon:
        done = front(*options, "-X", "--yes", "--luxi-socket", daemon.path)
    # What could be done was done, and yet the group is not empty.
    assert done.status == 1
    moved = {job[0]["instance_name"] for job in queue.jobs.values()}
    assert moved == {*members(message, "group00")} - {name}
    commands = front(*options, "-C", "--file", front.message(message))
    assert commands.status == 1
    assert {line.split()[-1] for line in commands.out.splitlines() if line[0] != "#"} == moved


class Queue(Ganeti):
    """A cluster that takes jobs; the instance's name decides how each ends."""

    def __init__(self, message: Message, **ends: str) -> None:
        super().__init__(message)
        self.ends = ends
        self.jobs: dict[int, list[Message]] = {}
        self.states: dict[int, Iterator[str]] = {}

    def take(self, job: list[Message]) -> int:
        number = 100 + len(self.jobs)
        self.jobs[number] = job
        end = self.ends.get(job[0]["instance_name"].partition(".")[0], "success")
        self.states[number] = iter(["running", *[end] * 99])
        return number

    def luxi(self, method: str, arguments: list[Any]) -> Any:
        if method == "SubmitManyJobs":
            return [[True, self.take(job)] for job in arguments[0]]
        if method != "QueryJobs":
            return super().luxi(method, arguments)
        found = [(number, next(self.states[number])) for number in arguments[0]]
        errors = [["OpExecError", ["the disk is gone"]]]
        return [[n, status, [status], errors if status == "error" else []] for n, status in found]

    def rapi(self, method: str, path: str) -> tuple[int, Any]:
        if method != "GET":
            name = path.split("/")[3]
            return 200, str(self.take([{"instance_name": name, "path": path}]))
        if "/jobs/" in path:
            number = int(path.rsplit("/", 1)[1])
            ((_, status, opstatus, opresult),) = self.luxi("QueryJobs", [[number]])
            return 200, {"status": status, "opstatus": opstatus, "opresult": opresult}
        return super().rapi(method, path)


def test_running(front: Front, tmp_path: Path) -> None:
    message = cluster()
    queue = Queue(message)
    with luxid(tmp_path, queue.luxi) as daemon:
        done = front("group-evacuate", "group00", "-X", "--yes", "--luxi-socket", daemon.path)
    assert done.status == 0
    _, _, jobs = plan(front, message)
    submitted = [
        [{k: v for k, v in operation.items() if k != "reason"} for operation in job]
        for job in queue.jobs.values()
    ]
    assert submitted == jobs
    reasons = {operation["reason"][0][1] for job in queue.jobs.values() for operation in job}
    assert reasons == {"group-evacuate group00"}
    assert done.out.endswith(f"\n{len(jobs)} jobs done\n")
    name = jobs[0][0]["instance_name"]
    lines = [
        line
        for line in done.out.splitlines()
        if re.match(rf"\d\d:\d\d:\d\d set 1/\d+ job 100 {name}: ", line)
    ]
    assert [line.rpartition(": ")[2] for line in lines] == ["queued", "running", "success"]


def test_running_through_rapi(front: Front) -> None:
    message = cluster()
    queue = Queue(message)
    with rapi(queue.rapi) as server:
        options = ("--rapi", server.host, "--rapi-insecure")
        done = front("group-evacuate", "group00", "-X", "--yes", *options)
    assert done.status == 0
    _, _, jobs = plan(front, message)
    assert len(queue.jobs) == sum(len(job) for job in jobs)
    assert all("?reason=group-evacuate+group00" in job[0]["path"] for job in queue.jobs.values())
    assert " job 100/101/102 " in done.out


def test_a_failing_job_stops_the_run(front: Front, tmp_path: Path) -> None:
    message = cluster()
    _, _, jobs = plan(front, message)
    name: str = jobs[0][0]["instance_name"]
    queue = Queue(message, **{name.partition(".")[0]: "error"})
    with luxid(tmp_path, queue.luxi) as daemon:
        done = front("group-evacuate", "group00", "-X", "--yes", "--luxi-socket", daemon.path)
    assert done.status == 1
    assert "error (the disk is gone)" in done.out
    assert f"\nfailed: {name}: " in done.out
    assert len(queue.jobs) < len(jobs)
    assert done.out.count("not begun: ") == len(jobs) - len(queue.jobs)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("nope",), "no node group is named 'nope' (known: group00, group01, group02)"),
        (("group00", "--to", "nope"), "no node group is named 'nope'"),
        (("group00", "--to", "group01,group00"), "group group00 is the one to be left"),
        (("group00", "-X"), "-X runs jobs on a live cluster, not on the file "),
    ],
)
def test_faults(front: Front, options: tuple[str, ...], fault: str) -> None:
    done = front("group-evacuate", *options, "--file", front.message(cluster()))
    assert (done.status, done.out) == (1, "")
    assert f"gnt-steward group-evacuate: {fault}" in done.err


def test_only_one_group(front: Front) -> None:
    done = front("group-evacuate", "group00", "--file", front.message(cluster(groups=1)))
    assert done.status == 1
    assert "cannot be moved: " in done.err


def test_an_instance_between_groups(front: Front) -> None:
    message = cluster()
    stays = members(message, "group01")[0]
    inside = message["instances"][members(message, "group00")[0]]["nodes"][0]
    message["instances"][stays]["nodes"][1] = inside
    done = front("group-evacuate", "group00", "--file", front.message(message))
    primary = message["instances"][stays]["nodes"][0]
    assert done.err == (
        f"Note: {stays} stays: its primary {primary} is in another group, only its secondary is "
        "in group00\n"
    )
    assert stays not in rows(done)


def test_separator(front: Front) -> None:
    options = ("--no-headers", "--separator=|")
    done = front("group-evacuate", "group00", *options, "--file", front.message(cluster()))
    assert all(line.count("|") == 5 for line in done.out.splitlines())
