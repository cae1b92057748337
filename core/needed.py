"""When a plugin is needed: what a plugin declares that has something to do now and then only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ganeti_steward.core.records import NamedTuple

#: What tags begin with that say how full nodes may be; allocators read them, no plugin does.
RESERVE_PREFIX: Final = "steward:reserve:"
RATIO_PREFIX: Final = "steward:memory-ratio:"
ROOM_PREFIXES: Final = (RESERVE_PREFIX, RATIO_PREFIX)


class Needed(NamedTuple):
    """What makes a plugin's site rules and notes count; either of both is enough.

    A plugin declares it as ``NEEDED``.  Its hooks ``steward_constrain``, ``steward_weigh`` and
    ``steward_annotate`` are called from the first request, or instance, that has such a tag.
    """

    tags: tuple[str, ...] = ()
    """prefixes of tags: of the cluster, a node group, a node or the instance to be placed"""
    section: bool = False
    """whether the plugin's section of the configuration, when it is not empty, is enough"""
    but: tuple[str, ...] = ()
    """prefixes of tags that are not enough, although they begin with one of ``tags``"""

    def by(self, tags: Iterable[str]) -> bool:
        """Whether one of these tags is enough."""
        return any(tag.startswith(self.tags) and not tag.startswith(self.but) for tag in tags)
