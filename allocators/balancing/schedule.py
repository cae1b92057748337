"""From the places a search has found to jobs that can be run one after the other.

Each instance goes from where it is to its final place in one job, in the order in which the
search came upon it; one that does not fit yet waits for others to make room.  Every step is
checked by the same rules as new placements.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ganeti_steward.allocators.rules.move_kinds import job, kind_between
from ganeti_steward.allocators.rules.move_rules import MoveRules
from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.core.model.opcodes import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ganeti_steward.allocators.rules.candidates import Terms
    from ganeti_steward.allocators.rules.move_kinds import MoveKind
    from ganeti_steward.allocators.state.arrays import Mask, NodePair
    from ganeti_steward.allocators.state.state import Resident, State
    from ganeti_steward.core.model.opcodes import Job


class Target(NamedTuple):
    """An instance and its new place."""

    resident: Resident
    terms: Terms
    place: NodePair


class Planned(NamedTuple):
    """One job, and the place and the score after it."""

    resident: Resident
    """before the job"""
    place: NodePair
    """after the job"""
    job: Job
    copies: int
    """how often the disks are copied"""
    score: float
    """the group's score after the job"""


class Schedule(NamedTuple):
    """Jobs in order, and the state they lead to."""

    jobs: tuple[Planned, ...]
    after: State


class GroupPlan(NamedTuple):
    """What balancing does for one group."""

    group: int
    """index of the node group"""
    members: Mask
    """nodes: whether the node is in the group"""
    before: State
    after: State
    jobs: tuple[Planned, ...]
    score_before: float
    """the group's score now"""
    bound: float
    """no placement of its instances has a lower score"""

    @property
    def score_after(self) -> float:
        """The group's score when all jobs are done."""
        return self.jobs[-1].score if self.jobs else self.score_before


def schedule(state: State, targets: Sequence[Target], members: Mask) -> Schedule:
    """Jobs for as many of the targets as can be reached, each legal after those before.

    ``members``: the nodes of the group.
    """
    done: list[Planned] = []
    waiting = list(targets)
    while waiting:
        left = []
        for target in waiting:
            reached = _reached(state, target, members)
            if reached is None:
                left.append(target)
            else:
                planned, state = reached
                done.append(planned)
        if len(left) == len(waiting):
            break
        waiting = left
    return Schedule(tuple(done), state)


def _reached(state: State, target: Target, members: Mask) -> tuple[Planned, State] | None:
    """The job to a place and the state after it; None when the rules forbid every path."""
    instance = target.resident.demand.instance
    for path in _paths(target.resident.nodes, target.place):
        after: State | None = state
        resident, operations, copies = target.resident, list[Operation](), 0
        for place in path:
            kind = kind_between(resident.nodes, place)
            assert after is not None
            assert kind is not None
            after = _moved(after, resident, target.terms, kind, place, members)
            if after is None:
                break
            primary, *secondary = state.frame.node_names(place)
            operations += job(instance, kind, primary, "".join(secondary))
            resident, copies = (
                resident._replace(primary=place[0], secondary=place[1]),
                (copies + kind.copies),
            )
        if after is not None:
            score = Scorer(after, members).score
            return Planned(target.resident, target.place, operations, copies, score), after
    return None


def _paths(now: NodePair, then: NodePair) -> Iterator[tuple[NodePair, ...]]:
    """Places to pass, shorter paths first; two new nodes take two moves."""
    (p, s), (a, b) = now, then
    if s < 0 or {a, b} & {p, s}:
        yield (then,)
        return
    for between in ((a, p), (p, b), (s, b), (a, s), (s, a), (b, p)):
        yield between, then


def _moved(
    state: State, resident: Resident, terms: Terms, kind: MoveKind, place: NodePair, members: Mask
) -> State | None:
    """The state after one move, None when a rule forbids it."""
    left = state.removed(state.find(resident.demand, resident.primary) or resident)
    rules = MoveRules(left, resident, terms, members & state.frame.usable)
    verdicts = rules.check(kind)
    if verdicts.blocked:
        return None
    if not all(role.fits[node] for role, node in zip(verdicts.roles, place, strict=False)):
        return None
    return left.placed(resident.demand, *place)
