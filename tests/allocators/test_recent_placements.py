"""Many instances at once: each call counts what the ones before it placed."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
import pytest
from ask import steward
from asserting import some
from clusters import generate
from messages import message as small
from thorough import seeds

from ganeti_steward.allocators.state.load import load
from ganeti_steward.allocators.state.quantity import DISK, FAILS, UNALLOCATED
from ganeti_steward.allocators.state.recent_placements import counted, keep
from ganeti_steward.core.iallocator.message import read_message

if TYPE_CHECKING:
    from front import Front

Message = dict[str, Any]

#: Seconds, and a moment in ns.
LIMIT: Final = 300
NOW: Final = 1_700_000_000 * 10**9

#: Instances that are created at the same time.
STORM: Final = 30


def picture(seed: int) -> Message:
    """A cluster that is not full, and a request for one more instance."""
    return generate(
        "--nodes=8",
        "--mix=drbd=3,ext=1,plain=1",
        f"--seed={seed}",
        f"--fill={(0.3, 0.5, 0.6)[seed % 3]}",
        "--request=allocate",
        f"--new-template={('drbd', 'plain', 'ext')[seed // 3 % 3]}",
    )


def created(message: Message, answer: Message) -> Message:
    """The cluster when the instance of an answer is there, by what it takes of its nodes."""
    after, request = deepcopy(message), message["request"]
    nodes = [after["nodes"][name] for name in answer["result"]]
    for node in nodes if request["disk_template"] in ("drbd", "plain") else ():
        node["free_disk"] -= request["disk_space_total"]
    nodes[0]["free_memory"] -= request["memory"]
    after["instances"][request["name"]] = {**request, "nodes": answer["result"]}
    return after


def installing(message: Message, answer: Message) -> Message:
    """As Ganeti has the instance while its operating system is installed: stopped, with disks."""
    after = created(message, answer)
    request = message["request"]
    after["nodes"][answer["result"][0]]["free_memory"] += request["memory"]
    after["instances"][request["name"]]["admin_state"] = "down"
    return after


def storm(
    message: Message, folder: Path, limit: float, *, recorded: bool = False
) -> list[tuple[Message, Message]]:
    """Requests and answers of instances that are created at once.

    All have the same picture; ``recorded``: with the others as `installing`.
    """
    found = []
    picture = message
    for number in range(STORM):
        one = deepcopy(picture)
        one["request"]["name"] = f"new{number}.example.com"
        now = NOW + number
        answer = steward(counted(one, str(folder), now, limit) if limit else one)
        if answer["success"]:
            keep(one, answer["result"], str(folder), now, 1)
            picture = installing(one, answer) if recorded else message
        found.append((one, answer))
    return found


def faults(message: Message, calls: list[tuple[Message, Message]]) -> int:
    """Nodes without memory or disk, or newly without N+1, when all instances are there."""
    after = deepcopy(message)
    for request, answer in calls:
        if answer["success"]:
            after = created({**after, "request": request["request"]}, answer)
    before, now = (load(read_message(orjson.dumps(one))[0], None, 4096) for one in (message, after))
    bad = (now.now[UNALLOCATED] <= 0) & (before.now[UNALLOCATED] > 0)
    bad |= (now.now[DISK] <= 0) & (before.now[DISK] > 0)
    bad |= (now.now[FAILS] > 0) & (before.now[FAILS] == 0)
    return int((bad & now.frame.usable).sum())


@pytest.mark.parametrize("seed", seeds(9, 60))
def test_a_storm_overcommits_no_node(seed: int, tmp_path: Path) -> None:
    message = picture(seed)
    assert faults(message, storm(message, tmp_path, LIMIT)) == 0


@pytest.mark.parametrize("seed", seeds(9, 60))
def test_a_storm_of_long_installations_overcommits_no_node(seed: int, tmp_path: Path) -> None:
    message = picture(seed)
    assert faults(message, storm(message, tmp_path, LIMIT, recorded=True)) == 0


def test_without_it_long_installations_overcommit_nodes(tmp_path: Path) -> None:
    messages = [picture(seed) for seed in range(9)]
    assert sum(faults(one, storm(one, tmp_path, 0, recorded=True)) for one in some(messages)) > 0


@pytest.mark.parametrize("seed", seeds(9, 60))
def test_what_is_installed_counts_as_what_runs(seed: int, tmp_path: Path) -> None:
    """The next answer is that of the cluster in which the instance runs already."""
    message = picture(seed)
    answer = steward(message)
    keep(message, answer["result"], str(tmp_path), NOW, 1)
    request = {**message["request"], "name": "second.example.com"}
    second = {**installing(message, answer), "request": request}
    there = {**created(message, answer), "request": request}
    after = counted(second, str(tmp_path), NOW + 10**9, LIMIT)
    assert {**after, "notes": None} == {**there, "notes": None} | {
        "instances": {
            name: {**one, "admin_state": after["instances"][name]["admin_state"]}
            for name, one in there["instances"].items()
        }
    }
    found = steward(after)
    assert found["result"] == steward(there)["result"]
    assert f"counted as running: {message['request']['name']}, placed a moment ago" in found["info"]
    # When it runs it is forgotten, so that it counts no more when it is stopped soon after.
    assert counted(there, str(tmp_path), NOW + 2 * 10**9, LIMIT) is there
    assert counted(second, str(tmp_path), NOW + 3 * 10**9, LIMIT) is second


def test_without_it_a_storm_overcommits_nodes(tmp_path: Path) -> None:
    """So the test above can fail."""
    messages = [picture(seed) for seed in range(9)]
    assert sum(faults(one, storm(one, tmp_path, 0)) for one in some(messages)) > 9


@pytest.mark.parametrize("seed", seeds(9, 60))
def test_what_was_placed_counts_as_what_is_there(seed: int, tmp_path: Path) -> None:
    """The next answer is that of the cluster in which the instance was created already."""
    message = picture(seed)
    answer = steward(message)
    keep(message, answer["result"], str(tmp_path), NOW, 1)
    second = {**message, "request": {**message["request"], "name": "second.example.com"}}
    there = {**created(message, answer), "request": second["request"]}
    found = steward(counted(second, str(tmp_path), NOW + 10**9, LIMIT))
    assert found["result"] == steward(there)["result"]
    assert f"counted as there: {message['request']['name']}, placed a moment ago" in found["info"]


def kept(tmp_path: Path) -> Message:
    """The small message; its new instance was placed at `NOW`."""
    message = small()
    keep(message, ["n1.test"], str(tmp_path), NOW, 1)
    message["request"]["name"] = "other.test"
    return message


def test_a_batch_is_counted(tmp_path: Path) -> None:
    message = small("multi-allocate")
    keep(message, [[["new1.test", ["n1.test"]]], ["new2.test"]], str(tmp_path), NOW, 1)
    after = counted(small(), str(tmp_path), NOW + 1, LIMIT)
    assert after["instances"].keys() - message["instances"].keys() == {"new1.test"}
    assert after["nodes"]["n1.test"]["free_memory"] == 16384 - 1024


@pytest.mark.parametrize(
    ("later", "gone"), [(0, False), (LIMIT, False), (LIMIT + 1, True), (-1, True)]
)
def test_its_time_ends(later: int, gone: bool, tmp_path: Path) -> None:
    """A clock that was set back does not keep it for ever."""
    message = kept(tmp_path)
    after = counted(message, str(tmp_path), NOW + later * 10**9, LIMIT)
    assert (after is message) == gone
    assert (list(tmp_path.iterdir()) == []) == gone


def test_what_ganeti_has_recorded_is_forgotten(tmp_path: Path) -> None:
    """So it is not counted again when it is removed soon after."""
    message = kept(tmp_path)
    there = deepcopy(message)
    there["instances"]["new.test"] = {**small()["instances"]["e1.test"]}
    assert counted(there, str(tmp_path), NOW + 1, LIMIT) is there
    assert counted(message, str(tmp_path), NOW + 2, LIMIT) is message


@pytest.mark.parametrize(
    "change",
    [
        {"cluster_name": "another.test"},
        {"request": {**small()["request"], "name": "new.test"}},
        {"nodes": {}},
        {"nodes": []},
        {"instances": None},
        {"request": "none"},
    ],
)
def test_what_does_not_concern_a_message(change: Message, tmp_path: Path) -> None:
    """Of another cluster, requested again, on a node that is gone; or nothing can be added to."""
    message = {**kept(tmp_path), **change}
    assert counted(message, str(tmp_path), NOW + 1, LIMIT) is message


@pytest.mark.parametrize("content", [b"", b"{", b'{"cluster": 1}'])
def test_a_damaged_file_spoils_no_answer(content: bytes, tmp_path: Path) -> None:
    message = kept(tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(content)
    assert counted(message, str(tmp_path), NOW + 1, LIMIT) is message


def test_the_program_counts_it(front: Front) -> None:
    """What is kept has the note and the instance, so `replay` sees what the call saw."""
    front.configure("[allocators]\nrecent = 300", keep=5)
    second = small()
    second["request"]["name"] = "second.test"
    first = front.allocate(front.message(small(), "first.json"))
    assert orjson.loads(first.out)["success"]
    done = front.allocate(front.message(second))
    note = "counted as there: new.test, placed a moment ago"
    assert note in orjson.loads(done.out)["info"]
    again = front("replay")
    assert note in again.out
