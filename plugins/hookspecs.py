"""The hooks of the maintenance daemon and of the job filters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

from ganeti_steward.core import PROJECT

if TYPE_CHECKING:
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.plugins.model.filter_action import Facts, QueuedJob, Verdict
    from ganeti_steward.plugins.model.incident import Incident
    from ganeti_steward.plugins.model.task import Plan, RoutinePlan
    from ganeti_steward.plugins.model.world import World

hookspec = pluggy.HookspecMarker(PROJECT)


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
def steward_gate(world: World) -> str | None:
    """Return why no healthy node may be taken out for maintenance now.

    Called in each round in which a maintenance that was requested has not begun.

    :param world: the cluster, its nodes and instances, and all incidents, as they are now
    :return: one sentence; None: nothing speaks against it.  A failure of the plugin holds the
        maintenance
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
