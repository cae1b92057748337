"""The maintenance daemon and the node agents as real processes in a lab with DRBD."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import IO, Any, Final

import psutil

from ganeti_steward.diagnose.agent.memory import FILE, Remembered, written
from ganeti_steward.plugins.filters.filter_rules import FilterRules
from ganeti_steward.plugins.maintenance.edges.store import Store
from ganeti_steward.plugins.maintenance.queue.job_search import FoundJob, jobs_with_reason
from ganeti_steward.plugins.model.incident import Incident

from ..cluster import PROGRAMS, op, until
from ..drbd_lab import NODES, DrbdLab
from .faults.watched import Runs, watched
from .node_files import AGENT_SECTIONS, DAEMON_SECTION, DIAGNOSE_COMMAND, OK, REPAIR_COMMAND

#: What only reads something for the daemon.
READS: Final = frozenset({"OP_NODE_QUERY_STORAGE", "OP_INSTANCE_QUERY_DATA"})
#: Those with an agent; the others are silent.
WITH_AGENT: Final = ("node1.lab", "node2.lab", "node3.lab", "node6.lab")


class MaintainedLab(DrbdLab):
    """A lab whose nodes have agents, and whose master runs the daemon when a test starts it."""

    def __init__(self, kind: str, nodes: int = len(NODES)) -> None:
        super().__init__(kind, nodes)
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.logs: list[IO[bytes]] = []

    # Files of nodes

    def report(self, node: str, found: Mapping[str, Any]) -> None:
        """What the node's diagnose command prints from now on; diagnosed at once, as cron does."""
        file, text = self.etc(node) / "diagnose.json", json.dumps(found)
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
            self.on(node, str(self.programs / "gnt-steward"), "diagnose")

    def repair_status(self, node: str, status: int) -> None:
        """How the node's repair command ends."""
        (self.etc(node) / "repair-status").write_text(f"{status}\n")

    @contextmanager
    def held_repair(self, node: str) -> Iterator[None]:
        """The node's repair command does not end before the end of the block."""
        file = self.etc(node) / "repair-held"
        file.touch()
        try:
            yield
        finally:
            file.unlink()

    def repair_input(self, node: str) -> dict[str, Any]:
        """What the node's repair command got."""
        found: dict[str, Any] = json.loads((self.etc(node) / "repair-input.json").read_text())
        return found

    def repaired(self, node: str) -> bool:
        """Whether the node's repair command was run."""
        return (self.etc(node) / "repair-input.json").exists()

    def repairs(self, node: str) -> int:
        """How often the node's repair command was run."""
        runs = self.etc(node) / "repair-runs"
        return len(runs.read_text().splitlines()) if runs.exists() else 0

    # Processes

    def start_agents(self, nodes: Iterable[str] = WITH_AGENT) -> None:
        """Install the commands on the nodes and start their agents."""
        for node in nodes:
            for kind, name, text in (
                ("diagnose", "lab-check", DIAGNOSE_COMMAND),
                ("repair", "lab-repair", REPAIR_COMMAND),
            ):
                folder = self.etc(node) / f"node-{kind}-commands"
                folder.mkdir(exist_ok=True)
                (folder / name).write_text(text)
                (folder / name).chmod(0o755)
            state = self.directory / "steward-state" / node
            state.mkdir(parents=True, exist_ok=True)
            (self.etc(node) / "steward.toml").write_text(AGENT_SECTIONS.format(directory=state))
            self.report(node, OK)
            self._remember(node, state / "commands")
            self.start_agent(node)

    def _remember(self, node: str, directory: Path) -> None:
        """Have an agent remember all its commands, as one does that began long ago."""
        directory.mkdir(mode=0o700)
        known = json.loads(written(Remembered(began=1, lost=0, commands={})))
        (directory / FILE).write_text(json.dumps(known | {"host": node}))

    def start_agent(self, node: str, *within: str) -> None:
        """Start the agent of one node; ``within``: a program that limits it, with arguments."""
        self.agents[node] = self._start(node, f"agent-{node}", "agent", within=within)

    def stop_agent(self, node: str) -> None:
        """End the agent of one node."""
        _end(self.agents.pop(node))

    def kill_agent(self, node: str) -> None:
        """Kill the agent of one node."""
        self.kill(self.agents.pop(node))

    @contextmanager
    def daemon(
        self, more: str = "", *, mode: str = "act", node: str = NODES[0]
    ) -> Iterator[subprocess.Popen[bytes]]:
        """The daemon on a node, until the end of the block."""
        self.configure_daemon(more, mode, node)
        process = self._start(node, f"maintd-{node}", "maintd")
        try:
            yield process
        finally:
            _end(process)

    def configure_daemon(self, more: str = "", mode: str = "act", node: str = NODES[0]) -> None:
        """Write the configuration of a node that runs agent and daemon."""
        state = self.directory / "steward-state" / node
        state.mkdir(parents=True, exist_ok=True)
        usual = DAEMON_SECTION.format(directory=state, mode=mode)
        text = AGENT_SECTIONS.format(directory=state) + instead(usual, more)
        (self.etc(node) / "steward.toml").write_text(text)

    @contextmanager
    def plugins(self, **sources: str) -> Iterator[str]:
        """Modules the daemon can load until the end of the block; the configuration for them."""
        folder = self.directory / "site-plugins"
        folder.mkdir()
        for name, source in sources.items():
            (folder / f"{name}.py").write_text(source)
        self.environment["PYTHONPATH"] = str(folder)
        try:
            yield f"[plugins]\nload = {json.dumps([*sources])}"
        finally:
            del self.environment["PYTHONPATH"]
            shutil.rmtree(folder)

    def _start(
        self, node: str, log: str, *arguments: str, within: Sequence[str] = ()
    ) -> subprocess.Popen[bytes]:
        out = (self.directory / f"{log}.log").open("ab")
        self.logs.append(out)
        return subprocess.Popen(
            [
                *(str(PROGRAMS / "lab-run"), "-n", node, *within),
                *(str(self.programs / "gnt-steward"), *arguments),
            ],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=self.environment,
        )

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a program without a chance to write anything."""
        signal_program(process, signal.SIGKILL)
        process.wait(300)

    def story(self, lines: int = 40) -> str:
        """What the daemons last printed and logged, and where everything is now."""
        logs = [*self.directory.glob("maintd-*.log")]
        logs += self.directory.glob("nodes/*/var-log-ganeti/steward.log")
        parts = [
            f"{log}:\n" + "\n".join(log.read_text().splitlines()[-lines:]) for log in sorted(logs)
        ]
        nodes = self.luxi.rows("node", ("name", "role", "tags", "pinst_list", "sinst_list"))
        jobs = self.luxi.rows("job", ("id", "status", "summary", "opresult"))
        return "\n".join(map(str, [*parts, *nodes, *self.incidents.values(), *jobs[-lines:]]))

    def watched(self) -> AbstractContextManager[Runs]:
        """Look at all nodes all the time for where instances run, until the end of the block."""
        return watched(self.directory)

    def reset(self) -> None:
        """All nodes in their first roles and reported as fine, with nothing left on them."""
        for node in WITH_AGENT:
            self.report(node, OK)
            for name in ("repair-input.json", "repair-runs"):
                (self.etc(node) / name).unlink(missing_ok=True)
        self.storage("sync-time", "0")
        rules, unreadable = FilterRules(self.luxi).read()
        for uuid in (*(rule.uuid for rule in rules), *unreadable):
            FilterRules(self.luxi).delete(uuid)
        rows = self.luxi.rows("node", ("name", "tags", "offline", "drained"))
        self.do(
            *(
                op("NODE_SET_PARAMS", node_name=row["name"], offline=False, drained=False)
                for row in rows
                if row["offline"] or row["drained"]
            ),
            *(
                op("TAGS_DEL", kind="node", name=row["name"], tags=row["tags"])
                for row in rows
                if row["tags"]
            ),
        )
        self.restore_candidates()
        self.remove(*self.instances())
        for node in self.nodes:
            self.end_instances(node)
            # Ganeti leaves the volumes of an instance on nodes that are offline.
            self.storage("empty", node=node)

    def down(self) -> None:
        """End the lab with everything in it."""
        super().down()
        for agent in self.agents.values():
            agent.wait(300)
        for log in self.logs:
            log.close()
        shutil.rmtree(self.directory / "steward-state", ignore_errors=True)

    # What the cluster says

    @property
    def store(self) -> Store:
        """The records, read and written as a daemon of the master does that has just started."""
        key = self.directory / "nodes" / self.master / "var-lib-ganeti/hmac.key"
        return Store(self.luxi, key.read_bytes)

    @property
    def incidents(self) -> dict[str, Incident]:
        """Uuid -> incident, from the records in the cluster's configuration."""
        return dict(self.store.read_all().incidents)

    def jobs_of(self, incident: Incident) -> list[FoundJob]:
        """The incident's jobs, as the queue has them; without those that only read something."""
        found = jobs_with_reason(self.luxi, "gnt:daemon:maintd", incident.uuid)
        return [job for job in found if READS.isdisjoint(job.operations)]

    def operations(self, incident: Incident) -> list[str]:
        """The operations of the incident's jobs."""
        return [name for job in self.jobs_of(incident) for name in job.operations]

    def open_steps(self) -> set[str]:
        """The steps that are under way."""
        return {one.step for incident in self.incidents.values() for one in incident.open}

    def incident(self, node: str, seconds: float = 300) -> Incident:
        """The only incident of a node, as soon as there is one."""
        found: list[Incident] = []

        def is_there() -> bool:
            found[:] = [one for one in self.incidents.values() if one.node_name == node]
            return len(found) == 1

        until(is_there, seconds)
        return found[0]

    def ended(self, node: str, status: str, seconds: float = 300) -> Incident:
        """The only incident of a node once it has a final status and its tag."""

        def has_ended() -> bool:
            found = [one for one in self.incidents.values() if one.node_name == node]
            return [(one.status, one.tagged, one.open) for one in found] == [(status, True, ())]

        until(has_ended, seconds)
        return self.incident(node)


def instead(usual: str, more: str) -> str:
    """The usual lines of a section without those whose key ``more`` has as well, then ``more``.

    What follows the head of another section in ``more`` belongs to that one.
    """
    own = takewhile(lambda line: not line.startswith("["), more.splitlines())
    keys = {line.partition("=")[0].strip() for line in own}
    kept = [one for one in usual.splitlines() if one.partition("=")[0].strip() not in keys]
    return "\n".join([*kept, more, ""])


def signal_program(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to the program itself, which lab-run has started in the lab."""
    for child in psutil.Process(process.pid).children(recursive=True):
        # Short-lived children of the program come and go.
        with suppress(psutil.NoSuchProcess):
            # nsenter stops itself with its child, and goes on only if it is made to.
            own = "gnt-steward" in " ".join(child.cmdline()[:2])
            if own or (number == signal.SIGCONT and child.status() == psutil.STATUS_STOPPED):
                child.send_signal(number)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number, seconds in ((signal.SIGTERM, 20), (signal.SIGKILL, 300)):
        if process.poll() is None:
            signal_program(process, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
