"""The real agent as a process on a loopback address, with files of its own."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any, Final, NamedTuple

from paths import ROOT
from programs import TIME_LIMIT, wait_until
from repair_requests import COMMAND, KEY, RSALT, message

from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.ganeti.signing import sign, verify
from ganeti_steward.core.ganeti.this_node import this_node
from ganeti_steward.plugins.maintenance.edges.client import AgentClient

PROGRAM: Final = Path(sys.executable).parent / "gnt-steward"

#: What makes them callers from elsewhere, as the beginning of a command line.
DISTANT: Final = (sys.executable, str(Path(__file__).with_name("distant.py")))

#: Two callers whose addresses are both of this machine.
MASTER: Final = "127.0.0.1"
FORGER: Final = "127.0.0.66"


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]


class Agent:
    """How a test sees a running agent."""

    def __init__(self, path: Path, process: subprocess.Popen[bytes], address: str) -> None:
        self.path, self.process, self.address = path, process, address
        self.port = 0

    @property
    def report_file(self) -> Path:
        return self.path / "diagnose" / "report.json"

    @property
    def key_file(self) -> Path:
        return self.path / "hmac.key"

    @property
    def child(self) -> int:
        """The process that diagnoses and repairs for it."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        (child,) = [int(pid) for task in tasks for pid in task.read_text().split()]
        return child

    def in_its_view(self, *command: str) -> str:
        """What a command prints that sees the same files as the agent."""
        command_line = ["nsenter", "--target", str(self.process.pid), "--mount", *command]
        return subprocess.run(command_line, capture_output=True, text=True, check=True).stdout

    @property
    def log(self) -> str:
        file = self.path / "steward.log"
        return file.read_text() if file.exists() else ""

    def refusals(self) -> list[str]:
        """Why requests were refused, from the log."""
        return re.findall(r"repair refused caller=\S+ shut-out=\S+ reason=(.*)", self.log)

    def write_report(self, **changed: Any) -> dict[str, Any]:
        """Leave a report as ``gnt-steward diagnose`` does."""
        report = REPORT | {"timestamp": time.time_ns(), "node": this_node().identity} | changed
        new = self.report_file.with_suffix(".new")
        new.write_text(json.dumps(report))
        new.chmod(0o600)
        new.rename(self.report_file)
        return report

    def renew_key(self, key: bytes) -> None:
        """Put another key in the place of the old one, as Ganeti does."""
        new = self.key_file.with_suffix(".new")
        new.write_bytes(key)
        new.rename(self.key_file)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        caller: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request on a connection of its own."""
        source = (caller, 0) if caller else None
        connection = http.client.HTTPConnection(
            self.address, self.port, timeout=TIME_LIMIT, source_address=source
        )
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return Answer(answer.status, answer.read(), dict(answer.getheaders()))
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """The JSON at a path."""
        answer = self.ask("GET", path)
        assert answer.status == 200, answer
        return json.loads(answer.body)

    def nonce(self, caller: str = MASTER) -> str:
        answer = self.ask("POST", "/1/repair/nonce", caller=caller)
        assert answer.status == 200, (answer, self.log)
        nonce: str = json.loads(answer.body)["nonce"]
        return nonce

    def request(self, key: bytes = KEY, caller: str = MASTER, **changed: Any) -> bytes:
        """A request with a fresh nonce, for the right node."""
        content = message(**({"node": this_node().identity} | changed))
        return sign(key, json.dumps(content), self.nonce(caller))

    def repair(self, raw: bytes, caller: str = MASTER) -> Answer:
        return self.ask("POST", "/1/repair", raw, caller=caller)

    def repaired(self, command: str = COMMAND) -> dict[str, Any]:
        """Have a command run, and what the signed answer says."""
        diagnose = {"status": "live-repair", "command": command}
        answer = self.repair(self.request(command=command, diagnose=diagnose))
        assert answer.status == 200, (answer, self.log)
        reported: dict[str, Any] = json.loads(
            verify(self.key_file.read_bytes(), answer.body, RSALT)
        )
        return reported

    def client(self, **more: Any) -> AgentClient:
        node = this_node()
        key = KeyFile(str(self.key_file))
        return AgentClient(self.address, [node.uuid, node.name], key, port=self.port, **more)


REPORT: Final[dict[str, Any]] = {
    "name": "diagnose",
    "version": "0.1.0",
    "format_version": 1,
    "category": "node",
    "kind": 1,
    "data": {"status": "Ok"},
    "node_name": "node1.lab",
    "unknown": [],
    "not_applicable": [],
}


def configure(
    path: Path, settings: str = "", directory: str = "", collectors: Sequence[str] = ()
) -> Path:
    """Write the configuration of an agent; it diagnoses only what the arguments configure."""
    file = path / "steward.toml"
    text = f"""
    [log]
    file = "{path}/steward.log"
    [diagnose]
    directory = "{directory or path / "diagnose"}"
    collectors = {json.dumps(collectors)}
    commands = []
    [agent]
    key-file = "{path}/hmac.key"
    {settings if "interval" in settings else f"interval = 0; {settings}"}
    """
    file.write_text(dedent(text).replace("; ", "\n"))
    return file


def places_of_the_program() -> list[Path]:
    """The directories that Python's and this program's files are in."""
    places = {Path(os.__file__).parent, ROOT, Path(sys.prefix)} - {Path("/usr")}
    # An environment may lie in the checkout.
    return [place for place in places if places.isdisjoint(place.parents)]


@contextmanager
def running(
    path: Path,
    *options: str,
    settings: str = "",
    directory: str = "",
    address: str = MASTER,
    prefix: Sequence[str] = (),
    collectors: Sequence[str] = (),
    relative: bool = False,
) -> Iterator[Agent]:
    """The agent, ready; ended when the test is over.

    ``relative``: whether it is started beside its configuration, which has a relative path then.

    Settings are parted by semicolons; ``prefix`` is a command that becomes the agent.
    """
    config = configure(path, settings, directory, collectors)
    (path / "diagnose").mkdir(mode=0o700, exist_ok=True)
    (path / "hmac.key").write_bytes(KEY)
    with _ready_socket(path) as (ready, name):
        process = subprocess.Popen(
            [*prefix, PROGRAM, "agent", "--bind", address, "--port", "0", *options],
            env={
                "GNT_STEWARD_CONFIG": config.name if relative else str(config),
                "NOTIFY_SOCKET": name,
                "PATH": os.environ["PATH"],
            },
            stderr=subprocess.PIPE,
            cwd=path if relative else None,
        )
        agent = Agent(path, process, address)
        try:
            _wait_for(ready, process)
            (port,) = re.findall(r"agent begins address=\S+ port=(\d+)", agent.log)[-1:]
            agent.port = int(port)
            yield agent
        finally:
            process.terminate()
            _, printed = process.communicate(timeout=TIME_LIMIT)
            assert b"Traceback" not in printed, printed
            assert "Traceback" not in agent.log, agent.log


@contextmanager
def _ready_socket(path: Path) -> Iterator[tuple[socket.socket, str]]:
    """What systemd would listen at."""
    # Paths of sockets are short; those of tests are long.
    name = f"@gnt-steward-test-{os.getpid()}-{path.name}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
        ready.bind("\0" + name[1:])
        ready.settimeout(0.1)
        yield ready, name


def _wait_for(ready: socket.socket, process: subprocess.Popen[bytes]) -> None:
    def is_ready() -> bool:
        assert process.poll() is None, process.stderr and process.stderr.read()
        try:
            return ready.recv(100) == b"READY=1"
        except TimeoutError:
            return False

    wait_until(is_ready, "that the agent is ready")
