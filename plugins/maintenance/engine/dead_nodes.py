"""A node of which nothing answers is noted as dead; what is done about it needs a proof.

Silence proves nothing: the network, or this node itself, may be cut off.  So one node at most is
noted, and where another node has a DRBD connection to it, or reaches its machine, it runs.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.model.cluster import Node
from ganeti_steward.core.model.finding import EVACUATE_FAILOVER
from ganeti_steward.plugins.maintenance.config import FENCE_CONFIRM
from ganeti_steward.plugins.maintenance.engine.brake_case import (
    BrakeCase,
    RepairCase,
    braked,
    held_task,
)
from ganeti_steward.plugins.maintenance.engine.copies import COPIED
from ganeti_steward.plugins.maintenance.engine.ledger import Ledger
from ganeti_steward.plugins.maintenance.engine.observed import new_incident, not_seen, seen
from ganeti_steward.plugins.maintenance.engine.transitions import Event
from ganeti_steward.plugins.model.debts import BRING_UP_TAG
from ganeti_steward.plugins.model.incident import DEAD, Incident
from ganeti_steward.plugins.model.task import Held
from ganeti_steward.plugins.model.world import Refused, Reported, Silent, World

_SECOND: Final = 10**9
#: ns after which a report was certainly made when DRBD had noticed that its peer is gone: it pings
#: each ten seconds, and the clock of the node that reports may be 150 s ahead.
_NOTICED: Final = (60 + 150) * _SECOND

#: What stands in the place of a diagnose object.
_OBJECT: Final = canonical({"status": DEAD, "details": "nothing of the node answers"})


def silent_nodes(world: World) -> list[Node]:
    """The nodes of which nothing answers: neither Ganeti's node daemon nor the machine itself."""
    return [
        node
        for node in world.cluster.nodes
        if node.vm_capable and not node.offline and node.silent and _is_gone(world, node)
    ]


def _is_gone(world: World, node: Node) -> bool:
    found = world.observations.get(node.uuid)
    return isinstance(found, Silent) and found.gone


def sign_of_life(world: World, node: Node) -> str:
    """What of a node answers, in words; empty: nothing does."""
    found = world.observations.get(node.uuid)
    if isinstance(found, Reported | Refused):
        return f"the agent of {node.name} answers"
    if found is not None and not found.gone:
        return f"the machine of {node.name} answers"
    return f"the node daemon of {node.name} answers" if world.answers(node.name) else ""


class Witnesses(NamedTuple):
    """What other nodes have reported of a silent node since it is; names of nodes, sorted."""

    linked: list[str]
    """its peers with a DRBD connection to it"""
    unknown: list[str]
    """its peers of which that is not known"""
    reaching: list[str]
    """the master candidates that its machine has answered"""
    cut_off: list[str]
    """those that it has not answered, the master among them"""
    unheard: list[str]
    """those of which that is not known"""

    def life(self, node: Node) -> str:
        """What shows that the node runs, in words; empty: nothing does."""
        if self.linked:
            return f"{node.name} runs: DRBD is connected to it on {', '.join(self.linked)}"
        if self.reaching:
            return f"{node.name} runs: its machine answers {', '.join(self.reaching)}"
        return ""

    @property
    def majority(self) -> bool:
        """Whether more than half of the other master candidates are known not to reach it."""
        return len(self.cut_off) > len(self.unheard) + len(self.reaching)


def witnesses(world: World, node: Node, since: int) -> Witnesses:
    """``since``: when the node fell silent, ns; what was reported earlier, or before DRBD notices,
    does not count."""
    linked, unknown = _links(world, node, since)
    reaching, cut_off, unheard = list[str](), list[str](), list[str]()
    for one in world.cluster.nodes:
        if one.name == node.name or one.offline or not (one.master or one.master_candidate):
            continue
        report = _since(world, one, since)
        if one.master:
            # From here nothing of the node answers.
            cut_off.append(one.name)
        elif report is None or report.unreached is None:
            unheard.append(one.name)
        else:
            (cut_off if node.primary_ip in report.unreached else reaching).append(one.name)
    return Witnesses(linked, unknown, sorted(reaching), sorted(cut_off), sorted(unheard))


def _since(world: World, node: Node, silent_since: int) -> Reported | None:
    """What a node has reported late enough after another one fell silent."""
    found = world.observations.get(node.uuid)
    return found if isinstance(found, Reported) and found.at >= silent_since + _NOTICED else None


def _links(world: World, node: Node, since: int) -> tuple[list[str], list[str]]:
    """The peers with a DRBD connection to a node, and those of which that is not known."""
    peers = {
        peer
        for one in world.instances_on(node.name)
        if one.template in COPIED
        for peer in one.nodes
        if peer != node.name
    }
    linked, unknown = list[str](), list[str]()
    for name in sorted(peers):
        peer = world.node(name)
        if peer is None or peer.offline:
            continue
        found = _since(world, peer, since)
        if found is None or found.linked is None:
            unknown.append(name)
        elif {node.primary_ip, node.secondary_ip} & {*found.linked} - {""}:
            linked.append(name)
    return linked, unknown


def apply_silence(ledger: Ledger) -> None:
    """Note a node that is dead for all that is known, and which one is so no more."""
    silent, before = silent_nodes(ledger.world), ledger.inputs.recent.unanswered
    ledger.unanswered = {
        node.uuid: min(before.get(node.uuid, ledger.now), ledger.now) for node in silent
    }
    for incident in ledger.all(lambda one: one.action == DEAD):
        _apply_known(ledger, incident)
    if ledger.config.dead_after:
        for node in silent:
            if not _is_known(ledger, node):
                _suspect(ledger, node, silent)
        _explain_answering(ledger)


def _explain_answering(ledger: Ledger) -> None:
    """Report why nodes without an incident are not dead: their machine answers."""
    known = {incident.node for incident in ledger.incidents.values()}
    for node in ledger.world.cluster.nodes:
        found = ledger.world.observations.get(node.uuid)
        if not (node.silent and node.vm_capable and not node.offline) or node.uuid in known:
            continue
        if isinstance(found, Silent) and not found.gone:
            sentence = (
                f"neither node daemon nor agent of {node.name} answers, but its machine does: "
                "it is not dead"
            )
            ledger.hold(node.name, "silent", sentence, since=found.since)


def _apply_known(ledger: Ledger, incident: Incident) -> None:
    """Note whether what an incident is about is still so."""
    node = ledger.world.nodes[incident.node]
    sign = sign_of_life(ledger.world, node)
    if incident.active and not (incident.state.begun or incident.open):
        # At once: it must not hold back what the node reports.
        others = witnesses(ledger.world, node, incident.observed_since)
        if life := sign or others.life(node):
            ledger.happen(incident.uuid, Event.HEALTHY, life)
    elif sign:
        not_seen(ledger, incident, f"{sign} again")
    elif incident.active and incident.node in ledger.unanswered:
        seen(ledger, incident)


def _is_known(ledger: Ledger, node: Node) -> bool:
    """Whether an incident of the node explains its silence, or is about it."""
    return any(
        # It may have answered since one ended, and be dead again.
        (one.action == DEAD and (one.active or one.healthy_since is None))
        or (one.action == EVACUATE_FAILOVER and (one.active or one.state.result))
        or (one.maintenance and (one.state.under_repair or one.state.result))
        for one in ledger.incidents.values()
        if one.node == node.uuid
    )


def _suspect(ledger: Ledger, node: Node, silent: list[Node]) -> None:
    """Note the node as dead, or report why not."""
    since, limit = ledger.unanswered[node.uuid], ledger.config.dead_after
    until = since + int(limit * _SECOND)
    life = witnesses(ledger.world, node, since).life(node)
    what = f"nothing of {node.name} answers"
    if BRING_UP_TAG in node.tags:
        sentence = f"{what}: it was shut down, and gnt-steward maintenance bring-up takes it back"
        ledger.hold(node.name, "silent", sentence, since=since)
    elif life:
        ledger.hold(node.name, "silent", f"{what}, but {life}", since=since)
    elif len(silent) > 1:
        names = ", ".join(one.name for one in silent)
        sentence = f"nothing of {names} answers: this node or a network may be cut off"
        ledger.hold(node.name, "storm", sentence, since=since)
    elif ledger.now < until:
        sentence = f"{what}: after {limit:g} s of that it is noted as dead"
        ledger.hold(node.name, "silent", sentence, since=since, until=until)
    else:
        incident = new_incident(node, _OBJECT, DEAD, what, ledger.now)
        ledger.add(incident._replace(observed_since=since), what)


def unproven(case: BrakeCase) -> Held | None:
    """A node is not switched off because it is silent while anything else may be the cause."""
    if not isinstance(case, RepairCase) or case.incident.action != DEAD:
        return None
    if case.node.name not in case.effects.powered:
        return None
    if silent := {node.name for node in silent_nodes(case.world)} - {case.node.name}:
        names = ", ".join(sorted(silent))
        sentence = f"{names} answers nothing either: this node or a network may be cut off"
        return braked(case, "storm", f"{sentence}; {held_task(case)}")
    others = witnesses(case.world, case.node, case.incident.observed_since)
    if sentence := others.life(case.node) or _not_known(case.node, others):
        return braked(case, "silent", f"{sentence}; {held_task(case)}")
    return None


def _not_known(node: Node, others: Witnesses) -> str:
    """Which reports are missing that could show that a silent node runs; empty: none."""
    if others.unknown:
        names = ", ".join(others.unknown)
        what = f"whether DRBD is connected to {node.name} on {names} is not known"
        return f"{what}: no report that says so was made since it fell silent"
    if others.majority:
        return ""
    number = len(others.cut_off) + len(others.unheard)
    return (
        f"only {len(others.cut_off)} of {number} other master candidates report that they do not "
        f"reach {node.name}: there is no report about it from {', '.join(others.unheard)} since it "
        "fell silent"
    )


def not_permitted(case: BrakeCase) -> Held | None:
    """With ``fence = "confirm"`` a person permits that a node is switched off."""
    if not isinstance(case, RepairCase) or case.incident.maintenance:
        return None
    if case.config.fence != FENCE_CONFIRM or case.node.name not in case.effects.powered:
        return None
    if case.incident.fence_tag in case.node.tags:
        return None
    how = f"gnt-steward incident fence {case.incident.uuid}"
    return braked(case, "fence", f"{how} permits it, or a person does it; {held_task(case)}")
