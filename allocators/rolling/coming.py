"""Instances that come back to a node after its maintenance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ganeti_steward.allocators.rolling.away import Away, Placed
from ganeti_steward.allocators.rolling.fleet import MOVE, Fleet, Member

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.site_rules import SiteRules


class Coming(NamedTuple):
    """Which instances may be on a node."""

    may: frozenset[str]
    """all of them together"""
    stays: tuple[tuple[str, str], ...]
    """the others, each with the reason"""


def coming_back(
    cluster: Cluster, node: str, names: Sequence[str], site_rules: SiteRules | None = None
) -> Coming:
    """Which of these instances, which run elsewhere, may run on a node; raises PluginError."""
    fleet = Fleet(cluster, MOVE, site_rules)
    at, load = cluster.node_index[node], Away.none(fleet).load
    members = {one.name: one for on in fleet.members.values() for one in on}
    may, stays = set[str](), list[tuple[str, str]]()
    for member in (members[name] for name in names if name in members):
        if not _allowed(fleet, member, at):
            stays.append((member.name, "the rules do not allow it there any more"))
        elif not load.fits(fleet, member)[at]:
            stays.append((member.name, f"{node} has no room for it any more"))
        else:
            load = load.changed(Placed(member, at))
            may.add(member.name)
    return Coming(frozenset(may), tuple(stays))


def _allowed(fleet: Fleet, member: Member, node: int) -> bool:
    if member.paired and member.secondary != node:
        return False
    return bool(fleet.allowed(member)[node])
