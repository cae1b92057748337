"""What these scenarios read from the cluster."""

from __future__ import annotations

import marshal
import time
from collections.abc import Callable
from typing import Any, Final

from ganeti_steward.plugins.model.incident import Incident

from ...cluster import until
from ...drbd_lab import CANDIDATES, NODES
from ..maintained_lab import MaintainedLab
from .watched import Runs


def says(lab: MaintainedLab, *words: str, seconds: float = 300) -> None:
    """Wait until ``maintd status`` has all of these words."""
    until(lambda: lacking(status(lab), words) == [], seconds)


def status(lab: MaintainedLab) -> str:
    """What ``maintd status`` prints, in one line: sentences are wrapped."""
    done = lab.steward("maintd", "status", node=lab.master)
    return " ".join((done.stdout + done.stderr).split())


def lacking(text: str, words: tuple[str, ...]) -> list[str]:
    """The words a text does not have."""
    return [word for word in words if word not in text]


def witnessed(
    lab: MaintainedLab, dead: str, holds: Callable[[], bool], *, every: float = 1
) -> None:
    """Wait until something holds; the other candidates report meanwhile, where there are some."""

    def found() -> bool:
        others_report(lab, dead)
        return holds()

    until(found, 600, every=every if CANDIDATES == 1 else 20)


#: Seconds after the begin of its silence from which on what others report of a node is evidence.
EVIDENCE: Final = 210


def others_report(lab: MaintainedLab, dead: str) -> None:
    """The other master candidates have a new report."""
    for node in NODES[:CANDIDATES]:
        if node not in (dead, lab.master):
            lab.steward("diagnose", node=node)


def during(seconds: float, holds: Callable[[], bool], lab: MaintainedLab) -> None:
    """Something holds all the time, for so long."""
    last = time.monotonic() + seconds
    while time.monotonic() < last:
        assert holds(), lab.incidents
        time.sleep(0.5)


def data(lab: MaintainedLab, instance: str) -> dict[str, str]:
    """Node -> the generation of the instance's data there: the same ones are the same data."""
    state = marshal.loads((lab.directory / "fake/state/state").read_bytes())
    return {
        node: volume["drbd"]["generation"]
        for node, found in state["nodes"].items()
        for volume in found["lvs"].values()
        if volume["drbd"] and f"originstname+{instance}" in volume["tags"]
    }


def operations(lab: MaintainedLab, incident: Incident, instance: str) -> list[dict[str, Any]]:
    """The operations of the incident's jobs on one instance, in the order of the jobs."""
    numbers = {job.number for job in lab.jobs_of(incident)}
    rows = sorted((int(number), ops) for number, ops in lab.rows("job", "id", "ops"))
    return [
        one
        for number, ops in rows
        for one in ops
        if number in numbers and one.get("instance_name") == instance
    ]


def ids(found: list[dict[str, Any]]) -> list[str]:
    """The names of operations."""
    return [one["OP_ID"] for one in found]


def ignores_consistency(lab: MaintainedLab) -> list[Any]:
    """All operations of incidents that would start whatever data there are."""
    numbers = {job.number for one in lab.incidents.values() for job in lab.jobs_of(one)}
    rows = lab.rows("job", "id", "ops")
    ran = [one for number, ops in rows if number in numbers for one in ops]
    return [one for one in ran if one.get("ignore_consistency")]


def all_well(lab: MaintainedLab, runs: Runs) -> dict[str, str]:
    """The instances that do not run just where Ganeti has them, each with its status.

    Ganeti's own status is not enough: it queries only nodes that are primaries of instances, so
    one that runs on a node that is not looks as if it were down.
    """
    rows = lab.rows("instance", "name", "status", "pnode")
    return {
        name: f"{word}, on {runs.now(name)}, should be on {primary}"
        for name, word, primary in rows
        if word != "running" or runs.now(name) != [primary]
    }
