"""A plain greedy search under the rules for balancing: the judge of what a plan must reach.

The best legal single move after which nothing is newly stuck, again and again; each instance once,
as in a plan.  It is slow and has no model of its own: rules, score and capacity test are those of
states.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ganeti_steward.allocators.balancing.planning.group import movable
from ganeti_steward.allocators.rules.candidates import Terms, terms_of
from ganeti_steward.allocators.rules.move_kinds import DRBD_MOVES, FAILOVER, MOVE, MoveKind
from ganeti_steward.allocators.rules.move_rules import MoveRules
from ganeti_steward.allocators.score.global_n1 import CapacityTest
from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.allocators.state.arrays import Mask
from ganeti_steward.allocators.state.load import load
from ganeti_steward.allocators.state.state import Resident, State
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.requests import Balance
from ganeti_steward.core.model.site_rules import NoSiteRules

#: Gains below this are none.
LEAST = 1e-9


class _Move(NamedTuple):
    score: float
    at: int
    """index of the instance"""
    place: tuple[int, int]
    after: State


def greedy_score(cluster: Cluster, group: int = 0, *, once: bool = True) -> float:
    """The final score of a group; ``once``: each instance moves at most once."""
    state = load(cluster, None, 4096)
    members = state.frame.group == group
    residents = dict(enumerate(movable(state, members, Balance())))
    terms = {
        at: terms_of(state.frame, one.demand.instance, NoSiteRules(), forced=False)
        for at, one in residents.items()
    }
    score = Scorer(state, members).score
    while True:
        test = CapacityTest(state, members)
        found = sorted(
            (
                move
                for at, one in residents.items()
                for move in _moves(state, at, one, terms[at], members)
                if move.score < score - LEAST
            ),
            key=lambda move: move.score,
        )
        best = next((one for one in found if _passes(test, residents[one.at], one)), None)
        if best is None:
            return score
        score, state = best.score, best.after
        if once:
            del residents[best.at]
        else:
            primary, secondary = best.place
            residents[best.at] = Resident(residents[best.at].demand, primary, secondary)


def _moves(
    state: State, at: int, resident: Resident, terms: Terms, members: Mask
) -> Iterator[_Move]:
    left = state.removed(resident)
    rules = MoveRules(left, resident, terms, members & state.frame.usable)
    kinds = DRBD_MOVES if resident.demand.drbd else (MOVE,)
    for kind in kinds:
        for place in _places(rules, kind, resident):
            after = left.placed(resident.demand, *place)
            yield _Move(Scorer(after, members).score, at, place, after)


def _places(rules: MoveRules, kind: MoveKind, resident: Resident) -> Iterator[tuple[int, int]]:
    verdicts = rules.check(kind)
    if verdicts.blocked:
        return
    p, s = resident.primary, resident.secondary
    if kind is FAILOVER:
        targets = [s]
    else:
        role = verdicts.roles[1 if kind.secondary_is_new else 0]
        targets = np.flatnonzero(role.fits).tolist()
    for target in targets:
        place = (target, -1) if kind is MOVE else kind.place(p, s, target)
        if all(role.fits[node] for role, node in zip(verdicts.roles, place, strict=False)):
            yield place


def _passes(test: CapacityTest, before: Resident, move: _Move) -> bool:
    """Whether nothing is newly stuck; what leaves an unusable node, or was stuck, may be."""
    name, usable = before.demand.instance.name, move.after.frame.usable
    nodes = {one for one in (*before.nodes, *move.place) if one >= 0}
    lost = not all(usable[one] for one in before.nodes if one >= 0)
    exempt = [name] if lost or test.is_stuck(name, before.primary) else []
    return not test.newly_stuck(move.after, tuple(sorted(nodes)), frozenset(exempt))
