"""A lab with DRBD: its nodes, their storage and power, and what runs on them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from thorough import often

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.plugins.filters.filter_rules import PAUSE, FilterRule, FilterRules
from ganeti_steward.plugins.model.incident import STOPPED_TAG

from .cluster import PROGRAMS, Lab, op, tagged, until

NODES: Final = tuple(f"node{i}.lab" for i in range(1, 7))
#: Other masters are needed by the thorough tests only, and each costs time.
CANDIDATES: Final = often(1, 3)


class DrbdLab(Lab):
    """A lab of nodes, any of which can be the master, lose its power or its disks."""

    def __init__(self, kind: str, nodes: int = len(NODES)) -> None:
        super().__init__(kind)
        self.nodes = tuple(f"node{number}.lab" for number in range(1, nodes + 1))
        self.master = self.nodes[0]

    def make(self, archive: Path | None = None) -> None:
        """Bring up a new lab; the archive is written where there is to be one."""
        sizes = ["--nodes", str(len(self.nodes)), "--candidates", str(CANDIDATES)]
        self._program("lab-up", *sizes, "--fake-drbd")
        if archive:
            self._program("lab-save", str(archive))

    @property
    def luxi(self) -> Luxi:
        """The luxid of the node that is the master now."""
        return Luxi(str(self.directory / "nodes" / self.master / "run/ganeti/socket/ganeti-query"))

    def etc(self, node: str) -> Path:
        """The node's /etc/ganeti."""
        return self.directory / "nodes" / node / "etc-ganeti"

    def node(self, name: str, *fields: str) -> list[Any]:
        """Fields of a node."""
        rows = self.luxi.rows("node", ("name", *fields))
        (row,) = (row for row in rows if row["name"] == name)
        return [row[field] for field in fields]

    def fail_over(self, node: str) -> None:
        """Make another node the master.

        Where the old master wrote its configuration at the same time, candidates keep that one
        until the new master writes again.
        """
        self.on(node, "gnt-cluster", "master-failover", "--yes-do-it")
        self.master = node
        self.on(node, "gnt-cluster", "redist-conf")

    def restore_candidates(self) -> None:
        """Have the first nodes be the master candidates again: only such a one can be the master.

        Ganeti promotes others while one is offline, and takes it back as a regular node.
        """
        roles = {
            row["name"]: (row["master_candidate"], row["name"] in NODES[:CANDIDATES])
            for row in self.luxi.rows("node", ("name", "master_candidate"))
        }
        # First those that are to be one, so that there are never too few.
        for wanted in (True, False):
            self.do(
                *(
                    op("NODE_SET_PARAMS", node_name=node, master_candidate=wanted)
                    for node, (now, then) in roles.items()
                    if then == wanted != now
                )
            )

    def on(self, node: str, *command: str) -> str:
        """Run a command on a node; it must succeed.  What it prints."""
        done = self._run([str(PROGRAMS / "lab-run"), "-n", node, *command])
        assert done.returncode == 0, done.stdout
        return str(done.stdout)

    def steward(self, *arguments: str, node: str = NODES[0]) -> subprocess.CompletedProcess[str]:
        """Run a command of gnt-steward on a node."""
        return subprocess.run(
            [str(PROGRAMS / "lab-run"), "-n", node, str(self.programs / "gnt-steward"), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            env=self.environment,
            check=False,
        )

    @contextmanager
    def held_jobs(self, operation: str) -> Iterator[None]:
        """Jobs with this operation stay queued until the end of the block."""
        chosen = ["opcode", ["=", "OP_ID", operation]]
        rule = FilterRules(self.luxi).write(FilterRule("", predicates=(chosen,), action=PAUSE))
        try:
            yield
        finally:
            FilterRules(self.luxi).delete(rule)

    def storage(self, *arguments: str, node: str = NODES[0]) -> None:
        """Set the simulated storage of a node, or of all."""
        self.on(node, "lab-storage", *arguments)

    def set_open(self, node: str, volume: str, *, is_open: bool = True) -> None:
        """Open or close a physical volume for new logical volumes."""
        changes = {"allocatable": is_open}
        self.do(
            op(
                "NODE_MODIFY_STORAGE",
                node_name=node,
                storage_type="lvm-pv",
                name=volume,
                changes=changes,
            )
        )

    def volumes(self, node: str) -> dict[str, bool]:
        """Physical volume of a node -> whether it is open for new logical volumes."""
        (number,) = self.luxi.storage_jobs("lvm-pv", ("name", "allocatable"), [node])
        until(lambda: self.luxi.states([number])[0].ended)
        (rows,) = self.luxi.states([number])[0].results
        return dict(rows)

    def place(self, *instances: tuple[str, str, str], up: bool = True) -> None:
        """Create instances at the same time: name, template, ``primary[:secondary]``."""
        more = {} if up else {"start": False, "no_install": True}
        jobs = [[{**self._created(*one), **more}] for one in instances]
        numbers = [int(self.luxi.call("SubmitJob", job)) for job in jobs]
        until(lambda: all(state.ended for state in self.luxi.states(numbers)))
        states = self.luxi.states(numbers)
        assert {state.status for state in states} == {"success"}, states

    def _created(self, name: str, template: str, nodes: str) -> dict[str, Any]:
        primary, _, secondary = nodes.partition(":")
        more: dict[str, Any] = {"snode": secondary} if secondary else {}
        if template == "ext":
            more["disks"] = [{"size": 512, "provider": "labext"}]
        return self.create(name, primary, template, **more)

    def running(self, node: str) -> set[str]:
        """The instances that really run on a node, whether Ganeti can see them or not."""
        folder = self._hypervisor(node)
        return {one.name for one in folder.iterdir()} if folder.exists() else set()

    def end_instances(self, node: str) -> None:
        """What runs on a node ends there, without Ganeti."""
        for name in self.running(node):
            (self._hypervisor(node) / name).unlink(missing_ok=True)

    def _hypervisor(self, node: str) -> Path:
        return self.directory / "nodes" / node / "run/ganeti/fake-hypervisor"

    def stop_noded(self, node: str) -> None:
        """End the node daemon of a node: what runs there runs on, and Ganeti cannot ask."""
        self.on(node, "/usr/lib/ganeti/daemon-util", "stop", "ganeti-noded")

    def power_off(self, node: str) -> None:
        """End the node daemon of a node and all its instances."""
        self.stop_noded(node)
        self.storage("power-off", node=node)
        self.end_instances(node)

    def power_on(self, node: str) -> None:
        """Start the node daemon of a node again."""
        self.on(node, "/usr/lib/ganeti/daemon-util", "start", "ganeti-noded")

    @contextmanager
    def without_power(self, *nodes: str) -> Iterator[None]:
        """The nodes have no power and are offline, until the end of the block."""
        roles = [op("NODE_SET_PARAMS", node_name=node, auto_promote=True) for node in nodes]
        self.do(*({**one, "offline": True} for one in roles))
        for node in nodes:
            self.power_off(node)
        try:
            yield
        finally:
            for node in nodes:
                self.power_on(node)
            self.do(*({**one, "offline": False} for one in roles))

    def confirm_off(self, *nodes: str) -> None:
        """Set the tags by which an admin says that nothing of Ganeti runs on these nodes."""
        rows = self.luxi.rows("node", ("name", "uuid"))
        uuids = {row["name"]: row["uuid"] for row in rows}
        self.do(*(tagged("node", node, STOPPED_TAG + uuids[node]) for node in nodes))
