"""Looking for the best way to move one instance, among the nodes it may go to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.rules.move_kinds import REPLACE
from ganeti_steward.allocators.rules.move_rules import Departure
from ganeti_steward.allocators.score.final_score import SettledPairs, SettledSingles
from ganeti_steward.allocators.score.global_n1 import PlaceFilter
from ganeti_steward.core.model.cluster import ALLOC_POLICIES
from ganeti_steward.core.model.site_rules import PRIMARY, SECONDARY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ganeti_steward.allocators.rules.checks import Check
    from ganeti_steward.allocators.rules.move_kinds import Mover
    from ganeti_steward.allocators.rules.move_rules import Judgement
    from ganeti_steward.allocators.score.final_score import Settled
    from ganeti_steward.allocators.score.global_n1 import CapacityTest
    from ganeti_steward.allocators.score.ranked_places import Place
    from ganeti_steward.allocators.score.score import Scorer
    from ganeti_steward.allocators.state.state import Mask, Resident, State

#: What a capacity test costs, in ways looked at.
_TEST: Final = 20

#: Ways of moving, in the order in which they are tried.
Tiers = tuple[tuple[str, ...], ...]


class Task(NamedTuple):
    """One instance to be moved, and how that may be done."""

    mover: Mover
    tiers: Tiers
    """ways of moving, those that copy less first; the next only where none of these goes"""
    groups: tuple[int, ...]
    """the node groups to look at"""
    targets: Mask
    """the nodes it may go to"""
    fault: str = ""
    """why it can never be moved as asked; empty when it can"""
    closed: Mapping[int, str] = {}
    """node groups it may not go to, and why"""
    also: tuple[Check, ...] = ()
    """more that is asked of a new primary"""
    test: CapacityTest | None = None

    @property
    def name(self) -> str:
        """The instance's name."""
        return self.mover.guest.instance.name


class Found(NamedTuple):
    """A legal way of moving an instance; smaller is better, by the first four."""

    copies: int
    """how often its disks are copied"""
    policy: int
    """rank of the group's alloc_policy"""
    score: float
    """what the group's score, with the site's costs, becomes larger"""
    steps: int
    way: str
    group: int
    primary: int
    secondary: int

    @property
    def nodes(self) -> tuple[int, int]:
        """The final nodes."""
        return self.primary, self.secondary

    def cost(self, task: Task) -> float:
        """What the site's plugins say of the final nodes."""
        costs = task.mover.terms.costs
        second = float(costs[SECONDARY][self.secondary]) if self.secondary >= 0 else 0.0
        return float(costs[PRIMARY][self.primary]) + second


class Trial(NamedTuple):
    """One way into one group, looked at on one state."""

    way: str
    group: int
    judgement: Judgement
    policy: int
    places: SettledSingles | SettledPairs | None = None
    """None where the way is closed or no node fits"""
    before: float = 0.0
    """the group's score without the instance, where there are places"""

    def found(self, place: Place) -> Found:
        """One of the places as a way of moving."""
        return Found(
            copies=self.way.count(REPLACE),
            policy=self.policy,
            score=place.score - self.before,
            steps=len(self.way),
            way=self.way,
            group=self.group,
            primary=place.primary,
            secondary=place.secondary,
        )


class Seeker:
    """Tries the ways of instances on the states of one plan."""

    def __init__(self, settled: Settled, *, whole: bool = False) -> None:
        """``whole``: places are compared by the score of the whole cluster, not of groups."""
        self.settled = settled
        self._whole = whole
        self.work = 0.0
        """what has been done so far, in ways looked at"""

    def best(self, left: State, task: Task, tiers: Tiers | None = None) -> Found | None:
        """The best way on a state without the instance; None when there is none.

        ``tiers``: only these ways instead of the task's.
        """
        departure = self._departure(left, task)
        for tier in task.tiers if tiers is None else tiers:
            found = [
                one
                for trial in self._trials(departure, task, tier)
                for one in self._passing(departure, task, trial, 1)
            ]
            if found:
                # Within a tier the score decides, not the copies.
                return min(found, key=lambda one: one[1:])
        return None

    def alternatives(self, left: State, task: Task, limit: int) -> list[Found]:
        """A few of the best places of the first tier that has any."""
        departure = self._departure(left, task)
        for tier in task.tiers:
            found = [
                one
                for trial in self._trials(departure, task, tier)
                for one in self._passing(departure, task, trial, limit)
            ]
            if found:
                return sorted(found)[:limit]
        return []

    def confirms(self, left: State, task: Task, wanted: Found) -> bool:
        """Whether a way found on another state is legal on this one, too."""
        departure = self._departure(left, task)
        for trial in self._trials(departure, task, (wanted.way,)):
            if trial.group == wanted.group and trial.places is not None:
                score = trial.places.score_of(wanted.primary, wanted.secondary)
                return bool(np.isfinite(score))
        return False

    def trials(self, left: State, task: Task) -> list[Trial]:
        """All that was looked at, for people."""
        ways = tuple(way for tier in task.tiers for way in tier)
        return list(self._trials(self._departure(left, task), task, ways))

    def _departure(self, left: State, task: Task) -> Departure:
        return Departure(left, task.mover, task.targets, task.also)

    def _trials(self, departure: Departure, task: Task, ways: tuple[str, ...]) -> Iterator[Trial]:
        frame = departure.left.frame
        groups = frame.cluster.groups
        for group in task.groups:
            members = frame.group == group
            policy = ALLOC_POLICIES.index(groups[group].alloc_policy) if len(groups) > 1 else 0
            scope = np.ones_like(members) if self._whole else members
            scorer: Scorer | None = None
            for way in ways:
                self.work += 1
                judgement = departure.judge(way)
                trial = Trial(way, group, judgement, policy)
                fitting = ((judged.fits & members).any() for judged in judgement.judged)
                if not judgement.gate and all(fitting):
                    # What nobody needs a score for is not scored.
                    scorer = scorer or self.settled.scorer(departure.left, scope)
                    places = self._places(departure, task, judgement, scorer, members)
                    trial = trial._replace(places=places, before=scorer.score)
                yield trial

    def _places(
        self, departure: Departure, task: Task, judgement: Judgement, scorer: Scorer, members: Mask
    ) -> SettledSingles | SettledPairs:
        guest, terms = task.mover.guest, task.mover.terms
        if len(judgement.judged) == 1:
            (judged,) = judgement.judged
            return SettledSingles(self.settled, scorer, guest, judged, members, terms)
        first, second = judgement.judged
        return SettledPairs(
            self.settled, scorer, departure.left, guest, (first, second), members, terms
        )

    def _passing(self, departure: Departure, task: Task, trial: Trial, limit: int) -> list[Found]:
        """The best places of one trial that pass the capacity test, if there is one."""
        if trial.places is None:
            return []
        found: list[Found] = []
        passing = None
        if task.test is not None:
            passing = PlaceFilter(task.test, departure.left, task.mover.guest)
        for place in trial.places.best_first():
            self.work += _TEST if passing else 0
            if passing is None or passing.passes(place) is not None:
                found.append(trial.found(place))
                if len(found) == limit:
                    break
        return found


def resident_of(state: State, task: Task, found: Found | None) -> Resident:
    """The instance as a state knows it, before or after it was moved."""
    mover = task.mover
    primary = mover.primary if found is None else found.primary
    for resident in state.residents.get(primary, ()):
        if resident.guest is mover.guest:
            return resident
    # Announced instances live nowhere yet.
    if found is None:
        return mover.resident
    return mover.resident._replace(primary=found.primary, secondary=found.secondary)
