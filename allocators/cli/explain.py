"""``gnt-steward explain``: why a request is answered the way it is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import orjson

from ganeti_steward.allocators.cli.allocator_options import add_passed_options
from ganeti_steward.allocators.cli.plan_text import group_text
from ganeti_steward.core.builtins import ALLOCATION
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.tables import table
from ganeti_steward.core.errors import EXIT_OK
from ganeti_steward.core.ganeti.sources import read_file
from ganeti_steward.core.iallocator import history
from ganeti_steward.core.iallocator.dispatch import answer_message
from ganeti_steward.core.model.answer import Answer, Outcome
from ganeti_steward.core.model.explanation import (
    Explained,
    Explanation,
    GroupVerdict,
    NodeVerdict,
    Place,
)
from ganeti_steward.core.model.options import parse_options
from ganeti_steward.core.model.site_rules import ROLES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("file", nargs="?", help="an iallocator message, '-' for standard input")
    which.add_argument("--last", action="store_true", help="the last request Ganeti made")
    which.add_argument(
        "--kept", metavar="NAME", help="a kept request, see gnt-steward replay --list"
    )
    parser.add_argument("--json", action="store_true", help="the same as data")
    add_passed_options(parser)


def run(options: argparse.Namespace) -> int:
    """Answer the request again and print the whole explanation."""
    config = configuration(ALLOCATION)
    arguments: Sequence[str] = options.option
    if options.file:
        raw = read_file(options.file)
    else:
        entry = history.entry(config.history, options.kept or "")
        raw, arguments = entry.request, [*entry.call.arguments, *arguments]
    outcome = answer_message(raw, parse_options(arguments), config, explain=True)
    if options.json:
        sys.stdout.buffer.write(as_json(outcome))
    else:
        sys.stdout.write(as_text(outcome))
    return EXIT_OK


def as_json(outcome: Outcome) -> bytes:
    """The outcome and its explanations as one JSON object."""
    data = {
        "success": isinstance(outcome, Answer),
        "info": outcome.info,
        "result": outcome.result if isinstance(outcome, Answer) else [],
        "explanations": outcome.explanations,
    }
    return orjson.dumps(data, option=orjson.OPT_INDENT_2) + b"\n"


def as_text(outcome: Outcome) -> str:
    """The outcome and its explanations for people."""
    word = "successful" if isinstance(outcome, Answer) else "failed"
    parts = [f"Request {word}: {outcome.info}\n"]
    parts += [_one(one) for one in outcome.explanations]
    return "\n".join(parts)


def _one(explanation: Explained) -> str:
    return (
        _explanation(explanation)
        if isinstance(explanation, Explanation)
        else group_text(explanation)
    )


def _explanation(explanation: Explanation) -> str:
    lines = [
        f"Instance {explanation.instance}: {explanation.wanted}",
        f"Chosen: {'/'.join(explanation.chosen) or 'none'}",
        f"Cluster score before: {explanation.score_before:.8f}",
        *(f"Note: {note}" for note in explanation.notes),
    ]
    return "\n".join([*lines, ""]) + "".join(_group(group) for group in explanation.groups)


def _group(group: GroupVerdict) -> str:
    text = f"\nGroup {group.name} ({group.alloc_policy}): {group.summary}\n"
    if group.nodes:
        text += _verdicts(group.nodes)
    if group.places:
        text += "\n" + _places(group.places)
    return text


def _verdicts(verdicts: Sequence[NodeVerdict]) -> str:
    rows = []
    for verdict in verdicts:
        role = verdict.role + (f" of {verdict.primary}" if verdict.primary else "")
        rows.append((verdict.node, role, verdict.rule or "fits", verdict.reason))
    return table(("Node", "Role", "Verdict", "Reason"), rows)


def _places(places: Sequence[Place]) -> str:
    """Components as rows, places as columns, so that places can be compared."""
    headings = ["Best places", *(f"#{number}" for number in range(1, len(places) + 1))]
    rows = [
        [role, *(place.nodes[at] for place in places)]
        for at, role in enumerate(ROLES[: len(places[0].nodes)])
    ]
    rows += [["score", *(f"{place.score:.8f}" for place in places)]]
    if places[0].metric:
        rows.append(["lost,free disk", *(",".join(map(str, p.metric)) for p in places)])
    for name in sorted(places[0].components, key=lambda n: -places[0].components[n]):
        values = [place.components[name] for place in places]
        if any(values):
            rows.append([f"  {name}", *(f"{value:.8f}" for value in values)])
    rows.append(["capacity", *("; ".join(place.capacity) or "passes" for place in places)])
    return table(headings, rows)
