"""The first line of the page: fine, or what to look at; each part with what it is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ganeti_steward.allocators.overview.amounts import FAILS_N1
from ganeti_steward.core.errors import few
from ganeti_steward.core.model.finding import SUSPECT
from ganeti_steward.plugins.maintenance.edges.status import Status, observation_word
from ganeti_steward.plugins.model.incident import BAD, DEAD, READY_TAG, WARN

#: Names that are listed; of the others only the number is.
_LISTED: Final = 5

#: Brakes that hold until an admin does something.
_ALARMING: Final = ("storm", "fence", "record", "configuration", "submit", "reporting", "candidate")


class Trouble(NamedTuple):
    """One thing to look at."""

    look: str
    """`BAD` or `WARN`"""
    text: str
    section: str = ""
    """the id of the part of the page that has more about it; empty: none has"""


class Verdict(NamedTuple):
    """The whole line."""

    look: str
    """`BAD`, `WARN` or ``good``; empty as long as nothing is known"""
    word: str
    troubles: tuple[Trouble, ...]
    """the worst first"""
    facts: str = ""
    """what is known to be fine; empty where there are troubles"""


def verdict(status: Status, fault: str) -> Verdict:
    """``fault``: why the daemon does not count as healthy; empty when it does."""
    found = tuple(sorted(_troubles(status, fault), key=lambda one: one.look != BAD))
    if found:
        return Verdict(found[0].look, "Look here", found)
    if status.incidents is None:
        return Verdict("", "Not known yet", (), "the cluster has not been read")
    return Verdict("good", "Fine", (), ", ".join(_facts(status)))


def failing(status: Status) -> list[str]:
    """Names of the nodes that fail N+1."""
    nodes = (node for group in status.overview for node in group.nodes)
    return [node.name for node in nodes if FAILS_N1 in node.notes]


def degraded(status: Status) -> str:
    """The degraded disks in a few words; those of few instances are checked."""
    figures = status.figures
    return (
        f"{len(figures.degraded)} of {figures.checked} checked"
        if figures.checked
        else ("not checked")
    )


def _troubles(status: Status, fault: str) -> Iterator[Trouble]:
    if fault:
        yield Trouble(BAD, "the daemon is not healthy", "rounds")
    figures = status.figures
    text = "instance that should run is down", "instances that should run are down"
    yield from _named(BAD, figures.down, text)
    yield from _of_incidents(status)
    yield from _of_nodes(status)
    text = "instance has degraded disks", "instances have degraded disks"
    yield from _named(WARN, figures.degraded, text)
    held = Counter(one.brake for one in status.held if one.brake in _ALARMING)
    yield from (Trouble(WARN, f"{brake} holds {number}", "next") for brake, number in held.items())


def _of_incidents(status: Status) -> Iterator[Trouble]:
    incidents, section = status.incidents or (), "incidents"
    failed = [one.node_name for one in incidents if one.state.look == BAD]
    yield from _named(BAD, failed, ("repair has failed", "repairs have failed"), section)
    dead = [one.node_name for one in incidents if one.active and one.action == DEAD]
    yield from _named(BAD, dead, ("node is dead", "nodes are dead"), section)
    active = [one.node_name for one in incidents if one.active and one.action != DEAD]
    yield from _named(WARN, active, ("incident is open", "incidents are open"), section)
    # One that was acknowledged has no result any more.
    over = [one.node_name for one in incidents if one.state.result == READY_TAG]
    text = (
        "repair has ended and must be acknowledged",
        "repairs have ended and must be acknowledged",
    )
    yield from _named(WARN, over, text, section)


def _of_nodes(status: Status) -> Iterator[Trouble]:
    incidents = {one.node for one in status.incidents or ()}
    names: dict[str, list[str]] = {"ill": [], "silent": [], "refused": []}
    for uuid, name in status.nodes.items():
        word = observation_word(status.poll.observations.get(uuid))
        if word in names and not (word == "ill" and uuid in incidents):
            names[word].append(name)
    text = "node reports a fault without an incident", "nodes report a fault without an incident"
    yield from _named(WARN, names["ill"], text, "nodes")
    text = "node agent is silent", "node agents are silent"
    yield from _named(WARN, names["silent"], text, "nodes")
    text = "report of a node is refused", "reports of nodes are refused"
    yield from _named(WARN, names["refused"], text, "nodes")
    yield from _named(WARN, failing(status), ("node fails N+1", "nodes fail N+1"), "nodes")


def _named(
    look: str, names: Iterable[str], text: tuple[str, str], section: str = ""
) -> Iterator[Trouble]:
    """``text``: of one, and of several."""
    found = sorted(names)
    if found:
        what = f"{len(found)} {text[len(found) > 1]}: {few(found, _LISTED)}"
        yield Trouble(look, what, section)


def _facts(status: Status) -> Iterator[str]:
    """Only what has been looked at."""
    yield "no incident is open"
    seen = {
        name: observation_word(status.poll.observations.get(uuid))
        for uuid, name in status.nodes.items()
    }
    number = sum(word == "healthy" for word in seen.values())
    yield f"{number} of {len(seen)} node agents report a healthy node"
    if suspects := sorted(name for name, word in seen.items() if word == SUSPECT):
        yield f"suspect: {few(suspects, _LISTED)}"
    if status.overview:
        yield "no instance is down"
        yield "no node fails N+1"
    checked = status.figures.checked
    yield f"the disks of {checked} instances are in order" if checked else "disks are not checked"
