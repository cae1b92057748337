"""Checks of what the hooks of site rules return; each fault names the plugin."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING

from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.hooks.timed_call import shown
from ganeti_steward.core.json_reader import LIMIT, writable
from ganeti_steward.core.model.site_rules import ROLES, Ban, Cost, NoPlace

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster


def check_list(name: str, hook: str, given: object) -> None:
    """Raise PluginError unless the hook returned a list or a tuple."""
    if type(given) not in (list, tuple):
        raise PluginError(name, f"{hook} must give a list, not {shown(given)}")


def check_ban(name: str, ban: object, cluster: Cluster) -> None:
    """Raise PluginError unless this is a ban of a node of the cluster, or no place at all."""
    if isinstance(ban, NoPlace):
        check_text(name, "the reason for no place", ban.reason)
        return
    if not isinstance(ban, Ban):
        raise PluginError(name, f"steward_constrain must give bans, not {shown(ban)}")
    _check_place(name, ban.node, ban.role, cluster)
    check_text(name, f"the rule for {ban.node}", ban.rule)
    check_text(name, f"the reason for {ban.node}", ban.reason)


def check_cost(name: str, cost: object, cluster: Cluster) -> tuple[tuple[str, str], float]:
    """(node, role) and the number of a cost; raises PluginError unless it is usable."""
    if not isinstance(cost, Cost):
        raise PluginError(name, f"steward_weigh must give costs, not {shown(cost)}")
    _check_place(name, cost.node, cost.role, cluster)
    # Real rather than float: plugins that use numpy return its numbers.
    if not isinstance(cost.cost, Real) or not -LIMIT <= cost.cost <= LIMIT:
        fault = f"the cost of {cost.node} is {shown(cost.cost)}, not a number up to {LIMIT:g}"
        raise PluginError(name, fault)
    return (cost.node, cost.role), float(cost.cost)


def check_text(name: str, what: str, text: object) -> str:
    """The text; raises PluginError unless it is one, not empty, that can be written."""
    if not isinstance(text, str) or not text:
        raise PluginError(name, f"{what} is {shown(text)}, not a text")
    if writable(text) != text:
        raise PluginError(name, f"{what}, {shown(text)}, cannot be written as UTF-8")
    return text


def _check_place(name: str, node: object, role: object, cluster: Cluster) -> None:
    if not isinstance(node, str) or node not in cluster.node_index:
        raise PluginError(name, f"names the node {shown(node)}, which the cluster does not have")
    if role not in ROLES:
        raise PluginError(name, f"names the role {shown(role)} (known: {', '.join(ROLES)})")
