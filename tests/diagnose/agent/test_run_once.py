"""The same id is never run twice, whatever happens to the agent, its file and its disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from agents import Agent, running
from killed_repairs import ID, POINTS, run, runs
from programs import notes, program, wait_until
from repair_bench import Bench
from repair_requests import COMMAND, KEY, NODE, question, request
from whitelists import needs_root, whitelist

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.ganeti.signing import sign
from ganeti_steward.core.ganeti.this_node import this_node
from ganeti_steward.core.node_agent.protocol import CommandEnd
from ganeti_steward.core.process.trusted_program import Forbidden
from ganeti_steward.diagnose.agent.memory import FILE, KEPT, OUTPUT, SET_ASIDE
from ganeti_steward.plugins.maintenance.edges.client import OutcomeUnknown

#: s since the epoch: when the bench begins, and when commands are submitted.
BEGUN: Final = 1000
LATER: Final = 5000

SUPPORT: Final = Path(__file__).parents[2] / "support" / "node"


class Node:
    """A node whose agents come and go; every command notes that it was run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bench = Bench(path, BEGUN)
        self.restart(LATER)

    @property
    def file(self) -> Path:
        return self.bench.memory / FILE

    def restart(self, now: float) -> None:
        """Another process of the agent."""
        self.bench = Bench(self.path, now)
        self.bench.execute = lambda _: run(self.path)

    def repair(self, id_: str = ID, submitted: int = LATER, **more: Any) -> dict[str, Any]:
        """Request the command; the answer without what is the same in all."""
        raw = request(self.bench.nonce(), id=id_, submitted=submitted, **more)
        return self._short(self.bench.ask(raw), id_)

    def state(self, id_: str = ID, submitted: int = LATER) -> dict[str, Any]:
        """What it answers to a question."""
        text = json.dumps(question(id=id_, submitted=submitted))
        return self._short(self.bench.query(sign(KEY, text, self.bench.nonce())), id_)

    def _short(self, found: dict[str, Any] | None, id_: str) -> dict[str, Any]:
        assert found is not None
        same = {"purpose": "repair-state", "node": NODE.uuid, "id": id_}
        assert {name: found.pop(name) for name in same} == same
        return found


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def ended(started: int, status: int | None = 0, output: str = "fixed\n", fault: str = "") -> Any:
    return {
        "state": "ended",
        "command": COMMAND,
        "started": started,
        "status": status,
        "output": output,
        "fault": fault,
    }


def test_a_second_request_gets_the_first_ones_result(node: Node) -> None:
    first = node.repair()
    assert first == ended(LATER)
    for now in (LATER, LATER + 10):
        assert node.repair() == node.state() == ended(LATER)
        node.restart(now)
    assert runs(node.path) == 1


def test_another_id_is_another_run(node: Node) -> None:
    node.repair()
    node.repair("id-2")
    assert runs(node.path) == 2


def test_the_same_id_with_another_command(node: Node) -> None:
    """The answer names the command that was run."""
    node.repair()
    diagnose = {"status": "live-repair", "command": "reboot"}
    assert node.repair(command="reboot", diagnose=diagnose) == ended(LATER)
    assert runs(node.path) == 1


def test_while_it_runs(node: Node) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def wait(_: object) -> CommandEnd:
        begun.set()
        assert may_end.wait(300)
        return run(node.path)

    node.bench.execute = wait
    first = threading.Thread(target=node.repair)
    first.start()
    assert begun.wait(300)
    try:
        assert [node.repair()["state"], node.state()["state"]] == ["running"] * 2
        refused = request(node.bench.nonce(), id="id-2", submitted=LATER)
        assert node.bench.ask(refused) is None, "one command at a time"
    finally:
        may_end.set()
        first.join()
    assert node.state() == ended(LATER)
    assert runs(node.path) == 1


def test_many_threads_with_one_id(node: Node) -> None:
    """Each has a nonce of its own; who comes while it runs, or later, learns that."""
    answers = list[Any]()
    requests = [request(node.bench.nonce(), id=ID, submitted=LATER) for _ in range(16)]

    def ask(raw: bytes) -> None:
        start.wait()
        answers.append(node.bench.ask(raw))

    start = threading.Barrier(len(requests))
    threads = [threading.Thread(target=ask, args=(raw,)) for raw in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert runs(node.path) == 1
    # In the moment in which another one begins, one is refused.
    assert {one["state"] for one in answers if one} <= {"running", "ended"}


@pytest.mark.parametrize("id_", ["id-1", "another"])
def test_queried_before_it_comes(node: Node, id_: str) -> None:
    """It never came, so the caller may start it again; a late request must not run it then."""
    assert node.state()["state"] == "never"
    assert node.repair()["state"] == "never"
    assert node.state()["state"] == "never"
    assert runs(node.path) == 0


def test_a_command_that_must_not_be_run(node: Node) -> None:
    def forbid(_: object) -> CommandEnd:
        raise Forbidden("it is not root's")

    node.bench.execute = forbid
    assert node.bench.ask(request(node.bench.nonce(), id=ID, submitted=LATER)) is None
    node.bench.wait()
    fault = "it was not run: it is not root's"
    assert node.state() == ended(LATER, None, "", fault)


def test_an_execution_that_breaks(node: Node) -> None:
    def fail(_: object) -> CommandEnd:
        raise RuntimeError("broken")

    node.bench.execute = fail
    with pytest.raises(RuntimeError):
        node.repair()
    assert node.state()["state"] == "lost"
    assert runs(node.path) == 0


# Kills


@pytest.mark.parametrize("again", ["queried first", "requested at once"])
@pytest.mark.parametrize("point", POINTS)
def test_killed(node: Node, point: str, again: str) -> None:
    """The answer after it is true, and nothing is run twice."""
    arguments = [sys.executable, "-P", str(SUPPORT / "killed_repairs.py")]
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    call = [*arguments, str(node.path), str(LATER), point]
    assert subprocess.run(call, env=environment, check=False).returncode == -9
    before = runs(node.path)
    node.restart(LATER + 10)
    came = point not in ("before the intent", "while the intent is written")
    if again == "queried first":
        found = node.state()
        expected = "never" if not came else "ended" if point == "after the result" else "lost"
        assert found["state"] == expected
        assert found["started"] == (LATER if came else 0)
        assert node.repair()["state"] == expected
        assert runs(node.path) == before
    else:
        node.repair()
        node.repair()
        assert runs(node.path) == (before if came else 1)
    assert before == (point in ("before the result", *list(POINTS)[-2:]))


# The file


DAMAGES: Final[dict[str, Callable[[Path], object]]] = {
    "empty": lambda file: file.write_bytes(b""),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-20]),
    "no JSON": lambda file: file.write_bytes(b"{"),
    "deep": lambda file: file.write_bytes(b"[" * 100_000),
    "long": lambda file: file.write_bytes(b" " * (2**24 + 1)),
    "a list": lambda file: file.write_bytes(b"[]"),
    "another form": lambda file: edit(file, form=2),
    "of another machine": lambda file: edit(file, host="elsewhere"),
    "no commands": lambda file: edit(file, commands=None),
    "a wrong time": lambda file: edit(file, began="now"),
    "a wrong id": lambda file: edit(file, commands=[{"id": "../x"}]),
    "a directory": lambda file: (file.unlink(), file.mkdir()),
    "a link": lambda file: (file.rename(file.with_name("x")), file.symlink_to("x")),
    "of others": lambda file: os.chown(file, 1000, 1000),
}


def edit(file: Path, **changed: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changed))


@needs_root
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file(node: Node, damage: Callable[[Path], object]) -> None:
    """What was before it is not known any more, and not run again; what comes then is run."""
    node.repair()
    damage(node.file)
    node.restart(LATER + 10)
    assert node.repair()["state"] == "unknown"
    assert node.state("id-2", LATER + 5)["state"] == "unknown"
    assert runs(node.path) == 1
    assert node.repair("id-3", LATER + 200)["state"] == "ended"
    assert node.state("id-4", LATER + 200)["state"] == "never"
    assert node.file.with_name(FILE + SET_ASIDE).exists()


def test_no_file(node: Node) -> None:
    """An agent of before may have run what is queried now; what comes now did not come before."""
    node.file.unlink()
    node.restart(LATER)
    assert node.state("id-1", LATER)["state"] == "unknown"
    assert node.repair("id-2", LATER)["state"] == "ended"


def test_a_directory_that_takes_nothing(node: Node) -> None:
    """It is remembered while the agent runs, and after that nothing is taken for sure."""
    node.repair("id-1")
    commands = node.bench.memory
    commands.rename(commands.with_name("moved"))
    commands.write_text("no directory")
    assert node.repair("id-2")["state"] == node.repair("id-2")["state"] == "ended"
    assert runs(node.path) == 2
    node.restart(LATER + 10)
    assert [node.repair("id-2")["state"], node.state("id-3")["state"]] == ["unknown"] * 2
    assert runs(node.path) == 2


def test_a_disk_that_comes_back(node: Node) -> None:
    """What was not written then is written with the next command."""
    commands = node.bench.memory
    commands.rename(commands.with_name("moved"))
    node.repair("id-1")
    commands.with_name("moved").rename(commands)
    node.repair("id-2")
    node.restart(LATER + 10)
    assert [node.state("id-1")["state"], node.state("id-2")["state"]] == ["ended"] * 2


def test_it_does_not_grow(node: Node) -> None:
    """The oldest are forgotten; what was submitted before them is not run again."""
    node.bench.execute = lambda _: CommandEnd(0, "x" * 10_000 + "end", "y" * 10_000)
    for number in range(KEPT + 5):
        node.bench.now = LATER + 1000 * number
        node.repair(f"id-{number}", int(node.bench.now))
    assert node.file.stat().st_size < KEPT * (2 * OUTPUT + 300)
    assert node.state("id-5", LATER)["output"].endswith("xend")
    assert [node.repair("id-4", LATER + 4000)["state"] for _ in range(2)] == ["unknown"] * 2
    assert node.state("id-x", LATER + 4000)["state"] == "unknown"
    assert node.state("id-y", LATER + 5000)["state"] == "never"


def test_many_questions(node: Node) -> None:
    for number in range(3000):
        node.state(f"queried-{number}")
    assert node.repair()["state"] == "ended"
    assert len(node.bench.repairs._memory._queried) <= 1024


@pytest.mark.parametrize("changed", [{"purpose": "repair"}, {"node": "node2.lab"}, {"id": ""}])
def test_what_is_no_question(node: Node, changed: dict[str, Any]) -> None:
    raw = sign(KEY, json.dumps(question(**changed)), node.bench.nonce())
    assert node.bench.query(raw) is None


def test_a_question_is_good_once(node: Node) -> None:
    raw = sign(KEY, json.dumps(question()), node.bench.nonce())
    assert node.bench.query(raw) is not None
    assert node.bench.query(raw) is None


def test_a_request_is_no_question(node: Node) -> None:
    assert node.bench.query(request(node.bench.nonce(), id=ID, submitted=LATER)) is None
    node.bench.wait()
    raw = sign(KEY, json.dumps(question()), node.bench.nonce())
    assert node.bench.ask(raw) is None


# The real agent


@pytest.fixture
def commands() -> Iterator[Path]:
    with whitelist() as path:
        yield path


DIAGNOSE: Final = canonical({"status": "live-repair", "command": COMMAND})


def real(path: Path, commands: Path) -> Any:
    return running(path, "--repair-directory", str(commands), settings="repair = true")


def repaired(agent: Agent) -> str:
    """Have a command run; what the caller learns."""
    once = ("id-1", LATER)
    try:
        return str(agent.client().repair(this_node().identity, COMMAND, DIAGNOSE, 300, once))
    except OutcomeUnknown as err:
        return str(err)


@needs_root
@pytest.mark.parametrize(
    ("number", "state", "fault"),
    [(9, "lost", ""), (15, "ended", "it was stopped because the agent ended")],
)
def test_the_agent_is_ended_while_a_command_runs(
    tmp_path: Path, commands: Path, number: int, state: str, fault: str
) -> None:
    """By a kill, or as systemd does."""
    path = program(commands, COMMAND, "echo run >> NOTES; sleep 3600")
    learnt: list[str] = []
    with real(tmp_path, commands) as agent:
        caller = threading.Thread(target=lambda: learnt.append(repaired(agent)))
        caller.start()
        wait_until(lambda: notes(path) == "run\n", "the command")
        assert agent.client().repair_state(this_node().identity, "id-1", LATER).state == "running"
        agent.process.send_signal(number)
        caller.join()
    with real(tmp_path, commands) as agent:
        found = agent.client().repair_state(this_node().identity, "id-1", LATER)
        again = repaired(agent)
    assert (found.state, found.command, found.outcome) == (
        state,
        COMMAND,
        CommandEnd(None, "", fault),
    )
    if fault:
        assert learnt == [again] == [str(CommandEnd(None, "", fault))]
    else:
        assert "the connection broke" in learnt[0]
        assert "the command with its id is lost" in again
    assert notes(path) == "run\n"
