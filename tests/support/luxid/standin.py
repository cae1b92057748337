"""The product's model of luxid over rows of an iallocator message, with what tests want of it.

`tests/lab/maintenance` compares the answers with those of the real luxid.  Methods that start with
``test.`` are for tests; `standin_server` serves it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from live import Ganeti

from ganeti_steward.plugins.filters.queue import Schedule
from ganeti_steward.plugins.simulation.effects import Effects
from ganeti_steward.plugins.simulation.jobs import JobFailed, Operation
from ganeti_steward.plugins.simulation.luxid import Luxid

Row = dict[str, Any]


class _Operations(Effects):
    """Each takes one pace."""

    def __init__(self, ganeti: Ganeti) -> None:
        super().__init__(ganeti)
        self.known["OP_NODE_QUERY_STORAGE"] = self._query_storage
        self.ganeti = ganeti
        self.pace = 0.0
        self.faults: list[tuple[str, str, str]] = []

    def begin(self, operation: Operation) -> tuple[float, Callable[[], Any]]:
        return self.pace * 1e9, partial(self._end, operation)

    def _end(self, operation: Operation) -> Any:
        names = (operation.get(key) for key in ("instance_name", "node_name", "name"))
        known = {"", *names}
        for kind, name, text in self.faults:
            if operation["OP_ID"] == kind and name in known:
                raise JobFailed(text, kind="OpExecError")
        return self.run(operation)

    def _query_storage(self, operation: Operation) -> Iterator[Any]:
        kind = operation["storage_type"]
        yield
        # Nothing is known of physical volumes.
        yield [] if kind == "lvm-pv" else self.ganeti.storage_rows(kind, operation["nodes"])


class StandIn(Luxid):
    """The answers; not safe for several threads at once, except for `answer`."""

    def __init__(
        self,
        message: Row,
        clock: Callable[[], int] = time.time_ns,
        templates: Sequence[str] = ("drbd", "plain"),
    ) -> None:
        self.ganeti = Ganeti(message, templates)
        self.operations = _Operations(self.ganeti)
        super().__init__(self.ganeti, self.operations, Schedule(clock()), clock)
        self.late = 0.0
        """seconds from the allocation of numbers until their jobs are stored, also of those that
        wait already; other requests are answered meanwhile"""
        self.submissions: list[Any] = []
        """the arguments of every SubmitManyJobs that was taken"""
        self.methods |= {
            "test.change": self.change,
            "test.leave": self.leave,
            "test.pace": self.pace,
            "test.late": lambda seconds: setattr(self, "late", seconds),
            "test.fail": self.fail,
            "test.submitted": lambda: self.submissions,
        }

    def _store(self, numbers: Sequence[int], jobs: Sequence[Sequence[Any]]) -> None:
        self.submissions.append(jobs)
        began = time.monotonic()
        while time.monotonic() < began + self.late:
            self.lock.release()
            time.sleep(0.02)
            self.lock.acquire()
        super()._store(numbers, jobs)

    def change(self, kind: str, name: str, changes: Row) -> None:
        """Change an object at once: kind node, instance, group, or cluster."""
        if kind == "cluster":
            self.ganeti.info.update(changes)
            return
        rows = self.ganeti.rows(kind)
        next(row for row in rows if row["name"] == name).update(changes)

    def leave(self, node: str) -> None:
        """Take a node out of the cluster."""
        self.ganeti.nodes[:] = [row for row in self.ganeti.nodes if row["name"] != node]

    def pace(self, seconds: float) -> None:
        """Let every operation that starts from now on run for so long."""
        self.operations.pace = seconds

    def fail(self, operation: str, name: str, text: str) -> None:
        """Let every operation of a kind that names an object fail; ``name`` empty: any."""
        self.operations.faults.append((operation, name, text))
