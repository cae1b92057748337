"""The nodes of a demo: each with its agent, and the daemon on the one that is the master."""

from __future__ import annotations

from ganeti_steward.core.model.cluster import Node
from ganeti_steward.plugins.simulation.demo.confd import ADDRESS
from ganeti_steward.plugins.simulation.demo.files import Files, free_port
from ganeti_steward.plugins.simulation.demo.luxid import DemoLuxid
from ganeti_steward.plugins.simulation.demo.processes import Process, Processes


class DemoNodes:
    """They run, are rebooted, and can become the master."""

    def __init__(
        self, files: Files, luxid: DemoLuxid, processes: Processes, confd_port: int, port: int
    ) -> None:
        """``port``: TCP port of the status page."""
        self.files, self._luxid, self._processes = files, luxid, processes
        self._ports = confd_port, port
        agent_port = free_port()
        self._agent_port = str(agent_port)
        self._configs = {node.name: files.configure_agent(node) for node in files.nodes}
        self._config = files.configure_daemon(agent_port)
        self._agents: dict[str, Process] = {}
        for node in files.nodes:
            self._start_agent(node)
        self._daemon = self._started_daemon()

    def check(self) -> None:
        """Raise StewardError when one of their processes has ended by itself."""
        self._processes.check()

    def power_off(self, node: Node) -> None:
        """What an admin does who reboots it."""
        self._processes.stop(self._agents.pop(node.name))
        self._luxid.reboot(node.name, away=True)

    def power_on(self, node: Node) -> None:
        """It has been rebooted."""
        self._luxid.reboot(node.name, away=False)
        self._start_agent(node)

    def fail_over(self, node: Node) -> None:
        """Make a node the master: the daemon ends on the old one, and begins there."""
        self._processes.stop(self._daemon)
        self._luxid.fail_over(self.files.master.name, node.name)
        self.files.make_master(node)
        self._daemon = self._started_daemon()

    def _start_agent(self, node: Node) -> None:
        place = ["--bind", node.primary_ip, "--port", self._agent_port]
        own = ["--node-name", node.name, "--data", str(self.files.data), "--no-mlock"]
        config, errors = self._configs[node.name], self.files.errors(node.name)
        self._agents[node.name] = self._processes.agent(config, errors, [*place, *own])

    def _started_daemon(self) -> Process:
        confd_port, port = self._ports
        options = {
            "address": ADDRESS,
            "port": port,
            "luxi_socket": str(self.files.socket),
            "confd_port": confd_port,
            "data": str(self.files.data),
            "host": self.files.master.name,
        }
        return self._processes.daemon(self._config, self.files.errors("maintd"), options)
