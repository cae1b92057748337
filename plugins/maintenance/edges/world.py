"""Reads the live cluster: one set of queries for what an allocator and the daemon need of it."""

from __future__ import annotations

import time
from collections.abc import Callable

from ganeti_steward.core.ganeti.shapes import returned_by
from ganeti_steward.core.ganeti.snapshot import Client, read_live
from ganeti_steward.core.maintenance.world import World


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
    with returned_by(client.where):
        found = read_live(client, storage=storage, required=False, sleep=sleep)
        return World(now, found.cluster, found.info["candidate_pool_size"])
