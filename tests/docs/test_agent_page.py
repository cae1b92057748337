"""The examples of the agent's page, run against the real agent."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from agents import DISTANT, Agent, running
from paths import DOCS
from programs import notes, program
from whitelists import needs_root, whitelist

from ganeti_steward.core.ganeti.this_node import this_node
from ganeti_steward.diagnose.agent import memory, nonces, repairs
from ganeti_steward.diagnose.cli.agent import LIMITS
from ganeti_steward.diagnose.config.sections import Agent as Settings

PAGE: Final = (DOCS / "reference" / "agent.md").read_text()

#: What the page calls the agent, the node and the key.
WHERE: Final = "http://192.0.2.11:1817"
NAME: Final = "node1.example.com"
KEY_FILE: Final = "/var/lib/ganeti/hmac.key"

#: Members of the report that the agent serves as they were diagnosed.
_SHOWN: Final = ("boot_id", "data", "node", "node_name")

pytestmark = needs_root


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def commands() -> Iterator[Path]:
    with whitelist() as path:
        yield path


@pytest.fixture(scope="module")
def agent(commands: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """It serves the page's report, however old that is by now."""
    options = ("--repair-directory", str(commands))
    settings = f"repair = true; max-age = {7 * 86400}"
    path = tmp_path_factory.mktemp("page")
    with running(path, *options, settings=settings, prefix=DISTANT) as agent:
        yield agent


def calls() -> list[tuple[str, str, str]]:
    """Method, path and answer of each call of the page."""
    pattern = rf"\$ curl (?:-X (\w+) )?{WHERE}(\S+)\n(.*)"
    found = [call for block in blocks("") for call in re.findall(pattern, block)]
    assert len(found) == len(re.findall(r"^\$ ", PAGE, re.MULTILINE))
    return [(method or "GET", path, answer) for method, path, answer in found]


@pytest.mark.parametrize(("method", "path", "answer"), calls())
def test_calls(agent: Agent, method: str, path: str, answer: str) -> None:
    served = agent.ask(method, path, caller="127.0.0.5").body.decode().rstrip("\n")
    if not answer.startswith("{"):
        assert served == answer
        return
    # It serves this node's report only.
    shown = json.loads(answer) | {"node_name": this_node().name}
    report = agent.write_report(**{name: shown[name] for name in _SHOWN})
    expected = json.dumps(
        shown | {"timestamp": report["timestamp"]}, sort_keys=True, separators=(",", ":")
    )
    assert agent.ask(method, path).body.decode() == expected


def run(agent: Agent, source: str) -> str:
    """What an example prints, with this agent, node and key in the place of the page's."""
    for shown, real in (
        (WHERE, f"http://{agent.address}:{agent.port}"),
        (KEY_FILE, str(agent.key_file)),
        (NAME, this_node().name),
    ):
        assert shown in source or shown == NAME
        source = source.replace(shown, real)
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_signed_report(agent: Agent) -> None:
    agent.write_report(node_name=NAME, data={"status": "evacuate"})
    assert run(agent, blocks("python")[0]) == f"{NAME} evacuate\n"


def test_the_repair(agent: Agent, commands: Path) -> None:
    command = program(commands, "replace-disk", "cat > NOTES; echo fixed; exit 4")
    assert run(agent, blocks("python")[1]) == "ended replace-disk 4 fixed\n\n"
    assert notes(command) == '{"command":"replace-disk","status":"live-repair"}'


def test_every_example_is_run() -> None:
    assert len(blocks("python")) == 2


def test_the_log_line(agent: Agent) -> None:
    caller = "127.0.0.6"
    members = {"msg": "{}", "salt": agent.nonce(caller), "hmac": "0" * 40}
    agent.ask("POST", "/1/repair", json.dumps(members).encode(), caller=caller)
    (line,) = re.findall(r"^    (repair refused .*)$", PAGE, re.MULTILINE)
    assert line.replace("192.0.2.9", caller) in agent.log


@pytest.mark.parametrize(
    "text",
    [
        f"| connections | {LIMITS.connections}, of one caller {LIMITS.connections_of_one} |",
        f"| closed after {LIMITS.life:g} s,",
        f"| requests at a time | {LIMITS.threads},",
        f"| a repair request | {repairs.REQUEST_LIMIT // 2**20} MiB |",
        f"| nonces | {nonces.MOST}, of one caller {nonces.MOST_OF_ONE};",
        f"TCP port {Settings().port} ",
        f"keeps the last {memory.KEPT} commands",
        f"the last {memory.OUTPUT} characters",
        f"less than {memory._APART} seconds after it",
        f"`agent.nonce-life` seconds ({Settings().nonce_life})",
    ],
)
def test_figures(text: str) -> None:
    assert text in PAGE
