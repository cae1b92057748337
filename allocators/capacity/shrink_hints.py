"""How much smaller an instance has to be for one more to fit (allocation 12, tiered specs)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators.capacity import sizes
from ganeti_steward.allocators.capacity.headroom import Headroom
from ganeti_steward.allocators.placement.info import limits
from ganeti_steward.allocators.rules.groups import takes_instances

if TYPE_CHECKING:
    from ganeti_steward.allocators.placement.placing import Placement, Placer
    from ganeti_steward.core.model.cluster import Instance
    from ganeti_steward.core.model.requests import Allocate

#: What to make smaller when a rule refuses nodes; of other rules nothing is known.
_REMEDIES: Final = {
    "memory": sizes.MEMORY,
    "N+1": sizes.MEMORY,
    "capacity": sizes.MEMORY,
    "disk": sizes.DISK,
    "vcpus": sizes.VCPUS,
    "spindles": sizes.SPINDLES,
}


def fits_with(placer: Placer, last: Placement, item: Allocate) -> dict[str, int]:
    """The amounts (MiB, MiB of each disk) with which one more would fit; empty if none do.

    One resource alone is made smaller where that suffices, the one most nodes lack if it
    can be; otherwise several, each as little as possible.
    """
    return _ShrinkHints(placer, last, item).found()


class _ShrinkHints:
    def __init__(self, placer: Placer, last: Placement, item: Allocate) -> None:
        self._placer, self._last, self._item = placer, last, item
        groups = last.state.frame.cluster.groups
        self._open = [trial.group for trial in last.trials if not trial.reason]
        if item.group_name is None:
            self._open = [g for g in self._open if takes_instances(groups[g])]
        self._bounds = [pair.min for g in self._open for pair in groups[g].policy.minmax]
        self._tested = False

    def found(self) -> dict[str, int]:
        """Without the capacity test, which costs most, as long as what comes out passes it."""
        hints = self._hints()
        if self._last.test is None or (hints and self._passes(hints)):
            return hints
        # Without hints it fits by everything but the capacity test, or not at all.
        self._tested = True
        return self._hints()

    def _passes(self, hints: dict[str, int]) -> bool:
        instance = self._item.instance
        for resource, wanted in hints.items():
            instance = sizes.lowered(instance, resource, sizes.steps_to(instance, resource, wanted))
        return self._placed(self._item._replace(instance=instance))

    def _hints(self) -> dict[str, int]:
        order = [_REMEDIES[rule] for rule in limits(self._last) if rule in _REMEDIES]
        order = list(dict.fromkeys([*order, *sizes.STEPS]))
        for resource in order:
            if self._fits(self._least(self._item.instance, resource)):
                return self._raised([resource])
        lowest, chosen = self._item.instance, list[str]()
        for resource in order:
            lowest = self._least(lowest, resource)
            chosen.append(resource)
            if self._fits(lowest):
                return self._raised(chosen)
        return {}

    def _least(self, instance: Instance, resource: str) -> Instance:
        bound = max(sizes.smallest(self._bounds, resource), 1)
        return sizes.lowered(instance, resource, sizes.steps_to(instance, resource, bound))

    def _raised(self, chosen: list[str]) -> dict[str, int]:
        """Each resource as high as it can be, those that matter less first."""
        steps = {
            resource: sizes.steps_to(
                self._item.instance, resource, max(sizes.smallest(self._bounds, resource), 1)
            )
            for resource in chosen
        }
        for resource in reversed(chosen):
            low, high = 0 if len(chosen) > 1 else 1, steps[resource]
            while low < high:
                middle = (low + high) // 2
                if self._fits(self._lowered(steps | {resource: middle})):
                    high = middle
                else:
                    low = middle + 1
            steps[resource] = high
        instance = self._lowered(steps)
        return {
            resource: sizes.amount(instance, resource) for resource in chosen if steps[resource]
        }

    def _lowered(self, steps: dict[str, int]) -> Instance:
        instance = self._item.instance
        for resource, number in steps.items():
            instance = sizes.lowered(instance, resource, number)
        return instance

    def _fits(self, instance: Instance) -> bool:
        last, item = self._last, self._item._replace(instance=instance)
        frame = last.state.frame
        demand = frame.tag_rules.demand(instance)
        paired = item.required_nodes == 2
        headroom = Headroom(last.state, demand, last.terms, paired=paired)
        headroom.narrow(np.isin(frame.group, self._open))
        as_primary, as_secondary = headroom.as_primary(), headroom.as_secondary()
        fits = bool(as_primary.any())
        if paired:
            nodes = np.flatnonzero(as_primary).tolist()
            fits = any(headroom.row(node, as_secondary).any() for node in nodes)
        return self._placed(item) if fits and self._tested else fits

    def _placed(self, item: Allocate) -> bool:
        last = self._last
        return self._placer.place(last.state, item, item.group_name, last.terms).chosen is not None
