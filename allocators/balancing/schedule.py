"""From the places a search has found to jobs that can be run one after the other.

Each instance goes from where it is to its final place in one job, in the order in which the
search came upon it; one that does not fit yet waits for others to make room.  Every step is
judged by the very rules that new placements are judged by.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ganeti_steward.allocators.rules import move_kinds as moves
from ganeti_steward.allocators.rules.move_kinds import Mover
from ganeti_steward.allocators.rules.move_rules import MoveRules
from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.allocators.state.state import Resident

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ganeti_steward.allocators.rules.candidates import Terms
    from ganeti_steward.allocators.state.state import Mask, State
    from ganeti_steward.core.model.opcodes import Job

#: A place: primary and secondary by cluster index, -1 without a secondary.
NodePair = tuple[int, int]


class Target(NamedTuple):
    """An instance and where it is to live."""

    resident: Resident
    terms: Terms
    place: NodePair


class Planned(NamedTuple):
    """One job, and what it leads to."""

    resident: Resident
    """before"""
    place: NodePair
    job: Job
    copies: int
    score: float
    """the group's when the job is done"""


class Schedule(NamedTuple):
    """Jobs in order, and the state they lead to."""

    jobs: tuple[Planned, ...]
    after: State


class _Step(NamedTuple):
    kind: str
    place: NodePair


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
    """The job to a place and the state after it; None when the rules forbid every sequence."""
    for path in _paths(target):
        after, resident = state, target.resident
        job: Job = []
        for step in path:
            mover = Mover(resident.demand, resident.primary, resident.secondary, target.terms)
            moved = _moved(after, mover, step, members)
            if moved is None:
                break
            after, resident = moved, Resident(resident.demand, *step.place)
            names = [state.frame.cluster.nodes[node].name for node in step.place if node >= 0]
            job += moves.job(mover, step.kind, names[0], names[-1] if len(names) > 1 else "")
        else:
            copies = sum(step.kind.count(moves.REPLACE) for step in path)
            score = Scorer(after, members).score
            return Planned(target.resident, target.place, job, copies, score), after
    return None


def _paths(target: Target) -> Iterator[tuple[_Step, ...]]:
    """Ways to a place, those with fewer steps first; with two new nodes it takes two."""
    p, s = target.resident.primary, target.resident.secondary
    a, b = target.place
    if s < 0:
        yield (_Step(moves.MOVE, target.place),)
    elif {a, b} & {p, s}:
        yield (_step((p, s), (a, b)),)
    else:
        for between in ((a, p), (p, b), (s, b), (a, s), (s, a), (b, p)):
            yield _step((p, s), between), _step(between, (a, b))


def _step(now: NodePair, then: NodePair) -> _Step:
    """The kind of move from one place to another that shares a node with it."""
    p, s = now
    if then == (s, p):
        return _Step(moves.FAIL_OVER, then)
    if then[0] == p:
        return _Step(moves.REPLACE, then)
    if then[1] == p:
        return _Step(moves.REPLACE_FAIL_OVER, then)
    kind = moves.FAIL_OVER_REPLACE if then[0] == s else moves.FAIL_OVER_REPLACE_BACK
    return _Step(kind, then)


def _moved(state: State, mover: Mover, step: _Step, members: Mask) -> State | None:
    """The state after one step, None when a rule forbids it."""
    left = state.removed(_found(state, mover))
    rules = MoveRules(left, mover, members & state.frame.usable)
    verdicts = rules.check(step.kind)
    if verdicts.blocked:
        return None
    if not all(role.fits[node] for role, node in zip(verdicts.roles, step.place, strict=False)):
        return None
    return left.placed(mover.demand, *step.place)


def _found(state: State, mover: Mover) -> Resident:
    """The resident as this state holds it."""
    for resident in state.residents[mover.primary]:
        if resident.demand is mover.demand:
            return resident
    raise LookupError(mover.demand.instance.name)
