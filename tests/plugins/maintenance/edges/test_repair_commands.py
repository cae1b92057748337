"""Repair commands of node agents: each submission once."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from agents import running
from programs import notes, program, wait_until
from repair_requests import COMMAND, KEY
from whitelists import needs_root, whitelist

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.ganeti.this_node import this_node
from ganeti_steward.core.maintenance.incident import Submission
from ganeti_steward.core.node_agent.client import NotConnected, OutcomeUnknown
from ganeti_steward.core.node_agent.protocol import Outcome
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.commands import RepairRunner, agent_repairs
from ganeti_steward.plugins.maintenance.edges.poll import Target
from ganeti_steward.plugins.maintenance.engine.decision import CommandResult

NODE: Final = Target("uuid-1", "node1.lab", "127.0.0.1")
ORIGINAL: Final = b'{"command":"replace-disk","status":"live-repair"}'
SUBMISSION: Final = Submission("s1", "command", ("node1.lab",), (), 5, command="replace-disk")

LOST: Final = CommandResult(
    False, "the daemon was restarted meanwhile; whether replace-disk was run is not known"
)


class Fake:
    """A runner whose commands end when a test lets them, as it wants."""

    def __init__(self, outcome: Outcome | Exception) -> None:
        self.calls: list[tuple[Target, str, Mapping[str, Any]]] = []
        self.may_end, self.woken = threading.Event(), threading.Event()
        self._outcome = outcome
        self.runner = RepairRunner(self._repair, self.woken.set)

    def _repair(self, *call: Any) -> Outcome:
        self.calls.append(call)
        assert self.may_end.wait(300)
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def start(self, submission: str = "s1") -> None:
        self.runner.start(submission, NODE, COMMAND, ORIGINAL)

    def result(self) -> CommandResult:
        """The result, after the command has ended."""
        self.start()
        self.may_end.set()
        assert self.woken.wait(300)
        return self.runner.results([SUBMISSION])["s1"]


def test_a_result_is_kept() -> None:
    fake = Fake(Outcome(0, "fixed\n"))
    fake.start()
    assert fake.runner.results([SUBMISSION]) == {}
    expected = {"s1": CommandResult(True, "exit status 0: fixed")}
    fake.result()
    assert fake.runner.results([SUBMISSION]) == expected
    assert fake.runner.results([SUBMISSION]) == expected
    assert fake.calls == [(NODE, COMMAND, {"command": COMMAND, "status": "live-repair"})]


@pytest.mark.parametrize(
    ("outcome", "ok", "text"),
    [
        (Outcome(0), True, "exit status 0"),
        (Outcome(3, " no\n disk "), False, "exit status 3: no disk"),
        (Outcome(-9, "", "killed after 60 s"), False, "killed after 60 s"),
        (Outcome(0, "half", "killed after 60 s"), False, "killed after 60 s: half"),
        (Outcome(None), False, "no exit status"),
        (Outcome(0, "x" * 5000), True, "exit status 0: ..." + "x" * 1000),
        (NotConnected("no route"), False, "no route"),
        (OutcomeUnknown("it broke; whether it was run is not known"), False, "it broke; whether"),
        (StewardError("no nonce"), False, "no nonce"),
        (ValueError("oops"), False, "oops; whether replace-disk was run is not known"),
    ],
)
def test_outcomes(outcome: Outcome | Exception, ok: bool, text: str) -> None:
    found = Fake(outcome).result()
    assert (found.ok, found.text[: len(text)]) == (ok, text)


def test_a_submission_is_never_run_twice() -> None:
    fake = Fake(Outcome(0))
    fake.start()
    fake.start()
    fake.result()
    fake.start()
    fake.start("s2")
    other = SUBMISSION._replace(id="s2")
    wait_until(lambda: fake.runner.results([other]), "the end of the other submission")
    assert len(fake.calls) == 2


def test_jobs_are_not_its_business() -> None:
    fake = Fake(Outcome(0))
    assert fake.runner.results([SUBMISSION._replace(id="s2", command="", jobs=(7,))]) == {}


def test_a_command_of_an_earlier_process() -> None:
    """Nothing is known about it, so that it must not count as done."""
    assert Fake(Outcome(0)).runner.results([SUBMISSION]) == {"s1": LOST}


def test_without_any_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake(Outcome(0))

    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    fake.start()
    assert fake.woken.is_set()
    assert fake.runner.results([SUBMISSION]) == {
        "s1": CommandResult(False, "replace-disk was not run: can't start new thread")
    }


@needs_root
def test_the_real_agent(tmp_path: Path) -> None:
    with whitelist() as commands:
        path = program(commands, COMMAND, "cat > NOTES; echo fixed")
        options = ("--repair-directory", str(commands))
        with running(tmp_path, *options, settings="repair = true") as agent:
            (tmp_path / "key").write_bytes(KEY)
            settings = Maintd(agent_port=agent.port)
            woken = threading.Event()
            repair = agent_repairs(settings, KeyFile(str(tmp_path / "key")))
            runner = RepairRunner(repair, woken.set)
            runner.start("s1", Target("u", this_node().name, agent.address), COMMAND, ORIGINAL)
            assert woken.wait(300)
        assert runner.results([SUBMISSION]) == {"s1": CommandResult(True, "exit status 0: fixed")}
        assert notes(path).encode() == ORIGINAL
