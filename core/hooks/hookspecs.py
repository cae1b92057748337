"""The hooks of the core; ``docs/reference/hooks/`` has a page for each hook there is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

from ganeti_steward.core import PROJECT

if TYPE_CHECKING:
    from ganeti_steward.core.config.values import Config
    from ganeti_steward.core.model.answer import Outcome
    from ganeti_steward.core.model.cluster import Cluster, Instance
    from ganeti_steward.core.model.command import Command
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.requests import (
        Allocate,
        AllocateSecondary,
        Balance,
        Capacity,
        ChangeGroup,
        MultiAllocate,
        NodeEvacuate,
        Relocate,
        Request,
    )
    from ganeti_steward.core.model.site_rules import Ban, Cost, NoPlace

hookspec = pluggy.HookspecMarker(PROJECT)


@hookspec
def steward_allocate(request: Allocate, cluster: Cluster, context: Context) -> Outcome | None:
    """Place one new instance on ``required_nodes`` nodes.

    :param request: the request
    :param cluster: the cluster as it is
    :param context: options of the call and the site rules
    :return: an answer whose result is node names, primary first; a refusal; or None ("not handled")
    """


@hookspec
def steward_multi_allocate(
    request: MultiAllocate, cluster: Cluster, context: Context
) -> Outcome | None:
    """Place a batch of new instances; ``group_name`` holds for those that name none.

    :param request: the request
    :param cluster: the cluster as it is
    :param context: options of the call and the site rules
    :return: an answer whose result is ``[[[name, nodes], ...], [names]]``; a refusal; or None
        ("not handled")
    """


@hookspec
def steward_relocate(request: Relocate, cluster: Cluster, context: Context) -> Outcome | None:
    """Find one new node for an instance that leaves ``relocate_from``.

    :param request: the request
    :param cluster: the cluster as it is
    :param context: options of the call and the site rules
    :return: an answer whose result is a list of one node name; a refusal; or None ("not handled")
    """


@hookspec
def steward_allocate_secondary(
    request: AllocateSecondary, cluster: Cluster, context: Context
) -> Outcome | None:
    """Find a secondary for an instance that becomes drbd.

    :param request: the request
    :param cluster: the cluster as it is
    :param context: options of the call and the site rules
    :return: an answer whose result is one node name, a string; a refusal; or None ("not handled")
    """


@hookspec
def steward_node_evacuate(
    request: NodeEvacuate, cluster: Cluster, context: Context
) -> Outcome | None:
    """Move instances off their primaries, their secondaries or both (allocation 9.2).

    :param request: the request
    :param cluster: the cluster as it is
    :param context: options of the call and the site rules
    :return: an answer whose result is ``[moved, failed, jobs]``
        (`ganeti_steward.allocators.jobs.operations`); a refusal; or None ("not handled")
    """


@hookspec
def steward_change_group(
    request: ChangeGroup, cluster: Cluster, context: Context
) -> Outcome | None:
    """Move instances to other node groups (allocation 9.3).

    :param request: the request
    :param cluster: the cluster as it is
    :param context: options of the call and the site rules
    :return: an answer whose result is ``[moved, failed, jobs]``
        (`ganeti_steward.allocators.jobs.operations`); a refusal; or None ("not handled")
    """


@hookspec
def steward_balance(request: Balance, cluster: Cluster, context: Context) -> Outcome | None:
    """Plan moves that lower the score of each group (the 2.1 design's ``balance``).

    :param request: the request
    :param cluster: the cluster as it is
    :param context: options of the call and the site rules
    :return: an answer whose result is ``[moved, failed, jobs]``, none failed, the jobs in their
        order (`ganeti_steward.allocators.jobs.operations`); a refusal; or None ("not handled")
    """


@hookspec
def steward_capacity(request: Capacity, cluster: Cluster, context: Context) -> Outcome | None:
    """Count how many instances like this one still fit (the 2.1 design's ``capacity``).

    :param request: the request
    :param cluster: the cluster as it is
    :param context: options of the call and the site rules
    :return: an answer whose result is
        ``{"count": N, "placements": [[node, ...], ...], "limited_by": text}``;
        a refusal; or None ("not handled")
    """


@hookspec
def steward_constrain(
    request: Request, cluster: Cluster, instance: Instance
) -> Iterable[Ban | NoPlace] | None:
    """Return which nodes may not serve an instance, in which role, and why.

    :param request: the request that is answered, all instances of a batch included
    :param cluster: the cluster as it is
    :param instance: the instance to be placed or moved
    :return: any number of bans; a failure of the plugin refuses the request
    """


@hookspec
def steward_weigh(request: Request, cluster: Cluster, instance: Instance) -> Iterable[Cost] | None:
    """Return what having an instance on a node costs; lower is better.

    :param request: the request that is answered, all instances of a batch included
    :param cluster: the cluster as it is
    :param instance: the instance to be placed or moved
    :return: any number of costs; each is multiplied by the plugin's configured weight and
        added to the cluster score
    """


@hookspec
def steward_annotate(request: Request, cluster: Cluster, outcome: Outcome) -> Iterable[str] | None:
    """Return notes on an answer, for the administrator.

    :param request: the request that was answered
    :param cluster: the cluster as it was then
    :param outcome: the answer or the refusal
    :return: any number of short texts, which follow the answer's info in brackets; a failure of
        the plugin is logged and changes nothing
    """


@hookspec
def steward_commands() -> Iterable[Command] | None:
    """Return commands of ``gnt-steward``; their modules are imported when they are called.

    :return: any number of commands; none may have the name of another one
    """


@hookspec
def steward_check_config(config: Config) -> Iterable[str] | None:
    """Return what is wrong with the configuration, for ``gnt-steward check-config``.

    :param config: the whole configuration, which can be read and has values of the right types
    :return: any number of faults, each with the path of its key first: ``plugin.rack.height: ...``
    """
