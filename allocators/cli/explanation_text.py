"""Explanations as text.

Unless more is wanted, lines fit `WIDTH` columns, and names of nodes lack their domain where
only one can be meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ganeti_steward.allocators.cli.texts import for_terminal
from ganeti_steward.allocators.state.names import short_names
from ganeti_steward.core.commands.tables import (
    WIDTH,
    Value,
    table,
    terminal_width,
    wrapped,
)
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.explanation import (
    Explained,
    Explanation,
    GroupVerdict,
    NodeVerdict,
    Place,
)
from ganeti_steward.core.model.site_rules import ROLES

#: As many nodes with the same verdict have a row each.
_SINGLE: Final = 3

#: Places that are shown without --verbose.
_PLACES: Final = 3

HEADINGS: Final = ("Node", "Role", "Verdict", "Reason")


class View(NamedTuple):
    """How much of an explanation is shown."""

    verbose: bool = False
    """a row for each node, full names, and all places with their components; wide in a pipe"""
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


def explanation_text(explanation: Explanation, view: View, info: str = "") -> str:
    """One instance: what it needs, what was chosen, the best places, and what is refused.

    ``info``: what is printed already.
    """
    names = {verdict.node for verdict in _all_verdicts(explanation)}
    short = {name: name for name in names} if view.verbose else short_names(names)
    lines = [
        f"Instance {explanation.instance}: {explanation.wanted}",
        *([] if explanation.chosen and _answer(explanation) in info else [_chosen(explanation)]),
        *([f"Cluster score before: {explanation.score_before:.8f}"] if view.verbose else []),
        *(f"Note: {note}" for note in explanation.notes),
    ]
    if view.verbose or view.nodes:
        groups = (_group(group, view, short) for group in explanation.groups)
    else:
        ordered = sorted(explanation.groups, key=lambda group: not _has_chosen(explanation, group))
        groups = (_short_group(explanation, group, short, info) for group in ordered)
    return "".join([*(_sentence(line, view) for line in lines), *groups])


def _chosen(one: Explanation) -> str:
    return f"Chosen: {'/'.join(one.chosen) or 'none'}"


def answer_line(explanations: Sequence[Explained]) -> str:
    """The place of the only instance, with its score; empty where there are several."""
    one = explanations[0] if len(explanations) == 1 else None
    if not isinstance(one, Explanation) or not one.chosen:
        return ""
    places = {place.nodes: place.score for group in one.groups for place in group.places}
    score = places.get(one.chosen)
    scores = "" if score is None else f", score {score:.8f} ({one.score_before:.8f} before)"
    return f"{_answer(one)}{scores}"


def _answer(one: Explanation) -> str:
    return f"{one.instance} on {'/'.join(one.chosen)}"


def _sentence(text: str, view: View) -> str:
    return for_terminal(text) if view.verbose else wrapped(text)


def _has_chosen(explanation: Explanation, group: GroupVerdict) -> bool:
    return any(place.nodes == explanation.chosen for place in group.places)


def _short_group(
    explanation: Explanation, group: GroupVerdict, short: Mapping[str, str], info: str
) -> str:
    """A group with its three best places and what is refused there."""
    # The first line of a refusal has the summaries of all groups.
    printed = group.summary in info
    text = "\n" + wrapped(
        f"Group {group.name} ({group.alloc_policy})" + ("" if printed else f": {group.summary}")
    )
    if group.places and (_has_chosen(explanation, group) or not explanation.chosen):
        text += _places(group.places[:_PLACES], short, WIDTH, components=False)
    refused = [verdict for verdict in group.nodes if verdict.rule]
    if refused:
        rows = list(_collapsed(refused, short))
        text += table(("Refused", "Role", "Verdict", "Reason"), rows, width=WIDTH)
    return text


def _group(group: GroupVerdict, view: View, short: Mapping[str, str]) -> str:
    """A group with the verdict on each node, or on those of ``view``, and with all places."""
    verdicts = [one for one in group.nodes if not view.nodes or one.node in view.nodes]
    if view.nodes and not verdicts:
        return ""
    summary = f"Group {group.name} ({group.alloc_policy}): {group.summary}"
    text = "\n" + _sentence(summary, view)
    width = terminal_width() if view.verbose else WIDTH
    if verdicts:
        text += table(HEADINGS, list(_rows(verdicts, short)), width=width)
    if group.places and not view.nodes:
        text += "\n" + _places(group.places, short, width)
    return text


#: Fields of verdicts on nodes -> headings.
VERDICTS: Final = {
    "instance": "Instance",
    "group": "Group",
    "node": "Node",
    "role": "Role",
    "verdict": "Verdict",
    "reason": "Reason",
}


def verdict_rows(
    explanations: Iterable[Explained], nodes: Sequence[str] = ()
) -> Iterator[dict[str, Value]]:
    """The verdict on each node, as `VERDICTS`; ``nodes``: only on these; empty: on all."""
    # A balance request has no verdicts on nodes.
    for one in (one for one in explanations if isinstance(one, Explanation)):
        for group in one.groups:
            names = {verdict.node: verdict.node for verdict in group.nodes}
            verdicts = [verdict for verdict in group.nodes if not nodes or verdict.node in nodes]
            for row in _rows(verdicts, names):
                yield dict(zip(VERDICTS, (one.instance, group.name, *row), strict=True))


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


def _places(
    places: Sequence[Place],
    short: Mapping[str, str],
    width: int | None,
    *,
    components: bool = True,
) -> str:
    """Places as columns, as many as fit, so that they can be compared; components as rows."""
    while True:
        text = _compared(places, short, components=components)
        if width is None or len(places) == 1 or max(map(len, text.splitlines())) <= width:
            break
        places = places[:-1]
    for number, place in enumerate(places, 1):
        if place.capacity:
            text += wrapped(f"#{number} fails the capacity test: {'; '.join(place.capacity)}")
    return text


def _compared(places: Sequence[Place], short: Mapping[str, str], *, components: bool) -> str:
    headings = ["Best places", *(f"#{number}" for number in range(1, len(places) + 1))]
    rows = [
        [role, *(short.get(place.nodes[at], place.nodes[at]) for place in places)]
        for at, role in enumerate(ROLES[: len(places[0].nodes)])
    ]
    rows += [["score", *(f"{place.score:.8f}" for place in places)]]
    if places[0].metric:
        rows.append(["lost,free disk", *(",".join(map(str, p.metric)) for p in places)])
    named = places[0].components if components else ()
    for name in sorted(named, key=lambda n: -places[0].components[n]):
        values = [place.components.get(name, 0.0) for place in places]
        if any(values):
            rows.append([f"  {name}", *(f"{value:.8f}" for value in values)])
    rows.append(["capacity", *("fails" if place.capacity else "passes" for place in places)])
    return table(headings, rows)
