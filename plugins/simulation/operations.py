"""How long the operations of `simulate` and the demo take, and which fail for no reason."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from ganeti_steward.allocators.placement.one_place import relocate
from ganeti_steward.core.model import opcodes
from ganeti_steward.core.model.answer import Answer
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.requests import Relocate
from ganeti_steward.plugins.maintenance.queue.short_jobs import QUERY_DATA
from ganeti_steward.plugins.simulation.assumptions import SECOND, Assumptions
from ganeti_steward.plugins.simulation.cluster import SimulatedCluster
from ganeti_steward.plugins.simulation.effects import DELAY, NEW_SECONDARY, Effects
from ganeti_steward.plugins.simulation.jobs import JobFailed, Operation


class SimulatedOperations(Effects):
    """Operations on one cluster."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        assumed: Assumptions,
        succeeded: Callable[[Operation], None] = lambda operation: None,
    ) -> None:
        """``succeeded`` is called with each operation that does."""
        super().__init__(cluster)
        self._cluster, self._assumed, self._on_success = cluster, assumed, succeeded
        self._random = Random(f"jobs {assumed.seed}")
        self._calls = Random(f"out-of-band {assumed.seed}")

    def begin(self, operation: Operation) -> tuple[float, Callable[[], Any]]:
        """It starts: the ns until its end, and what happens then; both raise Failed."""
        operation = self._resolved(operation)
        self.check(operation)
        # How many checks there are depends on which rounds are left out.
        if operation["OP_ID"] != QUERY_DATA and self._random.random() < self._assumed.job_failures:
            raise JobFailed("it failed for a reason of its own")
        if operation["OP_ID"] == opcodes.FAILOVER:
            self._shut_down_first(operation["instance_name"])
        return self._seconds(operation) * SECOND, partial(self._end, operation)

    def _shut_down_first(self, instance: str) -> None:
        """Ganeti stops what it fails over, unless the node is marked offline or does not answer."""
        primary = self._cluster.instances[instance].primary
        if self._cluster.answers(primary) and not self._cluster.nodes[primary].offline:
            self._cluster.stop(instance)

    def activate(self, instance: str, *, wait: bool) -> None:
        """Connect the copies of its disks."""
        self._cluster.connect(instance)

    def power(self, operation: Operation, node: str) -> bool:
        """Run the out-of-band program of a node, which may fail."""
        if self._calls.random() < self._assumed.oob_fails:
            return False
        return super().power(operation, node)

    def _end(self, operation: Operation) -> Any:
        try:
            result = self.run(operation)
        finally:
            if operation["OP_ID"] in opcodes.MOVES:
                self._cluster.start(operation["instance_name"])
        self._on_success(operation)
        return result

    def _seconds(self, operation: Operation) -> float:
        kind, assumed = operation["OP_ID"], self._assumed
        if kind == DELAY:
            return float(operation["duration"])
        if "instance_name" not in operation:
            return assumed.short_seconds
        one = self._cluster.instances[operation["instance_name"]]
        copied = one.disk_space / assumed.copied_per_second
        seconds: dict[str, float] = {
            opcodes.MIGRATE: assumed.set_up_seconds + one.memory / assumed.migrated_per_second,
            opcodes.FAILOVER: assumed.failover_seconds,
            opcodes.REPLACE_DISKS: assumed.set_up_seconds + copied,
            "OP_INSTANCE_MOVE": assumed.failover_seconds + copied,
            "OP_INSTANCE_SHUTDOWN": assumed.failover_seconds,
        }
        return seconds.get(kind, assumed.short_seconds)

    def _resolved(self, operation: Operation) -> Operation:
        """With the node that an allocator finds, where the operation leaves that to one."""
        name = operation.get("instance_name", "")
        one = self._cluster.instances.get(name)
        if not one or operation.get("mode") != NEW_SECONDARY or "remote_node" in operation:
            return operation
        request = Relocate(name, 1, one.secondaries)
        found = relocate(request, self._cluster.cluster, Context())
        if isinstance(found, Answer) and isinstance(found.result, list):
            return {**operation, "remote_node": found.result[0]}
        return operation
