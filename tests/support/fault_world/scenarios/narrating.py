"""The narrative of a scenario: that of histories, and the ends of jobs and incidents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from fault_world.checks import Checks
from ganeti_steward.core.model.finding import OK, SUSPECT
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.model.world import Observation, Refused, Reported

if TYPE_CHECKING:
    from fault_world.daemon import Daemon
    from fault_world.world import World

Row = dict[str, Any]

_UUID: Final = re.compile(r"\b([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{8}\b")
#: The time at the begin of a line, and the time of day in a sentence.
_AT: Final = re.compile(r"^ *[0-9.]+ ")
_NOW: Final = re.compile(r"\b[A-Z][a-z]{2} [0-9]{2}:[0-9]{2} is in none")


class NarratingChecks(Checks):
    """The checks, which also narrate why jobs fail and how incidents end."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._shown: set[int] = set()
        """numbers of jobs whose end was shown"""
        self._notes: dict[str, str] = {}
        """uuid of an incident -> its note"""
        self._fault = ""
        self._seen: dict[str, str] = {}
        """name of a node -> what its last poll showed"""

    def round(self, daemon: Daemon, outcome: Round) -> None:
        for number, row in sorted(self._world.luxid.queue.rows.items()):
            if row["status"] in ("error", "canceled") and number not in self._shown:
                self._shown.add(number)
                self._world.narrate(f"job {number}: {row['status']}{_why(row)}")
        self._show_observations(outcome)
        super().round(daemon, outcome)
        self._show_notes(outcome)
        fault = outcome.fault or outcome.undecided or outcome.lost
        if fault and fault != self._fault:
            self._world.narrate(f"round without effect: {fault}")
        self._fault = fault

    def _show_observations(self, outcome: Round) -> None:
        if outcome.world is None:
            return
        for node in outcome.world.cluster.nodes:
            found = outcome.world.observations.get(node.uuid)
            if found is None:
                continue
            words = _observation(found)
            if words != self._seen.get(node.name, "healthy"):
                self._world.narrate(f"{node.name} is {words}")
            self._seen[node.name] = words

    def _show_notes(self, outcome: Round) -> None:
        for uuid, incident in sorted(outcome.incidents.items()):
            if incident.note and self._notes.get(uuid) != incident.note and not incident.active:
                self._world.narrate(f"note {uuid}: {incident.note}")
            self._notes[uuid] = incident.note


def _observation(found: Observation) -> str:
    """What a poll showed, in the words of the operator's guide."""
    if isinstance(found, Reported):
        words = {OK: "healthy", SUSPECT: SUSPECT}
        return words.get(found.status, f"ill: {found.status}")
    word = "refused" if isinstance(found, Refused) else "silent"
    return f"{word}: {re.sub('[0-9]+ s', '... s', found.why)}"


def _why(row: Row) -> str:
    """What a failed job says."""
    for result in row["opresult"]:
        if isinstance(result, list) and len(result) == 2 and isinstance(result[1], list):
            return f", {result[1][0]}"
    return ""


def state_at_end(world: World, *, candidates: bool) -> Iterator[str]:
    """Incidents, nodes and instances when a scenario is over.

    ``candidates``: whether it names those that are master candidates.
    """
    yield "at the end"
    for uuid, incident in sorted(
        world.checks.incidents.items(), key=lambda item: (item[1].first_seen, item[1].node_name)
    ):
        yield f"  incident {uuid} of {incident.node_name}: {_state(incident)}"
    for row in world.ganeti.nodes:
        words = [word for word in ("drained", "offline") if row[word]] or ["in service"]
        words += ["without power"] if row["name"] in world.ganeti.off else []
        words += ["master"] if row["master"] else []
        shown = candidates and row["master_candidate"] and not row["master"]
        words += ["candidate"] if shown else []
        words += [f"tag {tag}" for tag in row["tags"]]
        yield f"  {row['name']}: {', '.join(words)}"
    for row in world.ganeti.instances:
        yield f"  {row['name']}: {_place(world, row)}"


def _state(incident: Any) -> str:
    return "acknowledged" if incident.acknowledged else str(incident.status)


def _place(world: World, row: Row) -> str:
    name = row["name"]
    runs = sorted(world.ganeti.runs[name])
    words = [f"runs on {', '.join(runs)}" if runs else "does not run"]
    words += [] if row["pnode"] in runs or row["admin_state"] != "up" else ["should"]
    data = world.ganeti.data[name]
    copies = [
        f"{node}{'' if node in data.whole else ' (old)'}"
        for node in (row["pnode"], *row["snodes"])
        if node in data.copies
    ]
    return "; ".join([" but ".join(words), *([f"disks on {', '.join(copies)}"] if copies else [])])


def readable(lines: Sequence[str], names: dict[str, str]) -> tuple[str, ...]:
    """The narrative with numbers in the place of uuids; ``names``: begin of a uuid -> name."""
    known = dict(names)
    numbers = 0

    def named(match: re.Match[str]) -> str:
        nonlocal numbers
        key = match[0][:8]
        if key not in known:
            numbers += 1
            known[key] = f"#{numbers}"
        return known[key]

    found: list[str] = []
    for line in lines:
        text = _NOW.sub("now is in none", _UUID.sub(named, line))
        if not found or _AT.sub("", text) != _AT.sub("", found[-1]):
            found.append(text)
    return tuple(found)
