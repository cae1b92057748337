"""Carrying out an answer's jobs on the engine, one operation after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from ganeti_steward.allocators.rules.checks import (
    Check,
    first_failing,
    primary_checks,
    secondary_checks,
)
from ganeti_steward.allocators.score.plan_score import PlanScore
from ganeti_steward.allocators.state.load import load
from ganeti_steward.allocators.state.state import Resident, State
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.cluster import Cluster

Message = dict[str, Any]

KVM = 4096


class IllegalStepError(Exception):
    """An operation that the rules of its step forbid (allocation 4.4)."""


class Replay:
    """A cluster on which operations are carried out in order."""

    def __init__(self, message: Message | Cluster, *, forced: bool = False) -> None:
        """``message``: also a cluster read from htools' text format."""
        if isinstance(message, Cluster):
            cluster = message
        else:
            cluster, self.request = read_message(orjson.dumps(message))
        self.start = self.state = load(cluster, None, KVM)
        self.copies = 0
        self._forced = forced
        self._index = cluster.node_index
        self._moved: dict[str, Resident] = {}

    def run(self, answer: Message) -> Replay:
        """All jobs of an answer; raises IllegalStepError."""
        for job in answer["result"][2]:
            self.run_job(job)
        return self

    def run_job(self, job: list[Message]) -> None:
        """The operations of one job; raises IllegalStepError."""
        for operation in job:
            self._run(operation)

    def nodes_of(self, name: str) -> list[str]:
        """Where an instance is by now, primary first."""
        cluster = self.state.frame.cluster
        resident = self._resident(name)
        return [cluster.nodes[node].name for node in resident[1:] if node >= 0]

    def score(self, groups: set[int] | None = None) -> float:
        """The sum of the scores of these groups (None: all), as they will be read."""
        final, group = PlanScore(), self.state.frame.group
        numbers = set(group.tolist()) if groups is None else groups
        return sum(final.score(self.state, group == number) for number in sorted(numbers))

    def cluster_score(self) -> float:
        """The score over all nodes of the cluster, as they will be read."""
        return PlanScore().score(self.state, np.ones(self.state.frame.size, np.bool_))

    def _resident(self, name: str) -> Resident:
        known = self._moved.get(name)
        if known is None:
            return self.start.resident(name)
        for resident in self.state.residents.get(known.primary, ()):
            if resident.demand is known.demand:
                return resident
        return known

    def _run(self, operation: Message) -> None:
        resident = self._resident(operation["instance_name"])
        left = self.state.removed(resident)
        if operation["OP_ID"] == "OP_INSTANCE_REPLACE_DISKS":
            primary, secondary = self._replace(left, resident, operation["remote_node"])
        elif resident.demand.drbd:
            primary, secondary = self._fail_over(left, resident)
        else:
            primary, secondary = self._move(left, resident, operation["target_node"])
        self.state = left.placed(resident.demand, primary, secondary)
        self._moved[operation["instance_name"]] = Resident(resident.demand, primary, secondary)

    def _fail_over(self, left: State, resident: Resident) -> tuple[int, int]:
        demand, source, target = resident
        usable = bool(left.frame.usable[source])
        forced = self._forced or not usable
        self._receives(left, source, target)
        after = left.after_primary(demand)
        self._judge(primary_checks(left, demand, after, has_copy=True), target, forced)
        after = left.after_secondary(demand, left.peers.row(target))
        checks = secondary_checks(left, demand, after, has_copy=True)
        self._judge(checks, source, forced)
        return target, source

    def _move(self, left: State, resident: Resident, name: str) -> tuple[int, int]:
        demand, source, _ = resident
        target = self._index[name]
        if demand.instance.template in ("plain", "file") or target == source:
            raise IllegalStepError(f"{demand.instance.name} cannot move to {name}")
        self._receives(left, source, target)
        forced = self._forced or not left.frame.usable[source]
        self._judge(primary_checks(left, demand, left.after_primary(demand)), target, forced)
        return target, -1

    def _replace(self, left: State, resident: Resident, name: str) -> tuple[int, int]:
        demand, primary, secondary = resident
        target = self._index[name]
        if target in (primary, secondary) or not left.frame.usable[target]:
            raise IllegalStepError(f"{demand.instance.name}: {name} cannot take a copy")
        if left.frame.cluster.nodes[primary].offline:
            raise IllegalStepError(f"{demand.instance.name}: its primary node is offline")
        after = left.after_secondary(demand, left.peers.row(primary))
        forced = self._forced or not left.frame.usable[secondary]
        self._judge(secondary_checks(left, demand, after), target, forced)
        after = left.after_primary(demand)
        self._judge(primary_checks(left, demand, after, has_copy=True), primary, forced=True)
        self.copies += 1
        return primary, target

    @staticmethod
    def _receives(left: State, source: int, target: int) -> None:
        if not left.frame.usable[target] or not left.frame.accepts(source)[target]:
            raise IllegalStepError(f"{left.frame.cluster.nodes[target].name} takes nothing")

    @staticmethod
    def _judge(checks: list[Check], node: int, forced: bool) -> None:
        position = first_failing(checks, len(checks[0].failing), forced=forced)[node]
        if position:
            raise IllegalStepError(checks[int(position) - 1].text(node))


def groups_changed(*replays: Replay) -> set[int]:
    """The groups in which one of these did something."""
    changed: set[int] = set()
    for replay in replays:
        differ = np.flatnonzero((replay.state.now != replay.start.now).any(axis=0))
        changed |= set(replay.state.frame.group[differ].tolist())
    return changed
