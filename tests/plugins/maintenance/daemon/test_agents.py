"""The node agents as the loop has them: commands and reloads leave nothing behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from fake_agents import FakeAgents, fake_agents, sends
from programs import wait_until
from repair_requests import KEY
from worlds import node

from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.carry_out import NodeAgents
from ganeti_steward.plugins.model.incident import Incident, Submission

NODE: Final = node("node1.lab", uuid="uuid-1", primary_ip="127.0.0.1")
NONCE: Final = b'{"nonce": "nonce.0123456789abcdef"}'
ORIGINAL: Final = b'{"command":"replace-disk","status":"live-repair"}'
COMMANDS: Final = 20


@pytest.fixture
def agent() -> Iterator[FakeAgents]:
    """It gives a nonce, so that a command is signed with the key, and no more that counts."""
    with fake_agents({"127.0.0.1": sends(NONCE)}) as agents:
        yield agents


@pytest.fixture
def settings(agent: FakeAgents, tmp_path: Path) -> Maintd:
    key = tmp_path / "key"
    key.write_bytes(KEY)
    # A call that was given up is not waited for.
    return Maintd(key_file=str(key), agent_port=agent.port, command_time_limit=1, poll_interval=0.1)


def test_no_thread_is_left(settings: Maintd) -> None:
    """With one for each command, repairs came to an end at the limit of systemd."""
    before = set(threading.enumerate())
    agents = NodeAgents(settings, lambda: None)
    agents.watch({NODE.uuid: NODE})
    agents.start_polling()
    opened = tuple(
        Submission(f"s{number}", "command", (NODE.name,), (), 5, command="replace-disk")
        for number in range(COMMANDS)
    )
    for one in opened:
        agents.start(NODE, one.id, "replace-disk", ORIGINAL)
    for _ in range(5):
        agents.configure(settings)
    incident = Incident("i1", NODE.uuid, NODE.name, ORIGINAL, "live-repair", open=opened)
    wait_until(lambda: len(agents.results([incident])) == COMMANDS, "the end of all commands")
    agents.stop()
    wait_until(lambda: set(threading.enumerate()) <= before, "the end of all threads")


def test_the_key_outlives_its_disk_for_commands(settings: Maintd) -> None:
    """A reload forgets it only where another file is named."""
    agents = NodeAgents(settings, lambda: None)
    known = agents._key
    assert known.key() == KEY
    agents.configure(settings._replace(poll_interval=0.2))
    assert agents._key is known
    agents.configure(settings._replace(key_file="/nonexistent"))
    assert agents._key.path == "/nonexistent"
    agents.stop()
