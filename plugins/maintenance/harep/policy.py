"""Which repairs of an instance are allowed: the nearest object with a statement decides."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from ganeti_steward.plugins.maintenance.harep.tags import PREFIX, SUSPEND, TYPES, is_integer

#: A suspension without an end.
FOR_EVER: Final = -1


class Policy(NamedTuple):
    """What one object says."""

    allowed: str = ""
    """the most invasive type of repair that is allowed; empty: none, for it is suspended"""
    until: int = 0
    """s since the epoch; the end of the suspension, or `FOR_EVER`"""
    where: str = ""
    """whose tags say so, in words"""


def own_policy(tags: Collection[str], now: int) -> Policy | None:
    """What the tags of one object say; None: nothing.  ``now``: s since the epoch.

    A suspension without an end wins over one with an end, that over allowed types, and of those
    the least invasive counts.
    """
    ends = [tag.removeprefix(SUSPEND) for tag in tags if tag.startswith(SUSPEND)]
    if "" in ends or SUSPEND.removesuffix(":") in tags:
        return Policy(until=FOR_EVER)
    later = [int(end) for end in ends if is_integer(end) and int(end) > now]
    if later:
        return Policy(until=max(later))
    return next((Policy(kind) for kind in TYPES if f"{PREFIX}{kind}" in tags), None)


def policy_of(objects: Collection[tuple[str, Collection[str]]], now: int) -> Policy | None:
    """The policy of the first object that has one; None: no repair is enabled.

    ``objects``: names in words, with the tags: the instance, its node group, the cluster.
    """
    for where, tags in objects:
        found = own_policy(tags, now)
        if found:
            return found._replace(where=where)
    return None
