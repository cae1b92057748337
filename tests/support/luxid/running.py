"""The daemon as a process, beside stand-ins for luxid, confd and the node agents."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import clusters
from confd_servers import KEY, Answers, Cluster, reply
from fake_agents import FakeAgents, diagnose_report, fake_agents, sends
from standin import StandIn
from standin_server import serving
from workspace import PROGRAMS

from ganeti_steward.core.ganeti.signing import sign

_PROGRAM: Final = """
import sys
from ganeti_steward.core.errors import StewardError
from ganeti_steward.plugins.maintenance.daemon.options import DaemonOptions
from ganeti_steward.plugins.maintenance.daemon.process import run_daemon
options = eval(sys.argv[1])
try:
    sys.exit(run_daemon(DaemonOptions(**options)))
except StewardError as err:
    print(err, file=sys.stderr)
    sys.exit(1)
"""

#: Seconds until anything is there.
_LIMIT: Final = 300.0


class Site:
    """One cluster whose first node runs the daemon; ``path`` has everything it reads."""

    def __init__(self, path: Path, stand_in: StandIn, agents: FakeAgents, confd: Cluster) -> None:
        self.path, self.stand_in, self.agents, self.confd = path, stand_in, agents, confd
        self.names = [row["name"] for row in stand_in.ganeti.nodes]
        self.config = path / "steward.toml"
        self.log = path / "maintd.log"
        self.audit = path / "audit.db"
        self._write_ganeti_files()
        self.configure()

    def _write_ganeti_files(self) -> None:
        data = self.path / "data"
        data.mkdir()
        (data / "hmac.key").write_bytes(KEY)
        (data / "ssconf_node_list").write_text("\n".join(self.names))
        (data / "ssconf_master_node").write_text(f"{self.names[0]}\n")
        (data / "ssconf_master_candidates_ips").write_text("\n".join(self.confd.addresses))

    def configure(self, **changed: Any) -> None:
        """Write the configuration: eager, and acting."""
        values = {
            "mode": "act",
            "hold-time": 0,
            "healthy-delay": 0,
            "round-interval": 1,
            "poll-interval": 1,
            "address": "127.0.0.1",
            "agent-port": self.agents.port,
            "key-file": str(self.path / "data" / "hmac.key"),
            "audit-file": str(self.audit),
            "lock-file": str(self.path / "lock"),
        } | changed
        lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
        self.config.write_text("\n".join(["[log]", f'file = "{self.log}"', "[maintd]", *lines, ""]))

    def report(self, node: str, **data: Any) -> None:
        """Have the agent of a node report this from now on."""
        row = self.stand_in.ganeti.node(node)
        self.agents.behaviours[row["pip"]] = lambda salt: sign(
            KEY, json.dumps(diagnose_report(node, time.time_ns(), **data)), salt
        )

    def add_candidates(self, number: int, answers: Answers) -> None:
        """Add further master candidates."""
        for _ in range(number):
            self.confd.add(answers)
        addresses = self.path / "data" / "ssconf_master_candidates_ips"
        addresses.write_text("\n".join(self.confd.addresses))

    def names_as_master(self, name: str) -> None:
        """Have the only candidate name another master from now on."""
        for server in self.confd.servers:
            server._answers = lambda raw: [reply(raw, name, 9)]

    @contextmanager
    def daemon(self, **options: Any) -> Iterator[subprocess.Popen[str]]:
        """The daemon as a process, which is ended in the end."""
        given = {
            "port": 0,
            "luxi_socket": str(self.path / "luxi.sock"),
            "confd_port": self.confd.port,
            "data": str(self.path / "data"),
            "host": self.names[0],
        } | options
        with subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, repr(given)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"GNT_STEWARD_CONFIG": str(self.config), "PYTHONPATH": str(self.path)},
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def plan(self) -> str:
        """What ``gnt-steward maintd plan`` prints."""
        socket = str(self.path / "luxi.sock")
        done = subprocess.run(
            [PROGRAMS / "gnt-steward", "maintd", "plan", "--luxi-socket", socket],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={"GNT_STEWARD_CONFIG": str(self.config)},
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def begun(self) -> str:
        """The log once the daemon has begun."""
        return self.logged(r"maintd begins ")

    def logged(self, pattern: str) -> str:
        """The log once it has a line with this."""

        def found() -> str:
            text = self.log.read_text() if self.log.exists() else ""
            return text if re.search(pattern, text) else ""

        text: str = wait_for(found, lambda: self.log.read_text() if self.log.exists() else "no log")
        return text

    def get(self, path: str) -> Any:
        """What the daemon serves as data."""
        return json.loads(self.raw(path))

    def raw(self, path: str) -> bytes:
        """What the daemon serves."""
        port = int(re.findall(r"maintd begins mode=\w+ port=(\d+)", self.log.read_text())[-1])
        connection = HTTPConnection("127.0.0.1", port, timeout=_LIMIT)
        connection.request("GET", path)
        answer = connection.getresponse().read()
        connection.close()
        return answer

    def tags(self, node: str) -> list[str]:
        tags: list[str] = self.stand_in.ganeti.node(node)["tags"]
        return tags


def wait_for(found: Callable[[], Any], otherwise: Callable[[], str]) -> Any:
    """The first result that is true."""
    until = time.monotonic() + _LIMIT
    while time.monotonic() < until:
        with suppress(OSError):
            result = found()
            if result:
                return result
        time.sleep(0.05)
    raise AssertionError(otherwise())


@contextmanager
def site(path: Path, nodes: int = 4, instances: int = 6) -> Iterator[Site]:
    """Nodes with DRBD instances, all healthy; few, so that an evacuation takes few rounds."""
    message = clusters.generate(f"--nodes={nodes}", "--groups=1", "--mix=drbd=1", "--seed=5")
    first = sorted(message["instances"].items())[:instances]
    stand_in = StandIn({**message, "instances": dict(first)})
    for number, row in enumerate(stand_in.ganeti.nodes):
        row["pip"] = f"127.0.0.{number + 20}"
    (path / "hmac").write_bytes(KEY)
    confd = Cluster(path / "hmac")
    with ExitStack() as stack:
        stack.callback(confd.end)
        name = stand_in.ganeti.nodes[0]["name"]
        confd.add(lambda raw: [reply(raw, name)])
        stack.enter_context(serving(path, stand_in))
        places = {row["pip"]: sends(None) for row in stand_in.ganeti.nodes}
        made = Site(path, stand_in, stack.enter_context(fake_agents(places)), confd)
        for node in made.names:
            made.report(node)
        yield made
