"""Says what happens in a demo, in lines for people."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ganeti_steward.allocators.jobs.operations import nodes_after
from ganeti_steward.allocators.moves.leave_node import Leaving, explain_leaving
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.job_state import SUCCESS
from ganeti_steward.core.model.opcodes import MOVES, Job
from ganeti_steward.plugins.maintenance.edges.audit import read_audit
from ganeti_steward.plugins.maintenance.edges.history import CHANGE, HELD, TASK, AuditEntry
from ganeti_steward.plugins.maintenance.engine.transitions import FORGOTTEN
from ganeti_steward.plugins.maintenance.queue.short_jobs import QUERY_DATA
from ganeti_steward.plugins.model.incident import STATES
from ganeti_steward.plugins.model.task import MOVE
from ganeti_steward.plugins.simulation.demo.luxid import DemoLuxid, SubmittedJob

#: Characters before the text of each line.
_INDENT: Final = " " * 18
#: What holds a task back while its own jobs run: they are printed as jobs.
_RUNNING: Final = "running"


class Narrator:
    """Follows the audit log of the daemon and the jobs of luxid."""

    def __init__(
        self, luxid: DemoLuxid, audit: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``audit``: the file; ``clock``: seconds."""
        self._luxid, self._audit, self._clock = luxid, audit, clock
        self._begun = clock()
        self.entries: list[AuditEntry] = []
        """what the daemon has recorded, the oldest first"""
        self._jobs = 0
        self._running: list[int] = []

    def say(self, who: str, text: str) -> None:
        """Print one line; ``who`` acts."""
        passed = f"{self._clock() - self._begun:5.1f} s"
        width = max(shutil.get_terminal_size((100, 24)).columns, 2 * len(_INDENT))
        lines = textwrap.fill(text, width - len(_INDENT), break_on_hyphens=False)
        sys.stdout.write(f"{passed}  {who:<8} {textwrap.indent(lines, _INDENT).lstrip()}\n")
        sys.stdout.flush()

    def follow(self) -> None:
        """Print what is new."""
        for entry in self._news():
            self.entries.append(entry)
            if entry.event != _RUNNING:
                self.say("daemon", _sentence(entry))
        jobs = self._luxid.submitted()
        for one in jobs[self._jobs :]:
            if one.job[0]["OP_ID"] == QUERY_DATA:
                continue
            self._running.append(one.number)
            self.say("luxid", f"job {one.number}: {self._described(one)}")
        self._jobs = len(jobs)
        for number in tuple(self._running):
            state = self._luxid.state(number)
            if state.ended:
                self._running.remove(number)
                if state.status != SUCCESS:
                    self.say("luxid", f"job {number} ended with {state.status}: {state.error}")

    def _news(self) -> list[AuditEntry]:
        try:
            return read_audit(self._audit)[len(self.entries) :]
        except StewardError:
            # It is not there yet, or being written.
            return []

    def _described(self, one: SubmittedJob) -> str:
        found = _moved(one.job, one.cluster)
        if not found:
            return ", ".join(_operations(one))
        name, before, after = found
        how = ", ".join(op["OP_ID"].removeprefix("OP_INSTANCE_").lower() for op in one.job)
        text = f"{name} from {'/'.join(before)} to {'/'.join(after)} ({how.replace('_', ' ')})"
        left = next((node.name for node in one.cluster.nodes if node.drained), "")
        avoided = {node: why for node, why in self._ill().items() if node != left}
        why = _reason(one.cluster, left, name, after, avoided) if left in before else ""
        return f"{text}: {why}" if why else text

    def _ill(self) -> dict[str, str]:
        """Node -> why nothing is moved to it: those with an incident that is not over."""
        found: dict[str, str] = {}
        for entry in self.entries:
            if entry.kind == CHANGE and entry.after == FORGOTTEN:
                found.pop(entry.node_name, None)
            elif entry.kind == CHANGE:
                found[entry.node_name] = f"its incident is {entry.after}"
        return found


def _operations(one: SubmittedJob) -> Iterator[str]:
    for operation in one.job:
        what = operation.get("node_name") or operation.get("name") or ""
        yield f"{operation['OP_ID'].removeprefix('OP_').lower().replace('_', ' ')} {what}".rstrip()


def _moved(job: Job, cluster: Cluster) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """Instance, nodes before and nodes after a job; None for a job that moves nothing."""
    operations = [one for one in job if one["OP_ID"] in MOVES]
    if not operations:
        return None
    name = operations[0]["instance_name"]
    before = after = tuple(cluster.instance(name).nodes)
    for operation in operations:
        after = tuple(nodes_after(after, dict(operation)))
    return name, before, after


def _reason(
    cluster: Cluster, node: str, instance: str, after: tuple[str, ...], avoided: Mapping[str, str]
) -> str:
    """One sentence; empty where the allocator's plan has other nodes for the instance.

    ``node``: the one that all instances leave; ``cluster``: at the time of the decision;
    ``avoided``: see `World.avoided_nodes`.
    """
    leaving = [one.name for one in cluster.instances if node in one.nodes]
    plan = Leaving(node, leaving, avoided, frozenset(), len(leaving))
    found = {one.instance: one for one in explain_leaving(plan, cluster, Context())}
    places = {place.nodes: place.score for one in found[instance].groups for place in one.places}
    if after not in places:
        return ""
    score = places.pop(after)
    other = min(places, key=lambda nodes: places[nodes], default=None)
    rest = f"{places[other]:.3f} on {'/'.join(other)}" if other else "no other place fits"
    return f"the cluster score is {score:.3f} there, {rest}{_not_used(avoided)}"


def _not_used(avoided: Mapping[str, str]) -> str:
    return "".join(f"; {node} is not used: {why}" for node, why in sorted(avoided.items()))


def _sentence(entry: AuditEntry) -> str:
    """One entry of the audit log."""
    name = entry.node_name or entry.incident
    if entry.kind == CHANGE:
        return f"{name}: {entry.before} -> {entry.after}: {entry.reason}"
    if entry.kind == TASK:
        return f"{name}: {entry.event}: {entry.reason}"
    return f"{name}: not now ({entry.event}): {entry.reason}"


def is_held(entry: AuditEntry, node: str) -> bool:
    """Whether something was not done for a node."""
    return entry.kind == HELD and entry.node_name == node


def is_moving(entry: AuditEntry, node: str) -> bool:
    """Whether the first instances leave a node."""
    return entry.kind == TASK and entry.event == MOVE and entry.node_name == node


def is_over(entry: AuditEntry, node: str) -> bool:
    """Whether nothing more is done for a node."""
    return entry.kind == CHANGE and entry.node_name == node and has_result(entry)


def has_result(entry: AuditEntry) -> bool:
    """Whether a change ends in a state with a result."""
    return entry.after in STATES and bool(STATES[entry.after].result)
