"""The hooks a plugin may implement; ``docs/reference/hooks/`` has a page for each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

from ganeti_steward.core import PROJECT

if TYPE_CHECKING:
    from ganeti_steward.core.config.values import Config
    from ganeti_steward.core.maintenance.filter_action import Facts, QueuedJob, Verdict
    from ganeti_steward.core.maintenance.incident import Incident
    from ganeti_steward.core.maintenance.task import Plan, RoutinePlan
    from ganeti_steward.core.maintenance.world import World
    from ganeti_steward.core.model.answer import Outcome
    from ganeti_steward.core.model.cluster import Cluster, Instance
    from ganeti_steward.core.model.command import Command
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.finding import CheckResult
    from ganeti_steward.core.model.machine import Machine
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
        (`ganeti_steward.core.model.opcodes`); a refusal; or None ("not handled")
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
        (`ganeti_steward.core.model.opcodes`); a refusal; or None ("not handled")
    """


@hookspec
def steward_balance(request: Balance, cluster: Cluster, context: Context) -> Outcome | None:
    """Plan moves that lower the score of each group (the 2.1 design's ``balance``).

    :param request: the request
    :param cluster: the cluster as it is
    :param context: options of the call and the site rules
    :return: an answer whose result is ``[moved, failed, jobs]``, none failed, the jobs in their
        order (`ganeti_steward.core.model.opcodes`); a refusal; or None ("not handled")
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


@hookspec
def steward_diagnose(machine: Machine) -> Iterable[CheckResult] | None:
    """Return what is known about this node's hardware.

    :param machine: the node; it gives files, outputs of programs and sensors
    :return: any number of findings, unknowns and things that do not apply; their sources are
        the plugin's name, or that plus ``:object``.  A failure of the plugin is one unknown.
    """


@hookspec
def steward_plan(incident: Incident, world: World, context: Context) -> Iterable[Plan] | None:
    """Return what is to be done next for an incident; called in each round until it has ended.

    :param incident: the incident that is handled on its node: noted or pending, with no
        submission that is still open; or an acknowledged one whose node has its ``closed_tag``
    :param world: the cluster, its nodes and instances, and all incidents, as they are now
    :param context: the site rules, for the engines that find new nodes for instances
    :return: one or more tasks, or one of Done, Failed and Wait; None ("not handled").  Two tasks
        of one list may not share a node other than the incident's, nor an instance.  A failure of
        the plugin is logged and the incident waits
    """


@hookspec
def steward_routine(world: World, context: Context) -> Iterable[RoutinePlan] | None:
    """Return what is to be done in the cluster without any incident, and what is left out.

    Called in each round for each plugin that ``[maintd] routine`` names, after the repairs.

    :param world: the cluster, its nodes and instances, all incidents, and the jobs of routine
        work, as they are now; what the repairs and the plugins before use is reserved
    :param context: the site rules, for the engines that find new nodes for instances
    :return: any number of tasks, without commands, and of waits for what is not done; None is the
        same as none.  A failure of the plugin is logged, and nothing of it is done in this round
    """


@hookspec
def steward_incident_changed(
    before: Incident | None, after: Incident | None, event: str, reason: str
) -> None:
    """Be notified of a change of an incident; called after its record was written.

    :param before: the incident before; None when it is new
    :param after: the incident now; None when it is forgotten
    :param event: what happened, in a few words
    :param reason: why, one sentence
    """


@hookspec
def steward_filter_action(
    action: str, arguments: str, job: QueuedJob, facts: Facts
) -> Verdict | None:
    """Return what an action of a job filter rule does to a job that the rule matches.

    :param action: the name of the action, such as ``WINDOW``
    :param arguments: the text after it; empty for none
    :param job: the job, which has not started
    :param facts: time, incidents and approvals, as they are now
    :return: Hold, Release or Reject; None: it is no action of this plugin.  A failure of the
        plugin holds the job
    """
