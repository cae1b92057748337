"""The search for the best move of one instance, among the nodes it may go to."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators.placement.placing import GroupTrial
from ganeti_steward.allocators.rules.move_rules import MoveRules, MoveVerdicts
from ganeti_steward.allocators.score.global_n1 import CapacityTest, PlaceFilter
from ganeti_steward.allocators.score.plan_score import (
    PlanPairPlaces,
    PlanScore,
    PlanSinglePlaces,
)
from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.core.model.cluster import ALLOC_POLICIES
from ganeti_steward.core.model.site_rules import PRIMARY, SECONDARY
from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ganeti_steward.allocators.rules.candidates import Terms
    from ganeti_steward.allocators.rules.checks import Check
    from ganeti_steward.allocators.rules.move_kinds import MoveKind
    from ganeti_steward.allocators.score.ranked_places import RankedPlace
    from ganeti_steward.allocators.state.arrays import Mask, NodePair
    from ganeti_steward.allocators.state.state import Resident, State


#: Effort of a capacity test; trying one kind of move counts 1.
_TEST: Final = 20

#: Ways of moving, in the order in which they are tried.
Stages = tuple[tuple["MoveKind", ...], ...]


class MoveTask(NamedTuple):
    """One instance to be moved, and how that may be done."""

    resident: Resident
    """the instance where it is now"""
    terms: Terms
    stages: Stages
    """kinds of move in stages, those that copy less first; the next stage if no kind is legal"""
    groups: tuple[int, ...]
    """the node groups to look at"""
    targets: Mask
    """the nodes it may go to"""
    fault: str = ""
    """why it can never be moved as requested; empty when it can"""
    closed: Mapping[int, str] = MappingProxyType({})
    """node groups it may not go to, and why"""
    extra_checks: tuple[Check, ...] = ()
    """more rules for a new primary"""
    test: CapacityTest | None = None

    @property
    def name(self) -> str:
        """The instance's name."""
        return self.resident.demand.instance.name


class MoveChoice(NamedTuple):
    """A legal move of an instance."""

    copies: int
    """how often its disks are copied"""
    policy: int
    """rank of the group's alloc_policy"""
    score: float
    """by how much the group's score, with the site's costs, grows"""
    steps: int
    """number of steps"""
    kind: MoveKind
    group: int
    """index of the node group"""
    primary: int
    secondary: int
    """indices of the final nodes; -1 without a secondary"""

    @property
    def order(self) -> tuple[int, float, int, str, int, int, int]:
        """What choices of one stage are compared by; smaller is better."""
        place = self.group, self.primary, self.secondary
        return self.policy, self.score, self.steps, self.kind.steps, *place

    @property
    def nodes(self) -> NodePair:
        """The final nodes."""
        return self.primary, self.secondary

    def cost(self, task: MoveTask) -> float:
        """The site rules' costs of the final nodes."""
        costs = task.terms.costs
        second = float(costs[SECONDARY][self.secondary]) if self.secondary >= 0 else 0.0
        return float(costs[PRIMARY][self.primary]) + second


class MoveTrial(NamedTuple):
    """One kind of move into one group, tried on one state."""

    kind: MoveKind
    group: int
    verdicts: MoveVerdicts
    policy: int
    places: PlanSinglePlaces | PlanPairPlaces | None = None
    """None where the kind of move is blocked or no node fits"""
    before: float = 0.0
    """the group's score without the instance, where there are places"""

    def found(self, place: RankedPlace) -> MoveChoice:
        """The move to one of the places."""
        return MoveChoice(
            copies=self.kind.copies,
            policy=self.policy,
            score=place.score - self.before,
            steps=len(self.kind.steps),
            kind=self.kind,
            group=self.group,
            primary=place.primary,
            secondary=place.secondary,
        )


class BestMoveSearch:
    """Tries the kinds of move of instances on the states of one plan, and counts the effort."""

    def __init__(self, plan_score: PlanScore, *, whole: bool = False) -> None:
        """``whole``: places are compared by the score of the whole cluster, not of groups."""
        self.plan_score = plan_score
        self._whole = whole
        self.work = 0.0
        """effort so far: kinds of move tried, capacity tests by their weight"""

    def best(self, left: State, task: MoveTask, stages: Stages | None = None) -> MoveChoice | None:
        """The best move on a state without the instance; None when there is none.

        ``stages``: only these kinds of move instead of the task's.
        """
        rules = self._rules(left, task)
        for stage in task.stages if stages is None else stages:
            found = [
                one
                for trial in self._trials(rules, task, stage)
                for one in self._passing(rules, task, trial, 1)
            ]
            if found:
                # Within a stage the score decides, not the amount copied.
                return min(found, key=lambda one: one.order)
        return None

    def alternatives(
        self, left: State, task: MoveTask, limit: int, *, every: bool = False
    ) -> list[MoveChoice]:
        """A few of the best places of the first stage that has any, or of every stage."""
        rules = self._rules(left, task)
        every_found: list[MoveChoice] = []
        for stage in task.stages:
            found = [
                one
                for trial in self._trials(rules, task, stage)
                for one in self._passing(rules, task, trial, limit)
            ]
            every_found += sorted(found, key=lambda one: (one.copies, *one.order))[:limit]
            if found and not every:
                break
        return every_found

    def confirms(self, left: State, task: MoveTask, wanted: MoveChoice) -> bool:
        """Whether a move found on another state is legal on this one, too."""
        rules = self._rules(left, task)
        for trial in self._trials(rules, task, (wanted.kind,)):
            if trial.group == wanted.group and trial.places is not None:
                score = trial.places.score_of(wanted.primary, wanted.secondary)
                return bool(np.isfinite(score))
        return False

    def trials(self, left: State, task: MoveTask) -> list[MoveTrial]:
        """All that was looked at, for people."""
        kinds = tuple(kind for stage in task.stages for kind in stage)
        return list(self._trials(self._rules(left, task), task, kinds))

    def _rules(self, left: State, task: MoveTask) -> MoveRules:
        return MoveRules(left, task.resident, task.terms, task.targets, task.extra_checks)

    def _trials(
        self, rules: MoveRules, task: MoveTask, kinds: tuple[MoveKind, ...]
    ) -> Iterator[MoveTrial]:
        frame = rules.left.frame
        groups = frame.cluster.groups
        for group in task.groups:
            members = frame.group == group
            policy = ALLOC_POLICIES.index(groups[group].alloc_policy) if len(groups) > 1 else 0
            scope = np.ones_like(members) if self._whole else members
            scorer: Scorer | None = None
            for kind in kinds:
                self.work += 1
                verdicts = rules.check(kind)
                trial = MoveTrial(kind, group, verdicts, policy)
                fitting = ((role.fits & members).any() for role in verdicts.roles)
                if not verdicts.blocked and all(fitting):
                    # Without a legal place no score is needed.
                    scorer = scorer or Scorer(rules.left, scope)
                    places = self._places(rules, task, verdicts, scorer, members)
                    trial = trial._replace(places=places, before=scorer.score)
                yield trial

    def _places(
        self,
        rules: MoveRules,
        task: MoveTask,
        verdicts: MoveVerdicts,
        scorer: Scorer,
        members: Mask,
    ) -> PlanSinglePlaces | PlanPairPlaces:
        demand, terms = task.resident.demand, task.terms
        if len(verdicts.roles) == 1:
            (role,) = verdicts.roles
            return PlanSinglePlaces(self.plan_score, scorer, demand, role, members, terms)
        first, second = verdicts.roles
        return PlanPairPlaces(self.plan_score, scorer, demand, (first, second), members, terms)

    def _passing(
        self, rules: MoveRules, task: MoveTask, trial: MoveTrial, limit: int
    ) -> list[MoveChoice]:
        """The best places of one trial that pass the capacity test, if there is one."""
        if trial.places is None:
            return []
        found: list[MoveChoice] = []
        passing = None
        if task.test is not None:
            passing = PlaceFilter(task.test, rules.left, task.resident.demand)
        for place in trial.places.best_first():
            self.work += _TEST if passing else 0
            if passing is None or passing.passes(place) is not None:
                found.append(trial.found(place))
                if len(found) == limit:
                    break
        return found


def resident_of(state: State, task: MoveTask, found: MoveChoice | None) -> Resident:
    """The instance as a state holds it, before or after it was moved."""
    home = task.resident
    if found is not None:
        home = home._replace(primary=found.primary, secondary=found.secondary)
    return state.find(home.demand, home.primary) or home


class TriedMoves(NamedTuple):
    """All moves tried for one instance of a plan, for refusals and explanations."""

    task: MoveTask
    left: State
    """the state without the instance when its turn came"""
    trials: list[MoveTrial]
    found: MoveChoice | None


def try_moves(
    state: State, task: MoveTask, found: MoveChoice | None, search: BestMoveSearch
) -> TriedMoves:
    """Try all kinds of move of one instance again; the instance is still on its old nodes."""
    left = state.removed(resident_of(state, task, None))
    return TriedMoves(task, left, search.trials(left, task), found)


def group_trial(tried: TriedMoves, trial: MoveTrial) -> GroupTrial:
    """One kind of move into one group, in the form explanations use."""
    members = tried.task.targets & (tried.left.frame.group == trial.group)
    shown = GroupTrial(trial.group, trial.verdicts.blocked, members, trial.verdicts.shown)
    first = next(trial.places.best_first(), None) if trial.places is not None else None
    if tried.task.test is None or first is None:
        return shown
    passing = PlaceFilter(tried.task.test, tried.left, tried.task.resident.demand)
    passing.passes(first)
    return shown._replace(failed=passing.refused, passing=passing)
