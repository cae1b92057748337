"""How often Ganeti's watcher has started an instance, by the jobs of the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from worlds import SECOND, instance, node, world

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.plugins.maintenance.queue.watcher_jobs import WatcherJobs
from ganeti_steward.plugins.model.world import WATCHER_MEMORY, Starts, Watcher, World

if TYPE_CHECKING:
    from standin import StandIn

START = "OP_INSTANCE_STARTUP"


def job(
    name: str, at: int, source: str = "gnt:watcher", operation: str = START
) -> list[dict[str, Any]]:
    """A job as a program submits it; ``at``: ns."""
    reason = [[source, "Restarting instance", at]]
    return [{"OP_ID": operation, "instance_name": name, "reason": reason}]


def seen(now: int, **statuses: str) -> World:
    """A world with instances of these statuses, by name."""
    placed = [instance(name, "n1", status=one) for name, one in statuses.items()]
    return world([node("n1")], placed)._replace(now=now)


def requests(luxi: Luxi) -> list[tuple[Any, ...]]:
    """The calls from now on."""
    made: list[tuple[Any, ...]] = []
    call = luxi.call
    luxi.call = lambda *what: (made.append(what), call(*what))[1]  # type: ignore[method-assign]
    return made


def test_only_the_starts_of_the_watcher_count(stand_in: StandIn, luxi: Luxi) -> None:
    stand_in.pace(3600)
    now = stand_in.clock()
    times = [now - ago * SECOND for ago in (900, 600, 300, 200)]
    stand_in.submit(
        [
            job("a", times[0]),
            job("a", times[1], source="gnt:client:gnt-instance"),
            job("a", times[2], operation="OP_INSTANCE_ACTIVATE_DISKS"),
            job("b", times[2]),
            job("a", times[3]),
            job("up", times[3]),
        ]
    )
    found = WatcherJobs(luxi).read(seen(now, a="ERROR_down", c="ERROR_down", up="running"), 6)
    assert found.watcher == Watcher({"a": Starts(2, times[0], times[3], 5)})


def test_why_the_last_one_failed(stand_in: StandIn, luxi: Luxi) -> None:
    now = stand_in.clock()
    stand_in.fail(START, "", "no bridge xen-br0")
    stand_in.submit([job("a", now - 9)])
    stand_in.advance()
    (one,) = WatcherJobs(luxi).read(seen(now, a="ERROR_down"), 1).watcher.starts.values()
    assert one.error == "no bridge xen-br0"


def test_nothing_is_read_while_nothing_is_down(stand_in: StandIn, luxi: Luxi) -> None:
    stand_in.submit([job("a", 1)])
    made = requests(luxi)
    quiet = seen(5, a="running", b="ADMIN_down", c="ERROR_nodedown", d="ERROR_up", e="USER_down")
    assert WatcherJobs(luxi).read(quiet, 1) is quiet
    assert made == []


def test_jobs_are_read_about_once(stand_in: StandIn, luxi: Luxi) -> None:
    """The last ones again: luxid can store one after those of higher numbers."""
    now, down = stand_in.clock(), {"a": "ERROR_down"}
    jobs = WatcherJobs(luxi)
    stand_in.submit([job("a", now - 1000 + number) for number in range(150)])
    assert jobs.read(seen(now, **down), 150).watcher.starts["a"].number == 150
    made = requests(luxi)
    stand_in.submit([job("a", now)])
    late = stand_in.queue.rows[151]
    late["archived"] = True
    stand_in.submit([job("a", now)])
    assert jobs.read(seen(now, **down), 152).watcher.starts["a"].number == 151
    first = next(what[3] for what in made if what[:2] == ("Query", "job"))
    assert first == [">", "id", 50]
    late["archived"] = False
    assert jobs.read(seen(now, **down), 152).watcher.starts["a"].number == 152


def test_numbers_that_another_master_gives_out_again(stand_in: StandIn, luxi: Luxi) -> None:
    now, jobs = stand_in.clock(), WatcherJobs(luxi)
    stand_in.submit([job("b", now - 2) for _ in range(300)])
    jobs.read(seen(now, a="ERROR_down"), 300)
    stand_in.queue.last = 10
    stand_in.submit([job("a", now - 1)])
    found = jobs.read(seen(now, a="ERROR_down"), 11).watcher.starts["a"]
    assert found[:4] == (1, now - 1, now - 1, 11)


def test_what_the_watcher_has_forgotten_does_not_count(stand_in: StandIn, luxi: Luxi) -> None:
    now, limit = stand_in.clock(), WATCHER_MEMORY * SECOND
    jobs = WatcherJobs(luxi)
    stand_in.submit([job("a", now - 60 * SECOND), job("a", now)])
    numbers = [
        {
            name: one.number
            for name, one in jobs.read(seen(at, a="ERROR_down"), 2).watcher.starts.items()
        }
        for at in (now, now + limit - 60 * SECOND, now + limit)
    ]
    assert numbers == [{"a": 2}, {"a": 1}, {}]


@pytest.mark.parametrize(("answer", "until"), [([None], 0), ([1_800_000_000], 1_800_000_000)])
def test_the_pause(stand_in: StandIn, luxi: Luxi, answer: list[int | None], until: int) -> None:
    stand_in.methods["QueryConfigValues"] = lambda fields: {("watcher_pause",): answer}[*fields]
    found = WatcherJobs(luxi).read(seen(stand_in.clock(), a="ERROR_down"), 0)
    assert found.watcher.paused == until * SECOND


@pytest.mark.parametrize("answer", [None, [], ["soon"], [1, 2], 7])
def test_another_answer_is_no_traceback(stand_in: StandIn, luxi: Luxi, answer: object) -> None:
    stand_in.methods["QueryConfigValues"] = lambda fields: answer
    with pytest.raises(StewardError, match="not what Ganeti 3 returns"):
        WatcherJobs(luxi).read(seen(stand_in.clock(), a="ERROR_down"), 0)
