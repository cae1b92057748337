"""A node of which nothing answers is noted as dead; what is done about it needs a proof.

Silence proves nothing: the network, or this node itself, may be cut off.  So one node at most is
noted, and where another node still has a DRBD connection to it, it runs.
"""

from __future__ import annotations

from typing import Final

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.model.cluster import Node
from ganeti_steward.core.model.finding import EVACUATE_FAILOVER
from ganeti_steward.plugins.maintenance.engine.copies import COPIED
from ganeti_steward.plugins.maintenance.engine.ledger import Ledger
from ganeti_steward.plugins.maintenance.engine.observed import new_incident, not_seen, seen
from ganeti_steward.plugins.maintenance.engine.transitions import Event
from ganeti_steward.plugins.model.incident import DEAD, Incident
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


def links(world: World, node: Node, since: int) -> tuple[list[str], list[str]]:
    """The peers of a node that have a DRBD connection to it, and those of which that is not known.

    ``since``: when it fell silent, ns; reports from before a peer has noticed that do not count.
    """
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
        found = world.observations.get(peer.uuid)
        if not isinstance(found, Reported) or found.linked is None or found.at < since + _NOTICED:
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


def _apply_known(ledger: Ledger, incident: Incident) -> None:
    """Note whether what an incident is about is still so."""
    node = ledger.world.nodes[incident.node]
    sign = sign_of_life(ledger.world, node)
    if incident.active and not (incident.state.begun or incident.open):
        # At once: it must not hold back what the node reports.
        linked, _ = links(ledger.world, node, incident.observed_since)
        if life := sign or (linked and _runs(node, linked)):
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
    linked, _ = links(ledger.world, node, since)
    what = f"nothing of {node.name} answers"
    if linked:
        ledger.hold(node.name, "silent", f"{what}, but {_runs(node, linked)}", since=since)
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


def _runs(node: Node, linked: list[str]) -> str:
    return f"{node.name} runs: DRBD is connected to it on {', '.join(linked)}"
