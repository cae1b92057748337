"""What is wrong with Ganeti itself on several nodes, in words; nothing is done about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ganeti_steward.plugins.model.task import Held
from ganeti_steward.plugins.model.world import Reported, World

#: Seconds by which clocks may differ for Ganeti (NODE_MAX_CLOCK_SKEW): gnt-cluster verify reports
#: more as an error, and confd gives no answers from twice that on.
_GANETIS: Final = 150


def differing_clocks(world: World, limit: float) -> Iterator[Held]:
    """The nodes whose clocks differ from this one's by more than ``limit`` seconds; 0: none.

    Of a node whose report was refused because of that, the refusal says it.
    """
    for node in world.cluster.nodes:
        found = world.observations.get(node.uuid)
        ahead = found.ahead if isinstance(found, Reported) else None
        if limit and ahead is not None and abs(ahead) > limit:
            where = "ahead of" if ahead > 0 else "behind"
            sentence = (
                f"the clock of {node.name} is {abs(ahead)} s {where} this node's: Ganeti takes "
                f"{_GANETIS} s at most"
            )
            yield Held(node.name, "clock", sentence, (("ahead", ahead),))
