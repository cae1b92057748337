"""From a placement that a search has found to jobs that can be run one after the other.

Each instance goes from where it is to its final place in one job.  Of the jobs that are legal
now the one that gains most for what it copies is next, so that the first jobs of a plan are worth
most.  Every step is checked by the same rules as new placements, and after each job by the
capacity test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.balancing.planning.progress import Progress
from ganeti_steward.allocators.rules.move_kinds import job, kind_between
from ganeti_steward.allocators.rules.move_rules import MoveRules
from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.core.model.opcodes import Job, Operation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ganeti_steward.allocators.balancing.group_model import Placement
    from ganeti_steward.allocators.balancing.planning.group import GroupSearch
    from ganeti_steward.allocators.state.arrays import Mask, NodePair
    from ganeti_steward.allocators.state.state import Resident, State


Path = tuple["NodePair", ...]


def paths(now: NodePair, then: NodePair) -> list[Path]:
    """Places to pass, the end included; those that copy least come first, then the short ones.

    Only the nodes of both places are used.
    """
    (p, s), (a, b) = now, then
    if s < 0:
        return [(then,)]
    places = dict.fromkeys((one, other) for one in (p, s, a, b) for other in (p, s, a, b))
    between = [place for place in places if place[0] != place[1] and place not in (now, then)]
    found: list[Path] = [(then,), *((place, then) for place in between)]
    costs = {path: cost for path in found if (cost := _cost(now, path)) is not None}
    return sorted(costs, key=lambda path: costs[path])


def _cost(now: NodePair, path: Path) -> tuple[int, int] | None:
    """Copies and steps of a path; None where a move of it does not exist."""
    copies = steps = 0
    for place in path:
        kind = kind_between(now, place)
        # Nothing is copied to where it does not stay.
        if kind is None or not set(place) - set(now) <= set(path[-1]):
            return None
        copies, steps, now = copies + kind.copies, steps + len(kind.steps), place
    return copies, steps


#: GiB added to what a job copies when gains are compared: copying nothing is not for nothing.
_EFFORT: Final = 1.0


class Planned(NamedTuple):
    """One job, and what is then."""

    instance: int
    """index in the group"""
    resident: Resident
    """before the job"""
    place: NodePair
    """after the job"""
    job: Job
    copied: float
    """MiB copied by the job"""
    score: float
    """the group's score after the job"""
    value: float
    """that score with what site rules charge then"""
    after: State


class GroupPlan(NamedTuple):
    """What balancing does for one group."""

    group: int
    """index of the node group"""
    members: Mask
    """nodes: whether the node is in the group"""
    before: State
    jobs: tuple[Planned, ...]
    score_before: float
    """the group's score now"""
    bound: float
    """no placement of its instances has a lower score"""
    unchecked: float | None = None
    """the score that a plan without the capacity test reaches, where that test refused moves"""

    @property
    def after(self) -> State:
        """The state when all jobs are done."""
        return self.jobs[-1].after if self.jobs else self.before

    @property
    def doubtful_targets(self) -> tuple[str, ...]:
        """The nodes with doubtful disk figures that disks are copied to, by index."""
        return self._copied_to(self.jobs, self.before.frame.doubtful)

    @property
    def unknown_targets(self) -> tuple[str, ...]:
        """The nodes of which the room for disks that are copied to them is not known, by index."""
        jobs = [job for job in self.jobs if job.resident.demand.elsewhere]
        return self._copied_to(jobs, self.before.frame.pools_unknown)

    def _copied_to(self, jobs: Iterable[Planned], which: Mask) -> tuple[str, ...]:
        targets = {at for job in jobs if job.copied for at in {*job.place} - {*job.resident.nodes}}
        return self.before.frame.node_names(at for at in sorted(targets) if at >= 0 and which[at])

    @property
    def score_after(self) -> float:
        """The group's score when all jobs are done."""
        return self.jobs[-1].score if self.jobs else self.score_before


class Limits(NamedTuple):
    """What a plan may take."""

    jobs: float = np.inf
    """number of jobs"""
    mib: float = np.inf
    """MiB to be copied"""


class Carried(NamedTuple):
    """The jobs towards a placement."""

    jobs: tuple[Planned, ...]
    left: tuple[int, ...]
    """instances that cannot get to their place; those that a limit leaves out are not listed"""
    stuck: bool
    """whether one of these would have left an instance stuck"""


def carry_out(
    group: GroupSearch, placement: Placement, limits: Limits, first: Sequence[int] = ()
) -> Carried:
    """Jobs for as many instances as can get to their place, each legal after those before.

    ``first``: the instances to begin with, in this order.  The model is left where the jobs lead.
    """
    return _Course(group, placement, limits).run(first)


class _Course:
    def __init__(self, group: GroupSearch, placement: Placement, limits: Limits) -> None:
        self._group, self._model, self._limits = group, group.model, limits
        self._primary, self._secondary = placement
        self._progress, self._jobs = Progress(group), list[Planned]()
        self._copied = 0.0
        self._touched = np.zeros(len(group.nodes), np.int64)
        """nodes: number of the last job that changed the node"""
        self._tried: dict[int, int] = {}
        """instance -> number of jobs when no path was found"""
        self._stuck = set[int]()
        """instances that would have left one stuck"""
        group.model.go(group.home)
        self._pending = dict.fromkeys(np.flatnonzero(group.moved(placement)).tolist())
        self._mib = group.copies(placement) * group.mib

    def run(self, first: Sequence[int]) -> Carried:
        """Do the first, then whatever is best, until nothing more can be done."""
        for one in first:
            if one in self._pending:
                self._job(one)
        while self._pending and len(self._jobs) < self._limits.jobs and self._next():
            pass
        stuck = not self._stuck.isdisjoint(self._pending)
        return Carried(tuple(self._jobs), tuple(self._pending), stuck)

    def _next(self) -> bool:
        """Do the best job there is; False when none can be done."""
        room = self._limits.mib - self._copied
        self._pending = {one: None for one in self._pending if self._mib[one] <= room}
        which = np.array(list(self._pending), np.int64)
        gains = self._group.moves.gains_to(which, self._primary[which], self._secondary[which])
        worth = np.where(gains > 0, gains / (self._mib[which] / 1024 + _EFFORT), gains)
        order = [at for at in np.argsort(-worth, kind="stable").tolist() if gains[at] > -np.inf]
        good = [int(which[at]) for at in order if gains[at] > 0]
        others = [int(which[at]) for at in order if gains[at] <= 0]
        roundabout = [one for one in self._pending if one not in {*good, *others}]
        return any(self._job(one) for one in (*good, *roundabout, *others))

    def _job(self, instance: int) -> bool:
        """Do the job of an instance on the first path that is legal."""
        nodes = {*self._model.place(instance), self._primary[instance], self._secondary[instance]}
        nodes -= {-1}
        if self._tried.get(instance, -1) >= max(self._touched[list(nodes)]):
            return False
        target = int(self._primary[instance]), int(self._secondary[instance])
        for path in paths(self._model.place(instance), target):
            if self._try(instance, path):
                self._touched[list(nodes)] = len(self._jobs)
                return True
        self._tried[instance] = len(self._jobs)
        return False

    def _try(self, instance: int, path: tuple[tuple[int, int], ...]) -> bool:
        """Do a job on one path if it is legal, affordable and leaves nothing newly stuck."""
        group, before = self._group, self._progress.resident(instance)
        after: State | None = self._progress.state
        resident, operations, copies = before, list[Operation](), 0
        for place in path:
            there = group.on_cluster(*place)
            kind = kind_between(resident.nodes, there)
            assert after is not None
            assert kind is not None
            copies += kind.copies
            if self._copied + copies * group.mib[instance] > self._limits.mib:
                return False
            after = self._moved(after, resident, instance, there)
            if after is None:
                return False
            primary, *secondary = group.state.frame.node_names(there)
            operations += job(resident.demand.instance, kind, primary, "".join(secondary))
            resident = resident._replace(primary=there[0], secondary=there[1])
        assert after is not None
        if self._progress.stuck_by(instance, after, resident.nodes):
            self._stuck.add(instance)
            return False
        self._progress.take(instance, after, resident.nodes)
        score = Scorer(after, group.members).score
        mib = copies * float(group.mib[instance])
        self._model.move(instance, *path[-1])
        value = score + group.moves.preferences.site_total()
        self._jobs.append(
            Planned(instance, before, resident.nodes, operations, mib, score, value, after)
        )
        self._copied += mib
        del self._pending[instance]
        return True

    def _moved(
        self, state: State, resident: Resident, instance: int, place: NodePair
    ) -> State | None:
        """The state after one move, None when a rule forbids it."""
        group = self._group
        kind = kind_between(resident.nodes, place)
        assert kind is not None
        left = state.removed(state.find(resident.demand, resident.primary) or resident)
        targets = group.members & state.frame.usable & ~state.frame.suspect
        rules = MoveRules(left, resident, group.terms[instance], targets)
        verdicts = rules.check(kind)
        if verdicts.blocked:
            return None
        if not all(role.fits[node] for role, node in zip(verdicts.roles, place, strict=False)):
            return None
        return left.placed(resident.demand, *place)
