"""How fast moves are, read from the jobs of the queue."""

from __future__ import annotations

from typing import Any

from worlds import instance, node, world

from ganeti_steward.allocators.rolling.pace import Pace
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.opcodes import FAILOVER, MIGRATE, REPLACE_DISKS
from ganeti_steward.plugins.maintenance.forecast.rates import FIELDS, learned

SIZES = range(1, 9)


def cluster() -> Cluster:
    found = [instance(f"i{n}", "node1.lab", "node2.lab", memory=1024 * n) for n in SIZES]
    return world([node("node1.lab"), node("node2.lab")], found).cluster


def job(kind: str, name: str, seconds: float, status: str = "success") -> dict[str, Any]:
    """It waits for 0.5 s, a tag is set in 1 s, then the operation runs."""
    end = 100 + seconds
    row = {
        "ops": [{"OP_ID": "OP_TAGS_SET"}, {"OP_ID": kind, "instance_name": name}],
        "opstatus": ["success", status],
        "received_ts": [98, 500000],
        "opexec": [[99, 0], [100, 0]],
        "opend": [[100, 0], [int(end), round(end % 1 * 10**6)]],
    }
    return {field: row[field] for field in FIELDS}


def test_a_speed_and_what_comes_on_top() -> None:
    """200 MiB a second and 7 s, and one job that waited for something."""
    rows = [job(MIGRATE, f"i{n}", 7 + 1024 * n / 200) for n in SIZES]
    found = learned([*rows, job(MIGRATE, "i2", 900)], cluster(), Pace())
    assert (found.pace.migrated_per_second, found.pace.set_up_seconds) == (200, 7)
    assert found.pace.copied_per_second == Pace().copied_per_second
    assert "200 MiB of memory a second (by 9 migrations in the job queue)" in found.sentence
    assert "100 MiB of disks a second (no such job is known)" in found.sentence


def test_jobs_of_one_size_show_no_speed() -> None:
    found = learned([job(MIGRATE, "i4", 11)] * 20, cluster(), Pace())
    assert found.pace.migrated_per_second == Pace().migrated_per_second
    assert found.pace.set_up_seconds == round(11 - 4096 / 400, 2)


def test_failovers_and_copies() -> None:
    rows = [job(FAILOVER, "i1", seconds) for seconds in (20, 30, 90)]
    rows += [job(REPLACE_DISKS, "i1", 300)]
    found = learned(rows, cluster(), Pace())
    assert (found.pace.failover_seconds, found.copies) == (30, 1)


def test_each_kind_of_short_operation_has_the_same_weight() -> None:
    """Tags are set in 1.5 s, ten times as often as a node is drained, which takes 4 s."""
    rows = [job(MIGRATE, "i1", 20)] * 10 + [job("OP_NODE_SET_PARAMS", "", 4)]
    found = learned(rows, cluster(), Pace())
    assert found.pace.short_seconds == 2.75
    assert found.sentence.endswith("2.75 s for any other operation")


def test_what_shows_nothing() -> None:
    """A job that failed, of an instance that is gone, without times, or of other operations."""
    rows = [
        job(MIGRATE, "i1", 50, "error"),
        job(MIGRATE, "gone", 50),
        job("OP_INSTANCE_REBOOT", "i1", 50),
        {**job(MIGRATE, "i1", 50), "opend": [None, None]},
        {**job(MIGRATE, "i1", 50), "opend": None},
        job(MIGRATE, "i1", 0),
    ]
    tagged = Pace(short_seconds=1.5)
    assert learned(rows, cluster(), Pace()) == (tagged, 0, 0, 0, ())
    assert learned([], cluster(), Pace()) == (Pace(), 0, 0, 0, ())
