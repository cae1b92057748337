"""The files of a demo: Ganeti's, the configurations of the agents and the daemon, the checks."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any, Final

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.model.cluster import Node
from ganeti_steward.core.whole_files import write_file
from ganeti_steward.plugins.model.world import World
from ganeti_steward.plugins.simulation.demo.confd import ADDRESS
from ganeti_steward.plugins.simulation.made_cluster import made_world

#: Instances for each node.
_INSTANCES: Final = 3
#: The last number of the first node's address.
_FIRST: Final = 11

#: See `Maintd.hold_time`, s.
HOLD_TIME: Final = 5

#: What a check of Nagios prints, and its exit status: a node that is fine, and one that is not.
GOOD: Final = ("FANS OK: all 6 fans run", 0)
BAD: Final = ("FANS CRITICAL: 2 of 6 fans stand still", 2)


def made_cluster(nodes: int) -> World:
    """A cluster whose nodes have loopback addresses of their own; raises StewardError."""
    world = made_world(nodes, _INSTANCES * nodes, 1)
    addressed = [
        node._replace(sent=node.sent.having(primary_ip=f"127.0.0.{_FIRST + at}"))
        for at, node in enumerate(world.cluster.nodes)
    ]
    return world._replace(cluster=world.cluster.replace(addressed))


def free_port() -> int:
    """A TCP port that is free at every address of this machine; raises StewardError."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("", 0))
        except OSError as err:
            raise StewardError(f"there is no free TCP port: {reason_of(err)}") from None
        port: int = probe.getsockname()[1]
        return port


class Files:
    """Everything lies below one directory, which belongs to this demo."""

    def __init__(self, directory: str, world: World) -> None:
        """Make the key and what a node knows of its cluster."""
        self.directory = Path(directory)
        self.nodes = tuple(world.nodes.values())
        self.master = next(node for node in self.nodes if node.master)
        self.key = os.urandom(20).hex().encode()
        self.data = self.directory / "ganeti"
        self.data.mkdir()
        self.key_file.write_bytes(self.key)
        self._know("node_list", "\n".join(node.name for node in self.nodes))
        self._know("master_candidates_ips", ADDRESS)
        self.make_master(self.master)

    def make_master(self, node: Node) -> None:
        """Have all nodes know this one as the master."""
        self.master = node
        self._know("master_node", node.name)

    def _know(self, name: str, text: str) -> None:
        (self.data / f"ssconf_{name}").write_text(f"{text}\n")

    @property
    def key_file(self) -> Path:
        """The cluster's HMAC key."""
        return self.data / "hmac.key"

    @property
    def socket(self) -> Path:
        """luxid's."""
        return self.directory / "luxid"

    @property
    def audit(self) -> Path:
        """The audit log of the daemon."""
        return self.directory / "audit.db"

    def errors(self, name: str) -> Path:
        """What a process prints to standard error."""
        return self.directory / f"{name}.err"

    def configure_agent(self, node: Node) -> Path:
        """Write the configuration of a node's agent, and the check of a node that is fine."""
        own = self.directory / node.name
        own.mkdir()
        (own / "diagnose").mkdir(mode=0o700)
        self.have_fans(node.name, GOOD)
        return self._write(
            f"{node.name}.toml",
            log={"file": str(own / "steward.log")},
            diagnose={
                "directory": str(own / "diagnose"),
                "collectors": [],
                "commands": [],
                "appear-after": 1,
                "clear-after": 1,
            },
            agent={"key-file": str(self.key_file), "interval": 1, "lock-memory": False},
            **{
                "nagios.fans": {
                    "command": ["/bin/sh", str(self._check(node.name))],
                    "critical": "evacuate",
                    "text": True,
                }
            },
        )

    def configure_daemon(self, agent_port: int) -> Path:
        """Write the configuration of the daemon: it acts, and waits for seconds only."""
        return self._write(
            "maintd.toml",
            log={"file": str(self.directory / "maintd.log")},
            maintd={
                "mode": "act",
                "hold-time": HOLD_TIME,
                "healthy-delay": HOLD_TIME,
                "round-interval": 1,
                "poll-interval": 1,
                "storm-share": 0.5,
                "agent-port": agent_port,
                "key-file": str(self.key_file),
                "audit-file": str(self.audit),
                "lock-file": str(self.directory / "lock"),
            },
        )

    def have_fans(self, node: str, state: tuple[str, int]) -> None:
        """Have the check of a node find this from now on."""
        text, status = state
        content = f"echo {json.dumps(text)}; exit {status}\n".encode()
        write_file(str(self._check(node)), content, 0o644)

    def _check(self, node: str) -> Path:
        return self.directory / node / "check-fans"

    def _write(self, name: str, **sections: dict[str, Any]) -> Path:
        lines = []
        for section, values in sections.items():
            lines.append(f"[{section}]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
        file = self.directory / name
        file.write_text("\n".join([*lines, ""]))
        return file
