"""The state on the way through a plan, with the capacity test of every step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ganeti_steward.allocators.balancing.planning.group import GroupSearch
    from ganeti_steward.allocators.score.emptying import Stuck
    from ganeti_steward.allocators.score.global_n1 import CapacityTest
    from ganeti_steward.allocators.state.arrays import NodePair
    from ganeti_steward.allocators.state.state import Resident, State


class Mark(NamedTuple):
    """A moment of `Progress` that one can go back to."""

    state: State
    test: CapacityTest | None
    residents: Mapping[int, Resident]
    order: Mapping[int, None]


class Progress:
    """The state so far; a step is refused that leaves more instances stuck than before."""

    def __init__(self, group: GroupSearch) -> None:
        self.state, self._test = group.state, group.test
        self._group = group
        self._residents = dict(enumerate(group.residents))
        self._order = dict[int, None]()

    def resident(self, instance: int) -> Resident:
        """An instance of the group where it is now."""
        known = self._residents[instance]
        return self.state.find(known.demand, known.primary) or known

    def stuck_by(self, instance: int, after: State, place: NodePair) -> list[Stuck]:
        """Instances that could newly not leave their node when one has gone to ``place``.

        The instance itself does not count where it was stuck before, nor where it leaves an
        unusable node: to empty that comes first.
        """
        if self._test is None:
            return []
        resident = self.resident(instance)
        name = resident.demand.instance.name
        touched = {one for one in (*resident.nodes, *place) if one >= 0}
        usable = all(after.frame.usable[one] for one in resident.nodes if one >= 0)
        lost = not usable or self._test.is_stuck(name, resident.primary)
        exempt = frozenset([name] if lost else [])
        return self._test.newly_stuck(after, tuple(sorted(touched)), exempt)

    def take(self, instance: int, after: State, place: NodePair) -> None:
        """Go on from a state in which an instance is at ``place``."""
        resident = self._residents[instance]
        self._residents[instance] = resident._replace(primary=place[0], secondary=place[1])
        self._order.pop(instance, None)
        self._order[instance] = None
        self.state = after
        if self._test is not None:
            self._test = self._test.following(after)

    def passes(self, instance: int, place: tuple[int, int]) -> bool:
        """Go on with an instance at a place of the group, if that leaves nothing newly stuck."""
        resident, there = self.resident(instance), self._group.on_cluster(*place)
        after = self.state.removed(resident).placed(resident.demand, *there)
        if self.stuck_by(instance, after, there):
            return False
        self.take(instance, after, there)
        return True

    @property
    def order(self) -> tuple[int, ...]:
        """The instances moved so far, each where it was moved last."""
        return tuple(self._order)

    def mark(self) -> Mark:
        """This moment."""
        return Mark(self.state, self._test, dict(self._residents), dict(self._order))

    def back(self, mark: Mark) -> None:
        """Forget what was done since then."""
        self.state, self._test = mark.state, mark.test
        self._residents, self._order = dict(mark.residents), dict(mark.order)
