"""An explanation as text: what was chosen, what speaks against each node, the best places.

Unless more is wanted, lines fit `WIDTH` columns, and names of nodes lack their domain where only
one can be meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ganeti_steward.core.commands.tables import WIDTH, table, wrapped
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.explanation import (
    Explained,
    Explanation,
    GroupVerdict,
    NodeVerdict,
    Place,
)
from ganeti_steward.core.model.names import short_names
from ganeti_steward.core.model.site_rules import ROLES

#: As many nodes with the same verdict have a row each.
_SINGLE: Final = 3


class View(NamedTuple):
    """How much of an explanation is shown."""

    verbose: bool = False
    """a row for each node, full names, and all places, whatever their width"""
    nodes: tuple[str, ...] = ()
    """only the verdicts on these nodes, by full name; empty: all"""


def seen_nodes(given: Iterable[str], explanations: Iterable[Explained]) -> tuple[str, ...]:
    """Full names of nodes of these explanations; raises StewardError for others."""
    known = {verdict.node for one in explanations for verdict in _all_verdicts(one)}
    found: list[str] = []
    for name in given:
        matches = [name] if name in known else [n for n in known if n.startswith(f"{name}.")]
        if len(matches) != 1:
            many = "more than one node is" if matches else "no node of this request is"
            raise StewardError(f"{many} named {quoted(name)}")
        found += matches
    return tuple(found)


def _all_verdicts(one: Explained) -> Iterator[NodeVerdict]:
    for group in one.groups if isinstance(one, Explanation) else ():
        yield from group.nodes


def explanation_text(explanation: Explanation, view: View) -> str:
    """One instance: what it needs, what was chosen, and each group."""
    names = {verdict.node for verdict in _all_verdicts(explanation)}
    short = {name: name for name in names} if view.verbose else short_names(names)
    lines = [
        f"Instance {explanation.instance}: {explanation.wanted}",
        f"Chosen: {'/'.join(explanation.chosen) or 'none'}",
        f"Cluster score before: {explanation.score_before:.8f}",
        *(f"Note: {note}" for note in explanation.notes),
    ]
    groups = (_group(group, view, short) for group in explanation.groups)
    return "".join([*(_sentence(line, view) for line in lines), *groups])


def _sentence(text: str, view: View) -> str:
    return f"{text}\n" if view.verbose else wrapped(text)


def _group(group: GroupVerdict, view: View, short: Mapping[str, str]) -> str:
    verdicts = [one for one in group.nodes if not view.nodes or one.node in view.nodes]
    if view.nodes and not verdicts:
        return ""
    summary = f"Group {group.name} ({group.alloc_policy}): {group.summary}"
    text = "\n" + _sentence(summary, view)
    width = None if view.verbose else WIDTH
    if verdicts:
        every = view.verbose or bool(view.nodes)
        rows = list(_rows(verdicts, short) if every else _collapsed(verdicts, short))
        text += table(("Node", "Role", "Verdict", "Reason"), rows, width=width)
    if group.places and not view.nodes:
        text += "\n" + _places(group.places, short, width)
    return text


def _rows(verdicts: Iterable[NodeVerdict], short: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    for verdict in verdicts:
        yield short[verdict.node], _role(verdict, short), verdict.rule or "fits", verdict.reason


def _role(verdict: NodeVerdict, short: Mapping[str, str]) -> str:
    beside = short.get(verdict.primary, verdict.primary)
    return verdict.role + (f" of {beside}" if beside else "")


def _collapsed(
    verdicts: Iterable[NodeVerdict], short: Mapping[str, str]
) -> Iterator[tuple[str, ...]]:
    """The same with one row for many nodes that have one verdict."""
    alike: dict[tuple[str, str], list[NodeVerdict]] = {}
    for verdict in verdicts:
        alike.setdefault((verdict.role, verdict.rule), []).append(verdict)
    for (_, rule), same in alike.items():
        if len(same) <= _SINGLE:
            yield from _rows(same, short)
            continue
        reasons = {verdict.reason for verdict in same}
        example = f"e.g. {short[same[0].node]}: " if len(reasons) > 1 else ""
        number = f"{len(same)} nodes"
        yield number, _role(same[0], short), rule or "fit", f"{example}{same[0].reason}"


def _places(places: Sequence[Place], short: Mapping[str, str], width: int | None) -> str:
    """Components as rows, places as columns, as many as fit, so that they can be compared."""
    while True:
        text = _compared(places, short)
        if width is None or len(places) == 1 or max(map(len, text.splitlines())) <= width:
            break
        places = places[:-1]
    for number, place in enumerate(places, 1):
        if place.capacity:
            text += wrapped(f"#{number} fails the capacity test: {'; '.join(place.capacity)}")
    return text


def _compared(places: Sequence[Place], short: Mapping[str, str]) -> str:
    headings = ["Best places", *(f"#{number}" for number in range(1, len(places) + 1))]
    rows = [
        [role, *(short.get(place.nodes[at], place.nodes[at]) for place in places)]
        for at, role in enumerate(ROLES[: len(places[0].nodes)])
    ]
    rows += [["score", *(f"{place.score:.8f}" for place in places)]]
    if places[0].metric:
        rows.append(["lost,free disk", *(",".join(map(str, p.metric)) for p in places)])
    for name in sorted(places[0].components, key=lambda n: -places[0].components[n]):
        values = [place.components[name] for place in places]
        if any(values):
            rows.append([f"  {name}", *(f"{value:.8f}" for value in values)])
    rows.append(["capacity", *("fails" if place.capacity else "passes" for place in places)])
    return table(headings, rows)
