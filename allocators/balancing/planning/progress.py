"""A group's state while instances move one after the other, with the capacity test."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ganeti_steward.allocators.balancing.planning.group import Group
    from ganeti_steward.allocators.score.global_n1 import Stuck
    from ganeti_steward.allocators.state.arrays import NodePair
    from ganeti_steward.allocators.state.state import Resident, State


class Progress:
    """The state so far; a step is refused that leaves more instances stuck than before."""

    def __init__(self, group: Group) -> None:
        self.state, self._test = group.state, group.test
        self._residents = dict(enumerate(group.residents))

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
        self.state = after
        if self._test is not None:
            self._test = self._test.following(after)
