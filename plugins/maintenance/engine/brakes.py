"""The brakes: each returns one sentence where it holds an incident, or its next task, back.

All that hold are reported, not only the first.  A cancel passes none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from ganeti_steward.core.model.cluster import Node
from ganeti_steward.core.model.finding import LIVE_REPAIR
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.engine.brake_case import (
    Brake,
    BrakeCase,
    RepairCase,
    after,
    braked,
    is_under_repair,
    takes_place,
)
from ganeti_steward.plugins.maintenance.engine.dead_nodes import sign_of_life
from ganeti_steward.plugins.maintenance.engine.planned_brakes import (
    apart,
    deadline,
    gate,
    handing_over,
    is_blocked,
    is_requested,
    maintenance_pause,
    not_polled,
    successor,
)
from ganeti_steward.plugins.maintenance.pause import pause_reason
from ganeti_steward.plugins.model.incident import DEAD, OPT_OUT_TAG, Incident
from ganeti_steward.plugins.model.task import (
    Held,
    Task,
)
from ganeti_steward.plugins.model.windows import is_open
from ganeti_steward.plugins.model.world import Reported, World

_SECOND: Final = 10**9

_Case = TypeVar("_Case")


def _opt_out(case: RepairCase) -> Held | None:
    node, group = case.node, case.world.groups.get(case.node.group)
    where = [f"node {node.name}"] if OPT_OUT_TAG in node.tags else []
    where += [f"node group {group.name}"] if group and OPT_OUT_TAG in group.tags else []
    if not where:
        return None
    return braked(case, "opt-out", f"{' and '.join(where)} has the tag {OPT_OUT_TAG}")


def _not_observed(case: RepairCase) -> Held | None:
    """Only what is reported now is begun: never on silence, never on an old report.

    A node that is off reports nothing; then the word of an admin about this incident counts.
    """
    if case.incident.state.begun or case.incident.maintenance:
        return None
    if case.incident.action == DEAD:
        return _answers_again(case)
    found = case.world.observations.get(case.incident.node)
    if isinstance(found, Reported):
        if found.object_id == case.incident.object_id:
            return None
        since, silent = case.incident.healthy_since, case.incident.silent_since is not None
        ends = after(since, case.config.healthy_delay) if since and not silent else 0
        sentence = f"node {case.node.name} reports {found.status} now"
        if ends:
            left = max(0, ends - case.world.now) // _SECOND
            sentence += f"; its incident is forgotten in {left} s"
        return braked(case, "not-reported", sentence, since=since or 0, until=ends)
    confirmed = case.incident.stopped_tag in case.node.tags and not case.incident.answered
    if case.evacuated and confirmed:
        return None
    why = found.why if found else "no report since the start"
    return braked(case, "silent", f"node {case.node.name} gives no valid report: {why}")


def _answers_again(case: RepairCase) -> Held | None:
    """A node that was dead for all that was known."""
    if case.incident.node not in case.world.observations:
        sentence = (
            f"whether {case.node.name} answers is not known: it was not polled since the start"
        )
        return braked(case, "silent", sentence)
    sign = sign_of_life(case.world, case.node)
    return braked(case, "not-reported", f"{sign} again") if sign else None


def _hold(case: RepairCase) -> Held | None:
    if case.incident.state.begun or case.incident.maintenance:
        return None
    if case.incident.action == DEAD:
        # That it is noted is known to others before anything is done.
        new = case.incident.first_seen == case.world.now
        return braked(case, "hold", "noted in this round") if new else None
    elapsed = (case.world.now - case.incident.observed_since) / _SECOND
    if elapsed >= case.config.hold_time:
        return None
    return braked(
        case,
        "hold",
        f"reported for {elapsed:.0f} s of the hold time of {case.config.hold_time:g} s",
        since=case.incident.observed_since,
        until=after(case.incident.observed_since, case.config.hold_time),
        elapsed=int(elapsed),
        limit=case.config.hold_time,
    )


def _master(case: RepairCase) -> Held | None:
    request = case.incident.maintenance
    if not case.node.master or case.incident.action == LIVE_REPAIR:
        return None
    if request and request.worked:
        return None  # it is only taken back
    found = successor(case.world, case.config, case.incident)
    if found.name:
        return None  # that one is made the master first
    there = (request and _next_master(case.world)) or "there"
    why = f"; {found.why}" if found.why else ""
    return braked(
        case,
        "master",
        f"node {case.node.name} is the master: it cannot be drained before another node is the "
        f"master (gnt-cluster master-failover {there}){why}",
    )


def _next_master(world: World) -> str:
    """Where the master may go now, with what else is about to be done; empty: to no node."""
    busy = {incident.node for incident in world.incidents.values() if incident.state.active}
    free = [
        node.name
        for node in world.cluster.nodes
        if node.master_candidate and node.live and node.usable and node.uuid not in busy
    ]
    return f"on {min(free)}, about which nothing is requested" if free else ""


def _most_nodes(case: RepairCase) -> Held | None:
    others = {
        incident.node_name
        for incident in case.world.incidents.values()
        if incident.node != case.incident.node
        and is_under_repair(incident)
        and takes_place(case, incident)
    }
    # The place of a maintenance of the same node is none for its repair.
    own = any(
        incident.node == case.incident.node
        and is_under_repair(incident)
        and takes_place(case, incident)
        for incident in case.world.incidents.values()
    )
    others |= _of_deleted(case.world)
    request = case.incident.maintenance
    wanted = request.at_once if request else 0
    limit = min(case.config.most_nodes, wanted or case.config.most_nodes)
    if own or len(others) < limit:
        return None
    or_away = " or away for maintenance" if request else ""
    return braked(
        case,
        "most-nodes",
        f"{len(others)} of at most {limit} nodes are under repair{or_away}: "
        f"{', '.join(sorted(others))}",
        nodes=len(others),
        limit=limit,
    )


def _of_deleted(world: World) -> set[str]:
    """The nodes whose repairs go on though their records were deleted: by the incidents."""
    gone = {one.incident for one in world.orphans} - {*world.incidents}
    return {f"the node of incident {uuid}, which has no record" for uuid in gone}


def storm(case: BrakeCase) -> Held | None:
    """Too many nodes report a fault at the same time, of those about which nothing is known yet."""
    world = case.world
    # Mostly no node is; what is known about nodes takes longer to find out.
    if sum(_is_ill(world, one) or _fell_silent(world, one) for one in world.cluster.nodes) <= 1:
        return None
    nodes = _unjudged(world)
    reporting = sum(_is_ill(world, node) for node in nodes)
    silent = sum(_fell_silent(world, node) for node in nodes)
    ill = reporting + silent
    if ill <= 1 or ill <= case.config.storm_share * len(nodes):
        return None
    before = f" ({silent} of them before they fell silent)" if silent else ""
    return braked(
        case,
        "storm",
        f"{ill} of {len(nodes)} nodes in service report a fault{before}, more than the share of "
        f"{case.config.storm_share:g}",
        ill=ill,
        nodes=len(nodes),
        limit=case.config.storm_share,
    )


def _is_ill(world: World, node: Node) -> bool:
    found = world.observations.get(node.uuid)
    return isinstance(found, Reported) and found.needs_repair


def _fell_silent(world: World, node: Node) -> bool:
    """Whether it has reported a fault that is being dealt with, and reports nothing now.

    Otherwise a storm would end because it gets worse.
    """
    if isinstance(world.observations.get(node.uuid), Reported):
        return False
    return any(
        one.node == node.uuid and one.active and not one.maintenance and one.action != DEAD
        for one in world.incidents.values()
    )


def _unjudged(world: World) -> list[Node]:
    """All nodes without those that are out of service or excluded, and those whose fault a person
    knows of or was evacuated for."""
    known = {
        (incident.node, incident.object_id)
        for incident in world.incidents.values()
        if incident.state.handled or waiting(incident, world)
    }
    return [
        node
        for node in world.cluster.nodes
        if not (node.offline or OPT_OUT_TAG in node.tags or _group_is_excluded(world, node))
        and (node.uuid, _object_id(world, node)) not in known
    ]


def _group_is_excluded(world: World, node: Node) -> bool:
    return node.group in world.groups and OPT_OUT_TAG in world.groups[node.group].tags


def _object_id(world: World, node: Node) -> str:
    found = world.observations.get(node.uuid)
    return found.object_id if isinstance(found, Reported) else ""


def waiting(incident: Incident, world: World) -> set[str]:
    """Names of nodes that it took out of service until a person acknowledges its result."""
    if not incident.state.result:
        return set()
    out = {node.name for node in world.cluster.nodes if node.offline or node.drained}
    return out.intersection(incident.demoted)


def pause(case: BrakeCase) -> Held | None:
    """An admin has paused the daemon."""
    reason = pause_reason(case.world.cluster_tags)
    return None if reason is None else braked(case, "pause", f"maintenance is paused: {reason}")


def window(case: BrakeCase) -> Held | None:
    """It is outside the maintenance windows; instances of a dead node are down until then."""
    if isinstance(case, RepairCase) and case.incident.action == DEAD:
        return None
    local = datetime.fromtimestamp(case.world.now // _SECOND, UTC) + timedelta(
        seconds=case.utc_offset
    )
    if is_open(case.config.windows, local.replace(tzinfo=None)):
        return None
    return braked(
        case,
        "window",
        f"{local:%a %H:%M} is in none of the maintenance windows: {', '.join(case.config.windows)}",
    )


def _command_not_reported(case: RepairCase) -> Held | None:
    """A record alone has no command run: everybody who may write job filters could write it."""
    if not (isinstance(case.next, Task) and case.next.command):
        return None
    if case.incident.maintenance:
        return None  # only who has the cluster's key can request it
    found = case.world.observations.get(case.incident.node)
    if isinstance(found, Reported) and found.object_id == case.incident.object_id:
        return None
    return braked(
        case,
        "not-reported",
        f"node {case.node.name} does not report now what requests the command {case.next.command}",
    )


def _repeated(case: RepairCase) -> Held | None:
    """A command that was run is not run again because its record was deleted, or its report flips.

    The agent has a limit of its own; this one also counts for nodes whose agent has none.
    """
    if not (isinstance(case.next, Task) and case.next.command):
        return None
    elapsed = (case.world.now - _commanded(case)) / _SECOND
    limit = case.config.command_again_after
    if not 0 <= elapsed < limit:
        return None
    return braked(
        case,
        "repeated",
        f"the command {case.next.command} was begun on node {case.node.name} for the same object "
        f"{elapsed:.0f} s ago: it is not begun again for another {limit - elapsed:.0f} s",
        until=after(_commanded(case), limit),
        left=int(limit - elapsed),
    )


def _commanded(case: RepairCase) -> int:
    """When the command was begun last, or ended well for another incident of the same object."""
    own = case.incident
    ended = (
        incident.changed
        for incident in case.world.incidents.values()
        if (incident.node, incident.object_id) == (own.node, own.object_id)
        and incident.state.succeeded
    )
    return max([case.commanded, *ended])


def observe(case: BrakeCase) -> Held | None:
    """The daemon only says what it would do."""
    if case.acts:
        return None
    would = f", it would: {case.next.reason}" if case.next else ""
    return braked(case, "observe", f"the mode is observe{would}")


#: Judged before an incident is planned; where one holds it is not planned, which takes time.
BEFORE_PLAN: Final[tuple[Brake, ...]] = (
    _opt_out,
    _not_observed,
    _hold,
    _master,
    _most_nodes,
    gate,
    apart,
    storm,
    deadline,
)
#: Judged for what was planned.
AFTER_PLAN: Final[tuple[Brake, ...]] = (
    pause,
    maintenance_pause,
    window,
    not_polled,
    handing_over,
    _command_not_reported,
    _repeated,
    observe,
)


def _canceled(case: RepairCase) -> Held | None:
    """A person has canceled it since the round began."""
    if case.incident.cancel_tag not in case.node.tags:
        return None
    return braked(case, "canceled", f"tag {case.incident.cancel_tag} was set")


#: Those of them that people say by tags, which are read again before a task is handed over.
WORDS: Final[tuple[Brake, ...]] = (_opt_out, _canceled, pause, maintenance_pause)


def unverified(case: RepairCase) -> Held | None:
    """No maintenance begins in a round in which the disks of the cluster were not verified.

    That is done in a round at whose beginning nothing else holds it.
    """
    if not is_requested(case.incident) or case.world.unclean is not None:
        return None
    if holding(AFTER_PLAN, case):
        return None
    next_round = "gnt-cluster verify-disks is run in the next round"
    return braked(case, "gate", f"the maintenance of {case.node.name} waits: {next_round}")


#: Those of them that hold back the opening of a volume after the operator's word.
FOR_OPENING: Final[tuple[Brake, ...]] = (_opt_out, pause, window, handing_over, observe)
#: Those of them that hold back the tags of results as well.
FOR_TAGS: Final[tuple[Brake, ...]] = (pause, handing_over, observe)


def may_begin(world: World, config: Maintd, utc_offset: int, only: str = "") -> bool:
    """Whether nothing known holds a maintenance that was requested.

    ``utc_offset``: s; ``only``: see `Inputs`.
    """
    cases = (
        RepairCase(
            incident=one, node=node, world=world, config=config, utc_offset=utc_offset, only=only
        )
        for one in world.incidents.values()
        if is_requested(one) and not is_blocked(one) and (node := world.nodes.get(one.node))
    )
    return any(not holding((*BEFORE_PLAN, *AFTER_PLAN), case) for case in cases)


def holding(brakes: Iterable[Callable[[_Case], Held | None]], case: _Case) -> list[Held]:
    """What holds this case back."""
    return [held for brake in brakes if (held := brake(case))]
