"""The world of one history: the cluster, its daemons, and what happens to them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from fault_world.agents import Agent
from fault_world.causes.control import unfiltered
from fault_world.causes.hardware import loses_power
from fault_world.causes.people import records_confirmed
from fault_world.checks import Checks, record_of
from fault_world.checks.candidates import pool
from fault_world.clock import SECOND, Clock
from fault_world.daemon import Daemon, NodeDisk
from fault_world.drawn.shapes import drawn_shape
from fault_world.drawn.stories import alone
from fault_world.faults import Fault, Faults
from fault_world.ganeti import Ganeti
from fault_world.kinds import KINDS
from fault_world.luxid import WorldLuxid
from fault_world.old_luxid import OldLuxid
from fault_world.operations import resynced
from ganeti_steward.core.config.values import Config
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.model.incident import (
    CANCEL_TAG,
    DONE_TAG,
    OPT_OUT_TAG,
    PAUSE_TAG,
    STOPPED_TAG,
)

Row = dict[str, Any]

#: In memory, where there is such a place.
_FILES: Final = "/dev/shm" if os.path.isdir("/dev/shm") else None

#: 2026-01-01 00:00 UTC.
START: Final = 1767225600 * SECOND
#: Seconds after which a daemon that has ended is started again, as systemd and the watcher do.
_STARTED_AGAIN: Final = 30.0


#: Histories are short, and so are their jobs.
_PACE: Final = 0.5


#: Tags by which people hold something back.
_HOLDING: Final = (OPT_OUT_TAG, PAUSE_TAG)


class Copy(NamedTuple):
    """A node's copy of the configuration, as confd answers from it."""

    serial: int
    master: str
    candidates: tuple[str, ...]


class Given(NamedTuple):
    """A cluster and a configuration that are not drawn."""

    ganeti: Ganeti
    config: Config


class World:
    """One cluster, everything on it, and a seed for all that is drawn."""

    def __init__(
        self,
        seed: str,
        narrate: Callable[[str], None] = lambda line: None,
        given: Given | None = None,
    ) -> None:
        """``narrate`` gets each line of the narrative; ``given``: None: both are drawn."""
        self.seed, self._print = seed, narrate
        random = Random(f"{seed} cluster")
        self.clock = Clock(START)
        self._drawn: Counter[str] = Counter()
        self.ahead: Counter[str] = Counter()
        """node -> ns that its clock is ahead"""
        self.jumped = 0
        """seconds by which clocks were set, all together"""
        self.filters: set[str] = set()
        """uuids of the filter rules of people"""
        self.old_luxids: dict[str, OldLuxid] = {}
        """node that was the master -> its luxid, while that goes on"""
        self.pace = 1.0 if given else _PACE
        """how long operations of jobs take, as a share of their usual time"""
        self.isolated: set[str] = set()
        """names of nodes that reach no other"""
        self.cut_paths: dict[frozenset[str], int] = {}
        """two nodes that do not reach each other, though others reach both -> since when, ns"""
        self.reaches_agents: set[str] = set()
        """those of them that reach the node agents of others"""
        needed = alone(seed)
        self.ganeti, self.config = given or Given(
            *drawn_shape(random, needed.settings if needed else {})
        )
        self.settings = self.config.section(Maintd)
        if self.settings.routine:
            self.ganeti.info["tags"].append(_REPAIRS)
        self.faults, self.checks = Faults(self), Checks(self)
        self.luxid = WorldLuxid(self)
        self.agents = {row["name"]: Agent(self, row["name"]) for row in self.ganeti.nodes}
        self._files = TemporaryDirectory(dir=_FILES)
        self.disks: dict[str, NodeDisk] = {}
        for row in self.ganeti.nodes:
            self.add_disk(row["name"])
        self.copies: dict[str, Copy] = {}
        self.daemons: list[Daemon] = []
        self.rounds = 0
        self.spread()
        for name in [name for name, data in self.ganeti.data.items() if data.resyncing]:
            self.clock.after(self.draw("resync").uniform(60, 900), partial(resynced, self, name))
        self._tick()
        self._keep_daemon()

    def add_disk(self, node: str) -> None:
        """The disk of a new node."""
        self.disks[node] = NodeDisk()
        self.disks[node].audit = f"{self._files.name}/{node}.db"

    # What others ask

    def narrate(self, line: str) -> None:
        """Add a line to the narrative."""
        seconds = (self.clock.now - START) / SECOND
        self._print(f"{seconds:9.1f} {line}")

    def draw(self, what: str) -> Random:
        """Randomness for one thing that happens; each kind has its own sequence."""
        self._drawn[what] += 1
        return Random(f"{self.seed} {what} {self._drawn[what]}")

    def clock_of(self, node: str) -> int:
        """What the clock of a node shows, ns since the epoch."""
        return self.clock.now + self.ahead[node]

    def reach(self, one: str, other: str) -> bool:
        """Whether two nodes reach each other."""
        up = not {one, other} & self.ganeti.off
        cut = {one, other} & self.isolated or frozenset({one, other}) in self.cut_paths
        return up and (one == other or not cut)

    def unreached(self, node: str) -> list[str] | None:
        """What a node reports of those whose machines do not answer it: their addresses."""
        others = [row for row in self.ganeti.nodes if row["name"] != node]
        found = sorted(row["pip"] for row in others if not self.reach(node, row["name"]))
        # Of a node that has left the cluster nothing is known there, and its agent answers still.
        witness = any(r["name"] == node and r["master_candidate"] for r in self.ganeti.nodes)
        return found if witness and len(found) < len(others) else None

    def reach_agent(self, one: str, other: str) -> bool:
        """Whether a node reaches the node agent of another."""
        return self.reach(one, other) or (
            one in self.reaches_agents and not {one, other} & self.ganeti.off
        )

    def records(self) -> list[tuple[str, Row]]:
        """Uuid and content of each record in Ganeti's configuration, by uuid."""
        found = ((uuid, record_of(rule)) for uuid, rule in sorted(self.luxid.filters.items()))
        return [(uuid, record) for uuid, record in found if record is not None]

    def place_for(self, row: Row) -> str | None:
        """What an allocator finds for another secondary."""
        nodes = [
            one["name"]
            for one in self.ganeti.nodes
            if not (one["offline"] or one["drained"])
            and self.ganeti.answers(one["name"])
            and one["name"] not in (row["pnode"], *row["snodes"])
        ]
        return min(nodes, default=None)

    def reboot(self, node: str) -> None:
        """A node is switched off and on, or reboots; some stay away for long."""
        away = float(self.draw("away").choice((30, 120, 300, 600, 5000)))
        loses_power(self, Fault(0, "reboot", node, away))

    # What happens by itself

    def _tick(self) -> None:
        """Instances write, and candidates get the configuration."""
        for name in self.ganeti.runs:
            self.ganeti.write(name)
        self.spread()
        self.clock.after(20, self._tick)

    def spread(self) -> None:
        """Copies of the configuration reach the candidates that the master reaches."""
        ganeti = self.ganeti
        names = tuple(row["name"] for row in ganeti.nodes if row["master_candidate"])
        for row in ganeti.nodes:
            if row["name"] not in self.copies or self.reach(ganeti.master, row["name"]):
                self.copies[row["name"]] = Copy(ganeti.serial, ganeti.master, names)

    def _keep_daemon(self) -> None:
        """The watcher starts the daemon on the master, where none runs."""
        self.daemons = [one for one in self.daemons if one.process.alive and not one.ended]
        master = self.ganeti.master
        if master not in self.ganeti.off and not any(one.node == master for one in self.daemons):
            self.narrate(f"maintd starts on {master}")
            self.daemons.append(Daemon(self, master, self.config))
        self.clock.after(_STARTED_AGAIN, self._keep_daemon)

    def run_until(self, at: int) -> None:
        """Let everything happen up to a time, ns since the epoch, or until a check fails."""
        self.clock.run_until(at, self._is_over)
        self._is_over()

    def _is_over(self) -> bool:
        """Whether a check has failed; raises what a daemon was ended by that nothing expects."""
        for daemon in self.daemons:
            if daemon.fault is not None:
                raise daemon.fault
        return self.checks.broken is not None

    def end(self) -> None:
        """End all processes, so that no thread is left."""
        for one in self.daemons:
            one.process.kill()
        self._files.cleanup()

    # Faults

    def happen(self, fault: Fault) -> None:
        """Have a fault happen now."""
        self.narrate(f"fault {' '.join(str(one) for one in fault[1:] if one)}")
        KINDS[fault.kind].event(self, fault)

    def calm(self) -> None:
        """From now on nothing goes wrong any more, and what is broken is repaired."""
        self.narrate("nothing goes wrong any more")
        self.faults.active.clear()
        self.isolated.clear()
        self.cut_paths.clear()
        self.reaches_agents.clear()
        self.old_luxids.clear()
        self.ahead.clear()
        self.luxid.start()
        self.luxid.drained = False
        for uuid in sorted(self.filters):
            unfiltered(self, uuid)
        for disk in self.disks.values():
            disk.empty()
        ganeti = self.ganeti
        for row in [one for one in ganeti.nodes if one["name"] in ganeti.off]:
            ganeti.power_on(row["name"])
            # Who switches a node on does not say any more that it is off.
            row["tags"][:] = [tag for tag in row["tags"] if not tag.startswith(STOPPED_TAG)]
        for node in [*ganeti.off]:
            ganeti.power_on(node)
        ganeti.deaf.clear()
        ganeti.silent.clear()
        for row in (*ganeti.nodes, *ganeti.instances, *ganeti.groups, ganeti.info):
            row["tags"][:] = [tag for tag in row["tags"] if not tag.startswith(_HOLDING)]
        ganeti.changed()
        for daemon in self.daemons:
            daemon.process.go_on()
        self.clock.after(self.draw("calm").choice((120, 120, 900)), ganeti.reports.clear)
        self._tend()

    def _tend(self) -> None:
        """A person acknowledges results, and takes nodes back whose hardware is repaired."""
        records_confirmed(self)
        for uuid, record in self.records():
            row = next((one for one in self.ganeti.nodes if one["uuid"] == record["node"]), None)
            late = self.clock.now - record["progressed"] > _TAKEN_BACK_AFTER
            if row and row["offline"] and record["status"] == "pending" and late:
                row["offline"] = False
                self.ganeti.changed()
            if row and (word := self._word(row, record, late=late)):
                tags = row["tags"]
                tags += [f"{word}{uuid}"] if f"{word}{uuid}" not in tags else []
                self.ganeti.changed()
        for row in self.ganeti.nodes:
            results = [tag for tag in row["tags"] if tag.startswith("maintd:repair")]
            if results or (row["name"] not in self.ganeti.reports and not self._is_repaired(row)):
                row["tags"][:] = [tag for tag in row["tags"] if tag not in results]
                self.ganeti.reports.pop(row["name"], None)
                if row["name"] in self.ganeti.off:
                    self.ganeti.power_on(row["name"])
                row.update(drained=False, offline=False)
                self.ganeti.promote()
                self.ganeti.changed()
        self.clock.after(120, self._tend)

    def _word(self, row: Row, record: Row, *, late: bool) -> str:
        """What a person does about an incident: the beginning of a tag; empty: nothing.

        ``late``: whether its repair has made no progress for long.
        """
        pending = record["status"] == "pending"
        if record.get("maintenance"):
            held = self.clock.now - record["first_seen"] > _HELD_FOR
            canceled = record["status"] == "noted" and (row["master"] or held)
            return DONE_TAG if pending else CANCEL_TAG if canceled else ""
        if pending and late and row["name"] in self.ganeti.off:
            return STOPPED_TAG
        # It cannot be drained, also where its repair was begun before that was so.
        needed = row["master"] or (late and self._is_needed(row["name"]))
        return CANCEL_TAG if pending and needed else ""

    def _is_needed(self, node: str) -> bool:
        """Whether too few nodes are left for copies of the configuration without this one."""
        size = self.ganeti.info["candidate_pool_size"]
        return not pool(self.ganeti).enough_without(frozenset((node,)), size)

    def _is_repaired(self, row: Row) -> bool:
        """Whether something is still being done to a node."""
        return any(
            one.get("node") == row["uuid"] and one.get("status") == "pending"
            for _, one in self.records()
        )


#: ns after which a person cancels a maintenance that something holds back.
_HELD_FOR: Final = 7200 * SECOND
#: ns without progress after which a person has Ganeti use a node that is offline and runs.
_TAKEN_BACK_AFTER: Final = 1800 * SECOND


#: The tag by which harep's work is permitted.
_REPAIRS: Final = "ganeti:watcher:autorepair:failover"
