"""Actions that Ganeti does not have hold and release jobs of a real queue."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final

from thorough import often

from ganeti_steward.plugins.model.incident import COMPLETED

from ..cluster import op, until
from .maintained_lab import MaintainedLab
from .node_files import REPAIR

DELAYS: Final = [["opcode", ["=", "OP_ID", "OP_TEST_DELAY"]]]
#: Jobs that wait for the window to open.
JOBS: Final = often(5, 100)


@contextmanager
def rule(
    lab: MaintainedLab, action: str, predicates: Any = DELAYS, priority: int = 50
) -> Iterator[str]:
    """Adds a rule about test jobs with this action."""
    options = ("--action", action, "--predicates", json.dumps(predicates))
    options += ("--priority", str(priority))
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
        # Twice: when the second one has ended, luxid has looked at the queue since the first.
        for _ in range(2):
            lab.do(op("TAGS_SET", kind="cluster", name="", tags=[tag]))
        assert states(lab, [first, second]) == ["queued", "queued"]
        with lab.daemon():
            until(lambda: lab.job(first) == "success")
            lab.do(op("TAGS_SET", kind="cluster", name="", tags=["another"]))
            lab.do(op("TAGS_DEL", kind="cluster", name="", tags=["another"]))
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


def test_expressions_that_take_years(maintained: MaintainedLab) -> None:
    """Jobs are held, by the name of the rule where it is unclear; rounds end, a node is handled.

    luxid decides both: the first at once, for the text has no b, the second after a million steps.
    """
    lab, node = maintained, "node3.lab"
    years, unclear = ([["opcode", ["=~", "name", one]]] for one in ("^(a+)+b$", "^(c+)+$"))
    names = "a" * 40 + "!", "c" * 20 + "!"
    jobs = [[op("TAGS_SET", kind="cluster", name=one, tags=["years"])] for one in names]
    lab.repair_status(node, 0)
    with (
        lab.daemon(),
        rule(lab, "APPROVE", years),
        rule(lab, "APPROVE", unclear) as uuid,
        rule(lab, "APPROVE", [["opcode", ["=", "kind", "cluster"]]], 60),
    ):
        first, second = (int(one) for _, one in lab.luxi.call("SubmitManyJobs", jobs))
        texts = (
            f"APPROVE holds job {first}: an admin approves a job",
            f"APPROVE holds job {second}: filter rule {uuid} cannot be evaluated",
        )
        for text in texts:
            until(lambda text=text: text in lab.steward("maintd", "status").stdout)
        lab.report(node, REPAIR)
        lab.ended(node, COMPLETED)
        status = lab.steward("maintd", "status").stdout
        assert all(text in status for text in texts)
        assert states(lab, [first, second]) == ["queued", "queued"]
        explained = lab.steward("filter", "explain", str(second))
        assert f"Result: may apply: {uuid}" in explained.stdout, explained.stderr
    until(lambda: states(lab, [first, second]) == ["success", "success"])
    lab.do(op("TAGS_DEL", kind="cluster", name="", tags=["years"]))
