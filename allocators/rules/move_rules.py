"""The rules of each kind of move, for all target nodes at once (allocation 4.4)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators.rules import move_kinds as kinds
from ganeti_steward.allocators.rules.candidates import (
    Terms,
    Verdicts,
    entry_checks,
    group_checks,
    reserve_checks,
)
from ganeti_steward.allocators.rules.checks import (
    Check,
    first_failing,
    primary_checks,
    secondary_checks,
)
from ganeti_steward.allocators.rules.tag_checks import migration_check, spread_checks
from ganeti_steward.allocators.state import quantity
from ganeti_steward.core.model.site_rules import PRIMARY, SECONDARY
from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    from ganeti_steward.allocators.rules.move_kinds import MoveKind
    from ganeti_steward.allocators.state.arrays import Ints, Mask
    from ganeti_steward.allocators.state.frame import Demand
    from ganeti_steward.allocators.state.state import Resident, State


class MoveVerdicts(NamedTuple):
    """The result of the rules for one kind of move."""

    blocked: str
    """why the kind of move is impossible whatever the target; empty when it is possible"""
    roles: tuple[Verdicts, ...]
    """the final nodes per role; with one target only that one's"""
    shown: tuple[Verdicts, ...]
    """the target nodes, for explanations"""


class MoveRules:
    """One instance taken off its nodes, and what each step would meet.

    Soft rules are dropped where the node a step leaves is unusable (allocation 4.4).
    """

    def __init__(
        self,
        left: State,
        resident: Resident,
        terms: Terms,
        targets: Mask,
        extra_checks: tuple[Check, ...] = (),
    ) -> None:
        """``left``: the state without the instance; ``resident``: the instance where it was;
        ``targets``: the nodes it may go to, its secondary perhaps among them;
        ``extra_checks``: of new primaries.
        """
        self.left, self.resident, self._extra_checks = left, resident, extra_checks
        self._frame, self._demand, self._terms = left.frame, resident.demand, terms
        self._targets = targets

    def check(self, kind: MoveKind) -> MoveVerdicts:
        """Apply the rules to one kind of move."""
        return _RULES[kind.steps](self)

    # -- the kinds of move

    def _move(self) -> MoveVerdicts:
        source = self.resident.primary
        checks = [
            *self._entry,
            *self._new_group,
            migration_check(self.left, source),
            *self._terms.bans[PRIMARY],
            *self._spread_checks,
            *primary_checks(self.left, self._demand, self._after_primary),
            *reserve_checks(self.left, self._demand, self._after_primary, PRIMARY),
        ]
        verdicts = self._verdicts(PRIMARY, _in_force(checks, self._forced(source)))
        return MoveVerdicts("", (verdicts,), (verdicts,))

    def _fail_over(self) -> MoveVerdicts:
        primary, secondary = self.resident.primary, self.resident.secondary
        blocked = self._failover_fault or self._ban(secondary)
        first, second = self._only(PRIMARY, secondary), self._only(SECONDARY, primary)
        return MoveVerdicts(blocked, (first, second), ())

    def _replace_secondary(self) -> MoveVerdicts:
        checks = [*self._entry, *self._terms.bans[SECONDARY], *self._first_copy]
        second = self._verdicts(SECONDARY, checks, self._forced(self.resident.secondary))
        return MoveVerdicts(
            self._source_fault, (self._only(PRIMARY, self.resident.primary), second), (second,)
        )

    def _replace_and_fail_over(self) -> MoveVerdicts:
        first = self._through_primary
        second = self._only(SECONDARY, self.resident.primary)
        return MoveVerdicts(self._copy_fault, (first, second), (first,))

    def _fail_over_and_replace(self) -> MoveVerdicts:
        primary, secondary = self.resident.primary, self.resident.secondary
        checks = [*self._entry, *self._terms.bans[SECONDARY], *self._second_copy]
        second = self._verdicts(SECONDARY, checks, self._forced(primary))
        blocked = self._failover_fault or self._ban(secondary)
        return MoveVerdicts(blocked, (self._only(PRIMARY, secondary), second), (second,))

    def _replace_primary(self) -> MoveVerdicts:
        first = self._through_secondary
        second = self._only(SECONDARY, self.resident.secondary)
        return MoveVerdicts(self._failover_fault or self._stay_fault, (first, second), (first,))

    def _replace_both(self) -> MoveVerdicts:
        # Once replaced, the old secondary may be chosen again.
        entry = [*entry_checks(self._frame, self._terms), _barred(self._targets)]
        second = self._new_secondary(entry, self._forced(self.resident.primary))
        verdicts = self._through_primary, second
        return MoveVerdicts(self._copy_fault, verdicts, verdicts)

    def _fail_over_and_replace_both(self) -> MoveVerdicts:
        verdicts = self._through_secondary, self._new_secondary(self._entry, self._terms.forced)
        return MoveVerdicts(self._failover_fault or self._stay_fault, verdicts, verdicts)

    # -- their steps

    @cached_property
    def _through_primary(self) -> Verdicts:
        """Replace the secondary by the target, then fail over to it."""
        source = self.resident.primary
        checks = [
            *self._entry,
            *self._new_group,
            *self._first_copy,
            *self._take_over(source, self._forced(source)),
        ]
        return self._verdicts(PRIMARY, checks)

    @cached_property
    def _through_secondary(self) -> Verdicts:
        """After a failover replace the old primary by the target, then fail over to it."""
        checks = [
            *self._entry,
            *self._new_group,
            *self._second_copy,
            *self._take_over(self.resident.secondary, self._terms.forced),
        ]
        return self._verdicts(PRIMARY, checks)

    def _take_over(self, source: int, forced: bool) -> list[Check]:
        """The target becomes primary and ``source``, which was, its secondary."""
        return [
            migration_check(self.left, source),
            *self._terms.bans[PRIMARY],
            *self._spread_checks,
            *_in_force(self._primary_checks, forced),
            *_in_force(n1_checks_by_primary(self.left, self._demand, source), forced),
        ]

    @cached_property
    def _first_copy(self) -> list[Check]:
        """The target becomes secondary of the primary there is."""
        return self._copy(self.resident.primary, self._forced(self.resident.secondary))

    @cached_property
    def _second_copy(self) -> list[Check]:
        """After a failover the target becomes secondary of the former secondary."""
        return self._copy(self.resident.secondary, self._forced(self.resident.primary))

    def _copy(self, primary: int, forced: bool) -> list[Check]:
        kept = n1_pair_checks(self.left, self._demand, primary, new=True)
        return _in_force([*self._secondary_checks, *kept], forced)

    def _new_secondary(self, entry: list[Check], forced: bool) -> Verdicts:
        """Any node as secondary of a primary still to be chosen."""
        rules = _in_force(self._secondary_checks, forced)
        checks = [*entry, *self._terms.bans[SECONDARY], *rules]
        return self._verdicts(SECONDARY, checks, forced)

    # -- faults that do not depend on the target

    @cached_property
    def _failover_fault(self) -> str:
        """Why the instance cannot fail over to its secondary."""
        source, target = self.resident.primary, self.resident.secondary
        forced = self._forced(source)
        checks = [
            *entry_checks(self._frame, self._terms),
            migration_check(self.left, source),
            *self._spread_checks,
            *_in_force(self._primary_checks_beside_copy, forced),
        ]
        fault = self._fault(checks, target)
        if fault:
            return f"its secondary {self._name(target)} cannot take it over: {fault}"
        return self._back_fault(source, target, forced)

    @cached_property
    def _stay_fault(self) -> str:
        """Why the secondary could not go back to being one."""
        return self._back_fault(self.resident.secondary, -1, self._terms.forced)

    @cached_property
    def _source_fault(self) -> str:
        """Why nothing can be copied off the primary while it stays the primary.

        It is taken off and put back, which hard rules may forbid.
        """
        primary = self.resident.primary
        node = self._frame.cluster.nodes[primary]
        name = node.name
        if node.offline:
            return f"its disks cannot be copied: its primary {name} is offline"
        if node.missing and not self._demand.instance.forthcoming:
            return f"its disks cannot be copied: its primary {name} {node.lack}"
        fault = self._fault(_in_force(self._primary_checks_beside_copy, forced=True), primary)
        return fault and f"its primary {name} cannot keep it: {fault}"

    @cached_property
    def _copy_fault(self) -> str:
        """The same, or why it could not be the secondary afterwards."""
        source = self.resident.primary
        return self._source_fault or self._back_fault(source, -1, self._forced(source))

    def _back_fault(self, node: int, primary: int, forced: bool) -> str:
        """Why a node that was primary cannot be secondary (of ``primary``, -1: of anyone)."""
        checks = secondary_checks(self.left, self._demand, self._after_secondary, has_copy=True)
        if primary >= 0:
            checks += n1_pair_checks(self.left, self._demand, primary)
        fault = self._fault(_in_force(checks, forced), node)
        return fault and f"{self._name(node)} cannot be its secondary: {fault}"

    def _ban(self, node: int) -> str:
        fault = self._fault([*self._terms.bans[PRIMARY], *self._new_group], node)
        return fault and f"its secondary {self._name(node)} cannot take it over: {fault}"

    @staticmethod
    def _fault(checks: list[Check], node: int) -> str:
        return next((check.text(node) for check in checks if check.failing[node]), "")

    # -- the rules of each role, made once

    @cached_property
    def _new_group(self) -> list[Check]:
        """Of a primary in another group, most of them."""
        source = self.resident.primary
        groups = group_checks(self.left, self._demand, source)
        return [*self._extra_checks, *_in_force(groups, self._forced(source))]

    @cached_property
    def _entry(self) -> list[Check]:
        """For nodes that take a copy while the instance holds both of its own."""
        new = self._targets.copy()
        new[[node for node in self.resident.nodes if node >= 0]] = False
        return [*entry_checks(self._frame, self._terms), _barred(new)]

    @cached_property
    def _after_primary(self) -> Ints:
        return self.left.after_primary(self._demand)

    @cached_property
    def _after_secondary(self) -> Ints:
        return self.left.after_secondary(self._demand, 0)

    @cached_property
    def _touched(self) -> State:
        """The state after an earlier step (allocation 3.3)."""
        touched = self.left
        if not self._demand.instance.forthcoming:
            now = touched.now.copy()
            now[quantity.FAILS] = quantity.n1_fails(now)
            touched = touched._replace(now=now)
        return touched

    @cached_property
    def _spread_checks(self) -> list[Check]:
        return spread_checks(self.left, self._demand, self.resident.primary)

    @cached_property
    def _primary_checks(self) -> list[Check]:
        checks = primary_checks(self._touched, self._demand, self._after_primary)
        return checks + reserve_checks(self.left, self._demand, self._after_primary, PRIMARY)

    @cached_property
    def _primary_checks_beside_copy(self) -> list[Check]:
        """Of a node that has the disks already."""
        after = self._after_primary
        checks = primary_checks(self._touched, self._demand, after, has_copy=True)
        return checks + reserve_checks(self.left, self._demand, after, PRIMARY, has_copy=True)

    @cached_property
    def _secondary_checks(self) -> list[Check]:
        after = self._after_secondary
        checks = secondary_checks(self.left, self._demand, after)
        return checks + reserve_checks(self.left, self._demand, after, SECONDARY)

    # -- small things

    def _forced(self, node: int) -> bool:
        """Whether soft rules are dropped for a step that leaves this node."""
        return self._terms.forced or not bool(self._frame.usable[node])

    def _name(self, node: int) -> str:
        return self._frame.cluster.nodes[node].name

    def _verdicts(self, role: str, checks: list[Check], forced: bool = False) -> Verdicts:
        after = self._after_primary if role == PRIMARY else self._after_secondary
        return Verdicts(role, checks, first_failing(checks, self._frame.size), after, forced)

    def _only(self, role: str, node: int) -> Verdicts:
        """One certain node; its rules are checked by ``blocked``."""
        after = self._after_primary if role == PRIMARY else self._after_secondary
        verdict = np.ones(self._frame.size, np.int64)
        verdict[node] = 0
        return Verdicts(role, [], verdict, after, forced=True)


#: Steps of a kind of move -> its rules.
_RULES: Final[dict[str, Callable[[MoveRules], MoveVerdicts]]] = {
    kinds.MOVE.steps: MoveRules._move,
    kinds.FAILOVER.steps: MoveRules._fail_over,
    kinds.REPLACE_SECONDARY.steps: MoveRules._replace_secondary,
    kinds.REPLACE_AND_FAILOVER.steps: MoveRules._replace_and_fail_over,
    kinds.FAILOVER_AND_REPLACE.steps: MoveRules._fail_over_and_replace,
    kinds.REPLACE_PRIMARY.steps: MoveRules._replace_primary,
    kinds.REPLACE_BOTH.steps: MoveRules._replace_both,
    kinds.FAILOVER_AND_REPLACE_BOTH.steps: MoveRules._fail_over_and_replace_both,
}


def _barred(targets: Mask) -> Check:
    """Nodes the instance may not go to; explanations leave them out."""
    return Check("excluded", "FailInternal", True, ~targets, lambda i: "it may not go there")


def _in_force(checks: list[Check], forced: bool) -> list[Check]:
    """Without the soft rules where they are dropped."""
    return [check for check in checks if check.hard] if forced else checks


def n1_pair_checks(state: State, demand: Demand, primary: int, *, new: bool = False) -> list[Check]:
    """Each node as secondary of one primary it keeps memory for.

    ``new``: it is not its secondary yet, and keeps its reserve beside that memory.
    """
    peers = state.peers
    mine = peers.key % peers.size == primary
    secondaries = peers.key[mine] // peers.size
    return _n1_checks(state, demand, secondaries, peers.reserved[mine], secondaries, new=new)


def n1_checks_by_primary(state: State, demand: Demand, secondary: int) -> list[Check]:
    """One secondary with each node as its primary."""
    peers = state.peers
    first, last = np.searchsorted(peers.key, (secondary * peers.size, (secondary + 1) * peers.size))
    primaries = peers.key[first:last] % peers.size
    at = np.full(len(primaries), secondary, np.int64)
    return _n1_checks(state, demand, primaries, peers.reserved[first:last], at)


def _n1_checks(
    state: State, demand: Demand, nodes: Ints, kept: Ints, secondaries: Ints, *, new: bool = False
) -> list[Check]:
    """The rule for pairs with memory kept; ``nodes`` are those it speaks of."""
    if demand.instance.forthcoming or not kept.any():
        return []
    after = state.after_secondary(demand, kept, secondaries)
    failing = np.zeros(state.frame.size, np.bool_)
    fails = quantity.newly_fails(state.now[quantity.FAILS, secondaries], after[quantity.FAILS])
    reserves = state.frame.reserves
    if new and reserves is not None:
        fails |= reserves.newly_fails(state.now, after, secondaries)
    failing[nodes] = fails
    if not fails.any():
        return []
    return [Check("N+1", "FailMem", False, failing, _n1_text(nodes, after))]


def _n1_text(nodes: Ints, after: Ints) -> Callable[[int], str]:
    def text(node: int) -> str:
        at = int(np.flatnonzero(nodes == node)[0])
        return (
            f"would have to keep {after[quantity.RESERVED, at]} MiB free for N+1, "
            f"{after[quantity.UNALLOCATED, at]} MiB unallocated"
        )

    return text
