"""Actions that Ganeti does not have hold and release jobs of a real queue."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final

from thorough import often

from ..cluster import op, until
from .maintained_lab import MaintainedLab

DELAYS: Final = [["opcode", ["=", "OP_ID", "OP_TEST_DELAY"]]]
#: Jobs that wait for the window to open.
JOBS: Final = often(5, 100)


@contextmanager
def rule(lab: MaintainedLab, action: str) -> Iterator[str]:
    """Adds a rule about test jobs with this action."""
    options = ("--action", action, "--predicates", json.dumps(DELAYS))
    done = lab.steward("filter", "add", *options)
    assert done.returncode == 0, done.stderr
    uuid = done.stdout.strip()
    yield uuid
    done = lab.steward("filter", "delete", uuid)
    assert done.returncode == 0, done.stderr


def submit(lab: MaintainedLab, number: int) -> list[int]:
    delay: dict[str, Any] = op("TEST_DELAY", duration=0.01, no_locks=True, interruptible=False)
    delay |= {"on_master": False, "on_nodes": [], "repeat": 0}
    return [int(one) for _, one in lab.luxi.call("SubmitManyJobs", [[delay]] * number)]


def states(lab: MaintainedLab, numbers: list[int]) -> list[str]:
    return [state.status for state in lab.luxi.states(numbers)]


def test_approve(maintained: MaintainedLab) -> None:
    """Without the daemon an approved job stays held; with it the others do."""
    lab = maintained
    with rule(lab, "APPROVE"):
        with lab.daemon() as daemon:
            first, second = submit(lab, 2)
            until(lambda: str(second) in lab.steward("maintd", "status").stdout)
            lab.kill(daemon)
        tag = f"maintd:approve:{first}"
        lab.do(op("TAGS_SET", kind="cluster", name="", tags=[tag]))
        time.sleep(3)
        assert states(lab, [first, second]) == ["queued", "queued"]
        with lab.daemon():
            until(lambda: lab.job(first) == "success")
            time.sleep(3)
            assert lab.job(second) == "queued"
            # The rule that released it goes with the job.
            until(lambda: len(lab.luxi.rows("filter", ("uuid",))) == 1)
    until(lambda: lab.job(second) == "success")
    if tag in lab.luxi.call("QueryTags", "cluster", ""):
        lab.do(op("TAGS_DEL", kind="cluster", name="", tags=[tag]))


def test_a_window_that_opens(maintained: MaintainedLab) -> None:
    """No job starts before, all of them start within a few rounds."""
    lab = maintained
    opens = (datetime.now() + timedelta(seconds=75)).replace(second=0, microsecond=0)
    closes = opens + timedelta(minutes=30)
    with rule(lab, f"WINDOW {opens:%a %H:%M}-{closes:%H:%M}"), lab.daemon():
        numbers = submit(lab, JOBS)
        until(lambda: set(states(lab, numbers)) == {"success"})
    rows = lab.luxi.rows("job", ("id", "start_ts"))
    started = [row["start_ts"] for row in rows if int(row["id"]) in numbers]
    assert min(seconds for seconds, _ in started) >= opens.timestamp()
