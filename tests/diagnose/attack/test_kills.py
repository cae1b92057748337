"""Diagnoses and agents that are killed at any moment: what they leave does not stay."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from agents import Agent, running
from misbehaving import KINDS, Node, sections
from programs import TIME_LIMIT, wait_until
from thorough import often
from whitelists import needs_root, safe_directory

REPORT = "/1/report/node/diagnose"

#: What is run: each gets away in another way, and one of them hangs.
SOME = [kind for kind in KINDS if kind.output == "fault" and kind.signals == "deaf"][1:8:2]


@pytest.fixture
def node() -> Iterator[Node]:
    with safe_directory() as place:
        node = Node(place)
        node.prepare(SOME)
        yield node


def left_files(node: Node) -> list[str]:
    """What no finished run leaves."""
    return [name for name in os.listdir(node.directory) if name.endswith(".new")]


@needs_root
def test_a_killed_diagnosis(node: Node) -> None:
    """No process, no lock, no half file; and the next run reports what there is."""
    whole = node.run()
    shuffled = random.Random(13)
    for number in range(often(2, 34)):
        for how in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
            with node.start() as process:
                with suppress(TimeoutError):
                    _wait(process.pid, shuffled.uniform(0, 1.5))
                process.send_signal(how)
            # What the killed one was writing.
            (node.directory / f".report.json.{process.pid}.new").write_text("half")
            node.check_quiet()
        report = node.run()
        assert (report["data"], report["unknown"]) == (whole["data"], whole["unknown"]), number
        assert left_files(node) == []
        node.check_quiet()


def _wait(pid: int, seconds: float) -> None:
    """Wait, but not for a process that has ended; raises TimeoutError."""
    last = time.monotonic() + seconds
    while time.monotonic() < last:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        time.sleep(0.01)
    raise TimeoutError


@contextmanager
def agent_of(node: Node) -> Iterator[Agent]:
    """An agent that diagnoses the node's misbehaving commands again and again."""
    text = "; ".join(line for line in sections(node.path, SOME) if line)
    own = node.path / f"agent{time.monotonic_ns()}"
    own.mkdir()
    with running(own, settings=f"interval = 0.1; {text}", directory=str(node.directory)) as agent:
        yield agent


def is_reported(agent: Agent, since: int) -> bool:
    """Whether there is a new report with all that is known; ``since``: ns since the epoch."""
    report = agent.get(REPORT)
    silent = {f"nagios:{kind.name}" for kind in SOME if not kind.is_heard}
    unknown = {one["source"] for one in report["unknown"]}
    return report["timestamp"] > since and silent <= unknown and bool(report["data"])


@needs_root
def test_a_killed_agent(node: Node) -> None:
    """All that it has started ends, and the next one serves a report."""
    shuffled = random.Random(13)
    for number in range(often(2, 100)):
        before = time.time_ns()
        with agent_of(node) as agent:
            if number:
                wait_until(lambda: is_reported(agent, before), "a report")  # noqa: B023
            time.sleep(shuffled.uniform(0, 1))
            agent.process.kill()
            agent.process.wait(TIME_LIMIT)
        node.check_quiet()


@needs_root
def test_the_diagnosing_process_is_killed(node: Node) -> None:
    """Another one takes its place, and nothing of the first one stays."""
    with agent_of(node) as agent:
        for number in range(often(1, 20)):
            before = agent.get(REPORT)["timestamp"]
            wait_until(lambda: agent.get(REPORT)["timestamp"] > before, "a report")  # noqa: B023
            first = agent.child
            children = _below(first)
            os.kill(first, signal.SIGKILL)
            wait_until(lambda: not any(map(_is_alive, children)), "the end of it all")  # noqa: B023
            before = time.time_ns()
            wait_until(lambda: is_reported(agent, before), "a report")  # noqa: B023
            assert agent.child != first, number
    node.check_quiet()


def _below(pid: int) -> set[int]:
    found = set[int]()
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found |= {int(child), *_below(int(child))}
    return found


def _is_alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False
