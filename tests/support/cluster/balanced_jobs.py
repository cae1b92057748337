"""What the jobs of a balancing plan do, one after the other: scores, copies, violations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from replay import IllegalStepError, Replay

from ganeti_steward.allocators.score.global_n1 import CapacityTest
from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.opcodes import REPLACE_DISKS

Job = list[dict[str, Any]]


class Course(NamedTuple):
    """A plan for a cluster of one node group, carried out."""

    scores: list[float]
    """the group's score at the start and after each job"""
    copied: list[float]
    """GiB copied until then"""
    violations: list[str]
    """broken rules, in order; nothing is carried out after an illegal operation"""

    def copied_at(self, score: float, tolerance: float = 1e-6) -> float:
        """GiB copied by the first jobs that reach a score; infinite where none does."""
        reached = (at for at, one in enumerate(self.scores) if one <= score + tolerance)
        return next((self.copied[at] for at in reached), np.inf)


def course(
    cluster: Cluster,
    jobs: Sequence[Job],
    *,
    forced: bool = False,
    one_job: bool = True,
    group: int | None = None,
) -> Course:
    """Carry out the jobs; ``one_job``: an instance in two jobs is a violation.

    ``group``: index of the node group that is judged; None: all nodes.
    """
    run = Replay(cluster, forced=forced)
    everywhere = np.ones(run.state.frame.size, np.bool_)
    if group is not None:
        everywhere = run.state.frame.group == group
    found = Course([Scorer(run.state, everywhere).score], [0.0], [])
    times = Counter(job[0]["instance_name"] for job in jobs)
    if one_job:
        twice = sorted(name for name, number in times.items() if number > 1)
        found.violations.extend(f"{name} is in {times[name]} jobs" for name in twice)
    stuck = CapacityTest(run.state, everywhere).stuck()
    for number, job in enumerate(jobs, 1):
        name = job[0]["instance_name"]
        leaves = {name} if _unusable(cluster, run.nodes_of(name)) else set()
        try:
            run.run_job(job)
        except IllegalStepError as fault:
            found.violations.append(f"job {number} of {name}: {fault}")
            break
        before, stuck = stuck, CapacityTest(run.state, everywhere).stuck()
        known = {one.instance for one in before} | leaves
        worse = sorted(one for one in set(stuck) - set(before) if one.instance not in known)
        if worse:
            found.violations.append(f"job {number} of {name}: newly stuck: {worse}")
        found.scores.append(Scorer(run.state, everywhere).score)
        found.copied.append(found.copied[-1] + _gib(cluster, job))
    if found.scores[-1] > min(found.scores) + 1e-6:
        found.violations.append(f"ends at {found.scores[-1]:.8f}, was at {min(found.scores):.8f}")
    return found


def _unusable(cluster: Cluster, nodes: list[str]) -> bool:
    """Whether one of the nodes is offline or drained: to leave it comes first."""
    return not all(cluster.nodes[cluster.node_index[node]].usable for node in nodes)


def _gib(cluster: Cluster, job: Job) -> float:
    """GiB that the operations copy; there is nothing to copy of an announced instance."""
    instance = cluster.instances[cluster.instance_index[job[0]["instance_name"]]]
    copies = sum(operation["OP_ID"] == REPLACE_DISKS for operation in job)
    return 0.0 if instance.forthcoming else copies * instance.disk_space / 1024
