"""Repair commands of node agents: each submission once, and queried until its end is known."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from agents import Agent, running
from programs import notes, program, wait_until
from repair_requests import COMMAND
from whitelists import needs_root, whitelist

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.ganeti.this_node import this_node
from ganeti_steward.core.node_agent.protocol import CommandEnd
from ganeti_steward.core.node_agent.remembered import RepairState
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.client import (
    AgentRefused,
    NotConnected,
    OutcomeUnknown,
)
from ganeti_steward.plugins.maintenance.edges.commands import (
    AgentCalls,
    RepairRunner,
    SubmittedCommand,
    agent_calls,
)
from ganeti_steward.plugins.maintenance.edges.poll import Target
from ganeti_steward.plugins.maintenance.engine.decision import (
    NEVER_CAME,
    NOT_KNOWN,
    REFUSED,
    UNCERTAIN,
    CommandResult,
)
from ganeti_steward.plugins.maintenance.runtime import Runtime
from ganeti_steward.plugins.model.incident import Submission

NODE: Final = Target("uuid-1", "node1.lab", "127.0.0.1")
ORIGINAL: Final = b'{"command":"replace-disk","status":"live-repair"}'
#: s since the epoch; submissions have ns.
AT: Final = 1_700_000_000
SUBMISSION: Final = Submission(
    "s1", "command", ("node1.lab",), (), AT * 10**9, command="replace-disk"
)
BROKEN: Final = OutcomeUnknown("it broke; whether replace-disk was run is not known")
FIXED: Final = RepairState("ended", COMMAND, AT, CommandEnd(0, "fixed\n"))
DONE: Final = CommandResult(True, "exit status 0: fixed")
LOST: Final = CommandResult(
    False,
    "the daemon was restarted meanwhile; whether replace-disk was run is not known",
    UNCERTAIN,
)


class Fake:
    """A runner whose commands end when a test lets them, as it wants."""

    def __init__(
        self,
        outcome: CommandEnd | Exception = BROKEN,
        *states: RepairState | Exception,
        limit: float = 300,
    ) -> None:
        """``states``: what the agent answers to questions; the last one again and again."""
        self.calls: list[tuple[SubmittedCommand, bytes]] = []
        self.questions: list[SubmittedCommand] = []
        self.may_end, self.woken = threading.Event(), threading.Event()
        self._outcome, self._states = outcome, list(states or [RepairState("unknown")])
        calls = AgentCalls(self._repair, self._ask, limit)
        self.runner = RepairRunner(
            lambda: calls, self.woken.set, runtime=Runtime(clock=lambda: AT * 10**9), pause=0.01
        )

    def _repair(self, command: SubmittedCommand, diagnose: bytes) -> CommandEnd:
        self.calls.append((command, diagnose))
        assert self.may_end.wait(300)
        return _given(self._outcome)

    def _ask(self, command: SubmittedCommand) -> RepairState:
        self.questions.append(command)
        return _given(self._states.pop(0) if len(self._states) > 1 else self._states[0])

    def start(self, submission: str = "s1") -> None:
        self.runner.start(submission, NODE, COMMAND, ORIGINAL)

    def known(self, *submissions: Submission) -> dict[str, CommandResult]:
        """What is known of some submissions."""
        return self.runner.results([(one, NODE) for one in submissions or [SUBMISSION]])

    def result(self) -> CommandResult:
        """The result of the command, after it has ended."""
        self.start()
        self.may_end.set()
        return self.queried()

    def queried(self) -> CommandResult:
        """The result where another process has started the command."""
        self.known()
        assert self.woken.wait(300)
        return self.known()["s1"]


def _given(result: Any) -> Any:
    if isinstance(result, Exception):
        raise result
    return result


def test_a_result_is_kept() -> None:
    fake = Fake(CommandEnd(0, "fixed\n"))
    fake.start()
    assert fake.known() == {}
    fake.result()
    assert fake.known() == fake.known() == {"s1": DONE}
    command = SubmittedCommand("s1", COMMAND, AT, NODE)
    assert fake.calls == [(command, ORIGINAL)]
    assert fake.questions == []


def test_a_node_that_certainly_does_not_become_the_master() -> None:
    """A refusal of a repair command is its end; here another node may be requested."""
    fake = Fake(AgentRefused("it was not run: late"))
    fake.runner.start("s1", NODE, "master-failover", b"{}", takes_over=True)
    fake.may_end.set()
    assert fake.woken.wait(300)
    assert fake.known()["s1"] == CommandResult(False, "it was not run: late", REFUSED)
    assert Fake(AgentRefused("refused")).result() == CommandResult(False, "refused")


@pytest.mark.parametrize(
    ("outcome", "ok", "text"),
    [
        (CommandEnd(0), True, "exit status 0"),
        (CommandEnd(3, " no\n disk "), False, "exit status 3: no disk"),
        (CommandEnd(-9, "", "killed after 60 s"), False, "killed after 60 s"),
        (CommandEnd(0, "half", "killed after 60 s"), False, "killed after 60 s: half"),
        (CommandEnd(None), False, "no exit status"),
        (CommandEnd(0, "x" * 5000), True, "exit status 0: ..." + "x" * 1000),
    ],
)
def test_outcomes(outcome: CommandEnd, ok: bool, text: str) -> None:
    found = Fake(outcome).result()
    assert (found.ok, found.text[: len(text)]) == (ok, text)


@pytest.mark.parametrize(
    "fault", [NotConnected("no route"), BROKEN, StewardError("no nonce"), ValueError("oops")]
)
def test_what_is_not_answered_is_queried(fault: Exception) -> None:
    fake = Fake(fault, FIXED)
    assert fake.result() == DONE
    assert len(fake.questions) == 1


def test_a_refusal_is_no_question() -> None:
    fake = Fake(AgentRefused("refused"), FIXED)
    assert fake.result() == CommandResult(False, "refused")
    assert fake.questions == []


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (FIXED, DONE),
        (FIXED._replace(outcome=CommandEnd(3)), CommandResult(False, "exit status 3")),
        (
            FIXED._replace(outcome=CommandEnd(-15)),
            CommandResult(False, "exit status -15", UNCERTAIN),
        ),
        (
            RepairState("lost", COMMAND, AT),
            CommandResult(
                False,
                "replace-disk was started at 2023-11-14 22:13:20 UTC, and how it ended is not "
                "known: the agent or the node was restarted meanwhile",
                UNCERTAIN,
            ),
        ),
        (
            RepairState("never"),
            CommandResult(False, "replace-disk did not reach the agent", NEVER_CAME),
        ),
        (
            RepairState("unknown"),
            CommandResult(
                False,
                "whether replace-disk was run is not known: the memory of the agent does not go "
                "back so far",
                UNCERTAIN,
            ),
        ),
        (
            ValueError("oops"),
            CommandResult(False, "oops; whether replace-disk was run is not known", UNCERTAIN),
        ),
    ],
)
def test_a_command_of_an_earlier_process(
    state: RepairState | Exception, expected: CommandResult
) -> None:
    fake = Fake(CommandEnd(0), state)
    assert fake.queried() == expected
    fake.start()
    assert fake.known() == {"s1": expected}
    assert fake.calls == [], "it is not run again"
    assert fake.questions == [SubmittedCommand("s1", COMMAND, AT, NODE)]


@pytest.mark.parametrize("error", [BROKEN, NotConnected("no route"), StewardError("no nonce")])
def test_a_lost_connection(error: StewardError) -> None:
    """Its agent is queried as soon as it answers again."""
    silent = NotConnected("no route")
    fake = Fake(error, silent, silent, RepairState("running", COMMAND, AT), FIXED)
    assert fake.result() == DONE
    assert (len(fake.calls), len(fake.questions)) == (1, 4)


def test_while_the_agent_does_not_answer() -> None:
    fake = Fake(CommandEnd(0), NotConnected("no route"))
    text = "whether replace-disk was run is not known: no route"
    wait_until(
        lambda: fake.known() == {"s1": CommandResult(False, text, NOT_KNOWN)}, "the sentence"
    )
    fake._states.append(FIXED)
    assert fake.queried() == DONE


def test_while_it_runs() -> None:
    """Nothing is held then."""
    fake = Fake(CommandEnd(0), RepairState("running", COMMAND, AT))
    fake.known()
    wait_until(lambda: len(fake.questions) > 3, "some questions")
    assert fake.known() == {}
    fake._states.append(FIXED)
    assert fake.queried() == DONE


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (NotConnected("no route"), "whether replace-disk was run is not known: no route"),
        (RepairState("running", COMMAND, AT), "replace-disk still ran after 0.05 s"),
    ],
)
def test_not_for_ever(state: RepairState | Exception, text: str) -> None:
    expected = CommandResult(False, text, UNCERTAIN)
    assert Fake(CommandEnd(0), state, limit=0.05).queried() == expected


def test_a_command_that_never_arrives() -> None:
    """It is started again, but not for ever."""
    fake, results = Fake(NotConnected("no route"), RepairState("never")), []
    fake.may_end.set()
    for number in range(5):
        one = SUBMISSION._replace(id=f"s{number}")
        fake.start(one.id)
        wait_until(lambda one=one: fake.known(one), "the result")
        results.append(fake.known(one)[one.id])
    assert [one.state for one in results[:4]] == [NEVER_CAME] * 4
    assert results[4] == CommandResult(
        False, "replace-disk did not reach the agent 5 times: no route"
    )


def test_a_submission_that_is_closed_is_not_queried() -> None:
    """And no thread is left; should it be open again, it is queried again."""
    before, fake = threading.active_count(), Fake(CommandEnd(0), NotConnected("no route"))
    fake.known()
    wait_until(lambda: fake.questions, "a question")
    fake.runner.results([])
    wait_until(lambda: threading.active_count() == before, "the end of the thread")
    assert fake.runner.results([]) == {}
    fake._states.append(FIXED)
    fake.woken.clear()
    assert fake.queried() == DONE


def test_a_submission_is_never_run_twice() -> None:
    fake = Fake(CommandEnd(0))
    fake.start()
    fake.start()
    fake.result()
    fake.start()
    fake.start("s2")
    other = SUBMISSION._replace(id="s2")
    wait_until(lambda: fake.known(other), "the end of the other submission")
    assert len(fake.calls) == 2


def test_jobs_are_not_its_business() -> None:
    fake = Fake(CommandEnd(0))
    assert fake.known(SUBMISSION._replace(id="s2", command="", jobs=(7,))) == {}
    assert fake.questions == []


def test_without_any_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake(CommandEnd(0), FIXED)

    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none)
        fake.start()
        assert fake.woken.is_set()
        text = "replace-disk was not run: can't start new thread"
        other = SUBMISSION._replace(id="s2")
        assert fake.known(SUBMISSION, other) == {"s1": CommandResult(False, text)}
    wait_until(lambda: fake.known(other) == {"s2": DONE}, "the other one, which is queried later")


# The real agent


@pytest.fixture
def commands() -> Iterator[Path]:
    with whitelist() as path:
        yield path


def test_restarts_of_the_daemon_do_not_make_it_wait_longer() -> None:
    """Twice the limit after it was handed over nothing more is expected of any query."""
    fake = Fake(CommandEnd(0), NotConnected("no route"))
    old = SUBMISSION._replace(at=(AT - 601) * 10**9)
    fake.known(old)
    assert fake.woken.wait(300)
    assert fake.known(old)["s1"].state == UNCERTAIN
    young = Fake(CommandEnd(0), NotConnected("no route"))
    recent = SUBMISSION._replace(at=(AT - 599) * 10**9)
    young.known(recent)
    while not young.questions:
        young.woken.wait(0.01)
    assert young.known(recent).get("s1", LOST._replace(state=NOT_KNOWN)).state == NOT_KNOWN


def runner_of(agent: Agent) -> tuple[RepairRunner, Target]:
    """Another process of the daemon, and its node."""
    settings, key = Maintd(agent_port=agent.port), KeyFile(str(agent.key_file))
    runner = RepairRunner(lambda: agent_calls(settings, key), lambda: None, pause=0.05)
    return runner, Target("u", this_node().name, agent.address)


def result(runner: RepairRunner, target: Target, submission: Submission) -> CommandResult:
    """What came of a submission, in the end."""
    found: list[CommandResult] = []

    def has_ended() -> bool:
        found[:] = runner.results([(submission, target)]).values()
        return bool(found) and found[0].state != NOT_KNOWN

    wait_until(has_ended, "the result")
    return found[0]


@needs_root
def test_the_real_agent(tmp_path: Path, commands: Path) -> None:
    """The daemon is restarted while a command runs, and after it has ended."""
    go_on = commands / "go-on"
    source = f"cat >> NOTES; until [ -e {go_on} ]; do sleep 0.02; done; echo fixed"
    path = program(commands, COMMAND, source)
    options = ("--repair-directory", str(commands))
    with running(tmp_path, *options, settings="repair = true") as agent:
        first, target = runner_of(agent)
        first.start("s1", target, COMMAND, ORIGINAL)
        wait_until(lambda: notes(path), "the command")
        second, _ = runner_of(agent)
        submission = SUBMISSION._replace(at=time.time_ns())
        second.results([(submission, target)])
        go_on.touch()
        third, _ = runner_of(agent)
        for runner in (first, second, third):
            assert result(runner, target, submission) == DONE
    assert notes(path).encode() == ORIGINAL


@needs_root
def test_an_agent_that_was_away(tmp_path: Path, commands: Path) -> None:
    """A command that it never got is known to be that, one it was killed with as well."""
    path = program(commands, COMMAND, "echo run >> NOTES; sleep 3600")
    options = ("--repair-directory", str(commands))
    with running(tmp_path, *options, settings="repair = true") as agent:
        before, port = runner_of(agent), agent.port
        before[0].start("s1", before[1], COMMAND, ORIGINAL)
        wait_until(lambda: notes(path), "the command")
        agent.process.kill()
        agent.process.wait()
    before[0].start("s2", before[1], COMMAND, ORIGINAL)
    _age(tmp_path)
    again = (*options, "--port", str(port))
    with running(tmp_path, *again, settings="repair = true"):
        lost = result(*before, SUBMISSION)
        assert lost.text.startswith("replace-disk was started at 20")
        assert "the agent or the node was restarted meanwhile" in lost.text
        other = SUBMISSION._replace(id="s2")
        assert result(*before, other).state == NEVER_CAME
    assert notes(path) == "run\n"


def _age(path: Path) -> None:
    """Have the agent's memory begin long ago."""
    file = path / "diagnose" / "commands" / "commands.json"
    text = file.read_text()
    begun = text.partition('"began":')[2].partition(",")[0]
    file.write_text(text.replace(f'"began":{begun}', '"began":1'))
