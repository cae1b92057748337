"""Plans of moves for a cluster by the configured allocators, for commands and daemons."""

from __future__ import annotations

from typing import Any, NamedTuple

from ganeti_steward.allocators.state.names import Names, with_offline
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.iallocator.dispatch import dispatch
from ganeti_steward.core.model.answer import Refusal
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.explanation import GroupBalance
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.requests import Balance


class BalanceOptions(NamedTuple):
    """What to balance, with names as a user writes them: domains may be left out.

    Each name may also be several, separated by commas.
    """

    request: Balance = Balance()
    """limits and kinds of move; its groups and instances are replaced by those named here"""
    offline: tuple[str, ...] = ()
    """nodes to treat as offline"""
    groups: tuple[str, ...] = ()
    """node groups by name or uuid; empty: all"""
    select: tuple[str, ...] | None = None
    """move only these instances; None: all"""
    exclude: tuple[str, ...] = ()
    """instances that stay"""


class BalancePlan(NamedTuple):
    """The answer of the configured allocators to a balance request."""

    cluster: Cluster
    """the cluster as the request saw it: with the nodes of `BalanceOptions.offline` offline"""
    groups: tuple[GroupBalance, ...]
    """empty when the allocator that answered explains nothing"""
    jobs: list[Job]
    """in the order in which they must be run"""
    info: str


def resolve(options: BalanceOptions, cluster: Cluster) -> tuple[Balance, Cluster]:
    """The request, and the cluster it is about; raises StewardError with all unknown names."""
    names = Names(cluster)
    offline = names.nodes(options.offline)
    request = options.request._replace(
        groups=names.groups(options.groups) if options.groups else None,
        select=None if options.select is None else names.instances(options.select),
        exclude=names.instances(options.exclude),
    )
    names.check()
    return request, with_offline(cluster, offline)


def plan_balance(
    request: Balance, cluster: Cluster, config: Config, options: Options
) -> BalancePlan:
    """The plan of the configured allocators; raises StewardError when there is none."""
    outcome = dispatch(request, cluster, config, options, explain=True)
    if isinstance(outcome, Refusal):
        raise StewardError(outcome.info)
    result: Any = outcome.result
    groups = tuple(one for one in outcome.explanations if isinstance(one, GroupBalance))
    return BalancePlan(cluster, groups, result[2], outcome.info)
