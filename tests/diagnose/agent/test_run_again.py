"""The same command for the same object is not run again before some time has passed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from repair_bench import Bench
from repair_requests import COMMAND, request

from ganeti_steward.core.node_agent.protocol import CommandEnd
from ganeti_steward.core.node_agent.remembered import ENDED
from ganeti_steward.diagnose.agent.memory import FILE, KEPT

#: s since the epoch, and s
NOW: Final = 5000.0
PAUSE: Final = 3600.0


class Node:
    """A node that counts the runs of its command, whose agents come and go."""

    def __init__(self, path: Path) -> None:
        self.path, self.runs, self.now = path, 0, NOW
        self.restart()

    def restart(self, pause: float = PAUSE) -> None:
        """Another process of the agent."""
        self.bench = Bench(self.path, self.now, pause)
        self.bench.execute = self._execute

    def _execute(self, _: object) -> CommandEnd:
        self.runs += 1
        return CommandEnd(0, "fixed\n")

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.bench.now = self.now

    def ask(self, **more: Any) -> dict[str, Any]:
        """What the signed answer to a request has."""
        found = self.bench.ask(request(self.bench.nonce(), **more))
        assert found is not None
        return found

    def once(self, id_: str, **more: Any) -> dict[str, Any]:
        """The same for a request with an id."""
        return self.ask(id=id_, submitted=int(self.now), **more)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_the_same_object_again(node: Node) -> None:
    """The answer is signed, and says in one sentence how long it takes."""
    assert node.once("id-1")["fault"] == ""
    node.wait(600)
    refused = node.once("id-2")
    assert (refused["state"], refused["command"], refused["status"]) == (ENDED, COMMAND, None)
    assert refused["fault"] == (
        "it was not run: replace-disk was run for the same diagnose object 600 s ago, and is not "
        "run again for another 3000 s (agent.repair-again-after)"
    )
    assert node.runs == 1


def test_after_that_time(node: Node) -> None:
    """What was refused meanwhile does not count, and an id that was refused may come again."""
    node.once("id-1")
    node.wait(PAUSE - 1)
    assert node.once("id-2")["fault"]
    node.wait(1)
    assert node.once("id-2")["fault"] == ""
    assert node.runs == 2


def test_the_first_id_still_has_its_own_result(node: Node) -> None:
    node.once("id-1")
    assert node.once("id-1")["output"] == "fixed\n"
    assert node.runs == 1


def test_another_object_or_another_command(node: Node) -> None:
    node.once("id-1")
    node.once("id-2", diagnose={"status": "live-repair", "command": COMMAND, "details": ["sdb"]})
    node.once("id-3", command="reboot", diagnose={"status": "live-repair", "command": "reboot"})
    assert node.runs == 3


def test_the_order_of_members_makes_no_other_object(node: Node) -> None:
    node.once("id-1")
    node.once("id-2", diagnose={"details": ["sda"], "command": COMMAND, "status": "live-repair"})
    assert node.runs == 1


def test_after_a_restart(node: Node) -> None:
    node.once("id-1")
    node.wait(60)
    node.restart()
    assert "60 s ago" in node.once("id-2")["fault"]
    assert node.runs == 1


@pytest.mark.parametrize("apart", [-PAUSE + 1, PAUSE - 1, -PAUSE, PAUSE])
def test_a_clock_that_was_set(node: Node, apart: float) -> None:
    """Back or forward: it is never refused for longer than the configured time."""
    node.wait(10 * PAUSE)
    node.once("id-1")
    node.wait(apart)
    node.once("id-2")
    assert node.runs == (1 if abs(apart) < PAUSE else 2)


def test_no_limit(node: Node) -> None:
    node.restart(0)
    for number in range(3):
        node.once(f"id-{number}")
    assert node.runs == 3


def test_more_commands_than_are_remembered(node: Node) -> None:
    """What would have to be forgotten too early is not begun."""
    for number in range(KEPT):
        node.once(f"id-{number}", diagnose=diagnose(number))
    found = node.once("id-more", diagnose=diagnose(KEPT))
    assert found["fault"].startswith(f"it was not run: {KEPT} commands were run within the last")
    assert "not run again" in node.once("id-again", diagnose=diagnose(0))["fault"]
    assert node.runs == KEPT
    node.wait(PAUSE)
    node.once("id-more", diagnose=diagnose(KEPT))
    assert node.runs == KEPT + 1


def diagnose(number: int) -> dict[str, Any]:
    return {"status": "live-repair", "command": COMMAND, "details": number}


def test_a_file_of_the_version_before(node: Node) -> None:
    """It has no objects: nothing of what is in it is refused, and ids count as before."""
    node.once("id-1")
    file = node.bench.memory / FILE
    content = json.loads(file.read_text())
    for one in content["commands"]:
        del one["object"]
    file.write_text(json.dumps(content))
    node.restart()
    assert node.once("id-1")["output"] == "fixed\n"
    assert node.runs == 1
    assert node.once("id-2")["fault"] == ""
    assert node.runs == 2
