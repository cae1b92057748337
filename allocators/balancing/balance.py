"""Request type ``balance``: moves that make each node group more even (allocation 12, hbal).

Each group is balanced by itself, the one with the highest score first while moves are limited.
`local_search` finds better places on a `GroupModel`; `schedule` turns them into jobs each of
which obeys the rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators.balancing.group_model import GroupModel
from ganeti_steward.allocators.balancing.local_search import LocalSearch
from ganeti_steward.allocators.balancing.preferences import SitePreferences
from ganeti_steward.allocators.balancing.schedule import GroupPlan, Planned, Target, schedule
from ganeti_steward.allocators.balancing.single_moves import SingleMoves
from ganeti_steward.allocators.rules.candidates import terms_of
from ganeti_steward.allocators.score.score import RESERVED_TOTAL_WEIGHT, Scorer
from ganeti_steward.allocators.state.load import load
from ganeti_steward.core.model.answer import Answer
from ganeti_steward.core.model.cluster import NOT_MIRRORED
from ganeti_steward.core.model.opcodes import moves_result
from ganeti_steward.core.model.site_rules import PRIMARY, SECONDARY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ganeti_steward.allocators.rules.candidates import Terms
    from ganeti_steward.allocators.state.arrays import Ints, Mask
    from ganeti_steward.allocators.state.state import Resident, State
    from ganeti_steward.core.model.answer import Outcome
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.explanation import Explained
    from ganeti_steward.core.model.requests import Balance

#: How often the search is repeated for moves that could not be reached.
_ROUNDS: Final = 3


def balance(request: Balance, cluster: Cluster, context: Context) -> Outcome:
    """Answer with the moves in the order in which they must be done."""
    state = load(cluster, None, context.options.kvm_memory)
    chosen = [
        at
        for at, group in enumerate(cluster.groups)
        if request.groups is None or group.uuid in request.groups
    ]
    scores = {at: Scorer(state, state.frame.group == at).score for at in chosen}
    left, plans = request.max_moves, dict[int, GroupPlan]()
    for at in sorted(chosen, key=lambda at: -scores[at]):
        plans[at] = _Balancer(state, at, request, context).plan(left, scores[at])
        left = None if left is None else left - len(plans[at].jobs)
    shown = [plans[at] for at in chosen]
    result = moves_result(
        _moved(shown, cluster), [], [job.job for plan in shown for job in plan.jobs]
    )
    return Answer(
        result, "; ".join(map(_text, shown)) or "no node group", _explained(context, shown)
    )


def _moved(plans: list[GroupPlan], cluster: Cluster) -> list[tuple[str, str, list[str]]]:
    return [
        (
            job.resident.demand.instance.name,
            cluster.groups[plan.group].name,
            list(plan.before.frame.node_names(job.place)),
        )
        for plan in plans
        for job in plan.jobs
    ]


def _text(plan: GroupPlan) -> str:
    name = plan.before.frame.cluster.groups[plan.group].name
    return (
        f"group {name}: {len(plan.jobs)} moves, score {plan.score_before:.8f} to "
        f"{plan.score_after:.8f}, at best {plan.bound:.8f}"
    )


def bound(state: State, members: Mask) -> float:
    """The score no placement of a group's instances is below (allocation 5)."""
    memory = np.where(np.isinf(state.frame.memory), 0.0, state.frame.memory)[members]
    if len(memory) < 2:
        return 0.0
    total, most = float(memory.sum()), float(memory.max())
    if total <= most:
        return 0.0
    secondary = state.peers.key // state.frame.size
    kept = float(state.peers.reserved[members[secondary]].sum())
    return RESERVED_TOTAL_WEIGHT * (kept / (total - most) - kept / total)


def _explained(context: Context, plans: list[GroupPlan]) -> tuple[Explained, ...]:
    if not context.explain:
        return ()
    from ganeti_steward.allocators.balancing.explain import explain  # not on Ganeti's path

    checks = context.options.capacity_checks
    return tuple(explain(plan, capacity=checks) for plan in plans)


def movable(state: State, members: Mask, request: Balance) -> list[Resident]:
    """The instances of a group that may be moved at all, by name."""
    found = [
        resident
        for node in np.flatnonzero(members).tolist()
        for resident in state.residents.get(node, ())
        if _is_movable(state, resident, members, request)
    ]
    return sorted(found, key=lambda resident: resident.demand.instance.name)


def _is_movable(state: State, resident: Resident, members: Mask, request: Balance) -> bool:
    instance, places = resident.demand.instance, [node for node in resident[1:] if node >= 0]
    nodes = [state.frame.cluster.nodes[node] for node in places]
    lacks_disk = instance.local and any(state.frame.lacks_disk[node] for node in places)
    if instance.template in NOT_MIRRORED or not instance.auto_balance:
        return False
    # Missing figures of a node are no reason to move instances off it.
    if lacks_disk or any(node.silent for node in nodes):
        return False
    if not all(members[node] for node in places):
        return False
    if request.evacuate and all(node.usable for node in nodes):
        return False
    chosen = request.select is None or instance.name in request.select
    return chosen and instance.name not in request.exclude


class _Balancer:
    """One group and what may be done in it."""

    def __init__(self, state: State, group: int, request: Balance, context: Context) -> None:
        self._state, self._group, self._request = state, group, request
        self._members: Mask = state.frame.group == group
        self._nodes: Ints = np.flatnonzero(self._members)
        residents = movable(state, self._members, request)
        self._terms: dict[str, Terms] = {
            resident.demand.instance.name: terms_of(
                state.frame, resident.demand.instance, context.site_rules
            )
            for resident in residents
        }

    def plan(self, limit: int | None, score: float) -> GroupPlan:
        """The jobs, at most ``limit`` of them; ``score``: the group's as it is."""
        jobs: list[Planned] = []
        state = self._state
        for _ in range(_ROUNDS):
            targets = self._targets(state, None if limit is None else limit - len(jobs))
            found, state = schedule(state, targets, self._members)
            jobs += found
            if len(found) == len(targets):
                break
        least = bound(self._state, self._members)
        return GroupPlan(self._group, self._members, self._state, state, tuple(jobs), score, least)

    def _targets(self, state: State, limit: int | None) -> list[Target]:
        """Where instances should go from here."""
        residents = movable(state, self._members, self._request)
        if not residents or (limit is not None and limit <= 0):
            return []
        model = GroupModel(state, self._nodes, residents)
        search = LocalSearch(
            SingleMoves(model, self._request, self._site_preferences(residents)),
            limit,
            self._request.min_gain,
        )
        search.run()
        moved = search.moved
        return [
            Target(residents[at], self._terms_of(residents[at]), self._place(model, at))
            for at in search.order
            if moved[at]
        ]

    def _place(self, model: GroupModel, instance: int) -> tuple[int, int]:
        primary, secondary = model.place(instance)
        return int(self._nodes[primary]), int(self._nodes[secondary]) if secondary >= 0 else -1

    def _terms_of(self, resident: Resident) -> Terms:
        return self._terms[resident.demand.instance.name]

    def _site_preferences(self, residents: list[Resident]) -> Mapping[int, SitePreferences]:
        """The site rules about each instance, where there are any."""
        site_preferences = {}
        for at, resident in enumerate(residents):
            terms = self._terms_of(resident)
            costs = (terms.costs[PRIMARY][self._nodes], terms.costs[SECONDARY][self._nodes])
            banned = (self._banned(terms, PRIMARY), self._banned(terms, SECONDARY))
            if any(mask.any() for mask in (*costs, *banned)):
                site_preferences[at] = SitePreferences(banned, costs)
        return site_preferences

    def _banned(self, terms: Terms, role: str) -> Mask:
        banned = np.zeros(len(self._nodes), np.bool_)
        for check in terms.bans[role]:
            banned |= check.failing[self._nodes]
        return banned
