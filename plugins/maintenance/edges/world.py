"""Reads the live cluster: one set of queries for what an allocator and the daemon need of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ganeti_steward.core.ganeti.shapes import returned_by
from ganeti_steward.core.ganeti.snapshot import Client, read_live
from ganeti_steward.core.maintenance.world import GroupFacts, InstanceFacts, NodeFacts, World
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.job_state import SUCCESS, JobState

_Row = dict[str, Any]

#: What the daemon needs in addition to what an allocator does, by kind of object.
_MORE: Final[Mapping[str, Sequence[str]]] = {
    "node": ("uuid", "master", "master_candidate", "pip"),
    "instance": ("status",),
}
#: Seconds for a job that queries the nodes' storage: a running job may hold it up for hours.
_STORAGE_LIMIT: Final = 20.0


def read_world(
    client: Client,
    now: int,
    *,
    storage: bool = True,
    sleep: Callable[[float], None] = time.sleep,
) -> World:
    """The cluster at ``now`` (ns since the epoch), without incidents and observations.

    A node that does not answer has no figures and counts as silent; nothing else is lost.  Where
    Ganeti does not report the free space of the instances' storage in its usual answer, a job is
    submitted that queries it; if it fails or waits too long, the nodes have no disk figures.
    ``storage`` false: no job is submitted, and that space counts as none.  Raises StewardError
    when luxid does not answer.
    """
    rows = _Rows(client, sleep)
    with returned_by(client.where):
        template = None if storage else rows.info()["enabled_disk_templates"][0]
        cluster = read_live(rows, template, sleep=rows.sleep).cluster
        return _world(rows, cluster, now)


class _Rows:
    """A client that reads some fields more and keeps what was read."""

    def __init__(self, client: Client, sleep: Callable[[float], None]) -> None:
        self._client = client
        self._sleep = sleep
        self._waited = 0.0
        self._info: _Row | None = None
        self.kept: dict[str, list[_Row]] = {}

    @property
    def where(self) -> str:
        return self._client.where

    def info(self) -> _Row:
        if self._info is None:
            self._info = self._client.info()
        return self._info

    def rows(self, what: str, fields: Sequence[str]) -> list[_Row]:
        rows = self._client.rows(what, (*fields, *_MORE.get(what, ())))
        self.kept[what] = rows
        return rows

    def storage_jobs(self, kind: str, fields: Sequence[str], nodes: Sequence[str]) -> list[int]:
        return self._client.storage_jobs(kind, fields, nodes)

    def states(self, numbers: Sequence[int]) -> list[JobState]:
        """A job that failed, or takes too long, has reported nothing of any node."""
        late = self._waited >= _STORAGE_LIMIT
        return [
            JobState(state.number, SUCCESS, results=[[]])
            if (late if not state.ended else state.status != SUCCESS)
            else state
            for state in self._client.states(numbers)
        ]

    def sleep(self, seconds: float) -> None:
        self._waited += seconds
        self._sleep(seconds)


def _world(rows: _Rows, cluster: Cluster, now: int) -> World:
    info = rows.info()
    instances = [_instance(row) for row in rows.kept["instance"]]
    return World(
        now,
        cluster,
        {row["uuid"]: _node(row) for row in rows.kept["node"]},
        {instance.name: instance for instance in instances},
        {row["uuid"]: _group(row) for row in rows.kept["group"]},
        frozenset(info["tags"]),
        info["candidate_pool_size"],
    )


def _group(row: _Row) -> GroupFacts:
    return GroupFacts(row["uuid"], row["name"], frozenset(row["tags"]))


def _node(row: _Row) -> NodeFacts:
    return NodeFacts(
        uuid=row["uuid"],
        name=row["name"],
        group=row["group.uuid"],
        tags=frozenset(row["tags"]),
        master=row["master"],
        master_candidate=row["master_candidate"],
        offline=row["offline"],
        drained=row["drained"],
        vm_capable=row["vm_capable"],
        address=row["pip"],
        master_capable=row["master_capable"],
    )


def _instance(row: _Row) -> InstanceFacts:
    return InstanceFacts(
        # A forthcoming instance may have no name yet.
        name=row["name"] or row["uuid"],
        primary=row["pnode"],
        secondaries=tuple(row["snodes"]),
        template=row["disk_template"],
        up=row["admin_state"] == "up",
        tags=frozenset(row["tags"]),
        status=row["status"] or "",
    )
