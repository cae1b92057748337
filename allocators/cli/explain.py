"""``gnt-steward explain``: why a request is answered the way it is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from ganeti_steward.allocators.advice.case import Case, is_complete
from ganeti_steward.allocators.advice.proposals import obstacles, proposals
from ganeti_steward.allocators.cli import texts
from ganeti_steward.allocators.cli.allocator_options import (
    add_advice_options,
    add_passed_options,
    option,
)
from ganeti_steward.allocators.cli.explanation_text import (
    VERDICTS,
    View,
    answer_line,
    explanation_text,
    seen_nodes,
    verdict_rows,
)
from ganeti_steward.allocators.cli.texts import BAD, GOOD, for_terminal, painted
from ganeti_steward.allocators.kept_requests import WHICH, described, kept_request
from ganeti_steward.core.builtins import ALLOCATION
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import add_field_options, is_list, print_fields, print_json
from ganeti_steward.core.commands.terminal import progress
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import EXIT_OK, PluginError
from ganeti_steward.core.ganeti.sources import read_file
from ganeti_steward.core.iallocator.dispatch import answer_message
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.answer import Answer, Outcome
from ganeti_steward.core.model.explanation import Explained, Explanation
from ganeti_steward.core.model.options import parse_options

VERBOSE: Final = "a row for each node, with full names, and the components of the scores"

#: What --json prints.
AS_DATA: Final = "the whole explanation as data; with -o the fields of nodes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    describe(
        parser,
        {
            "gnt-steward explain --last": "why Ganeti's last request was answered this way",
            "gnt-steward explain --last 3 -v": "the third last, with a row for each node",
            "gnt-steward explain request.json --why-not node3": "what keeps it from node3",
        },
        units="Memory and disk are in MiB, --effort is in seconds of CPU.",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("file", nargs="?", help="an iallocator message, '-' for standard input")
    text = (
        f"the last request Ganeti made, or another kept one: {WHICH}, see gnt-steward replay --list"
    )
    option(which, "--last, --kept WHICH", text, nargs="?", const="")
    text = "only what speaks for or against this node; may be given several times"
    option(parser, "-n, --node NODE", text, several=True)
    option(parser, "-v, --verbose", VERBOSE)
    add_field_options(parser, VERDICTS, json=AS_DATA)
    add_advice_options(parser)
    add_passed_options(parser)


def run(options: argparse.Namespace) -> int:
    """Answer the request again and print the whole explanation."""
    config = configuration(ALLOCATION)
    arguments: Sequence[str] = options.option
    if options.file:
        raw = read_file(options.file)
        heading = ""
    else:
        entry = kept_request(config.history, options.last)
        raw, arguments = entry.request, [*entry.call.arguments, *arguments]
        heading = f"Kept request: {described(entry)}\n"
    passed = parse_options(arguments)
    with progress("answering the request"):
        outcome = answer_message(raw, passed, config, explain=True)
    cluster, request = read_message(raw)
    case = Case(request, cluster, passed)
    advice = advice_on(case, outcome, config, options)
    nodes = seen_nodes(options.node, outcome.explanations)
    if is_list(options):
        rows = list(verdict_rows(outcome.explanations, nodes))
        print_fields(options, VERDICTS, tuple(VERDICTS), rows)
    elif options.json:
        print_json(as_data(outcome, advice))
    else:
        sys.stdout.write(heading + as_text(outcome, View(options.verbose, nodes)) + advice.text)
    return EXIT_OK


class FoundAdvice(NamedTuple):
    """What was found about a refusal, or about one node."""

    data: Mapping[str, object]
    """for JSON"""
    text: str


def advice_on(
    case: Case, outcome: Outcome, config: Config, options: argparse.Namespace
) -> FoundAdvice:
    """What ``--why-not`` wants to know, else suggestions where an instance has no place.

    Raises PluginError, and StewardError for an unknown node.
    """
    limit = options.effort
    if options.why_not is not None:
        with progress("looking for what is in the way"):
            kept = obstacles(case, options.why_not, config, limit)
        return FoundAdvice({"why_not": kept}, texts.obstacles_text(kept, limit))
    if is_complete(outcome, case.request):
        return FoundAdvice({}, "")
    try:
        with progress("looking for changes that would help"):
            found = proposals(case, config, limit)
    except PluginError:
        # No change helps where a plugin fails; the answer names it already.
        return FoundAdvice({}, "")
    return FoundAdvice({"suggestions": found}, texts.proposals_text(found, limit))


def as_data(outcome: Outcome, advice: FoundAdvice) -> dict[str, object]:
    """The outcome and its explanations for JSON."""
    return {
        "success": isinstance(outcome, Answer),
        "info": outcome.info,
        "result": outcome.result if isinstance(outcome, Answer) else [],
        "explanations": outcome.explanations,
        **advice.data,
    }


def as_text(outcome: Outcome, view: View = View()) -> str:  # noqa: B008 -- it cannot be changed
    """The answer, then its explanations for people."""
    word = "successful" if isinstance(outcome, Answer) else "failed"
    colour = GOOD if isinstance(outcome, Answer) else BAD
    answer = answer_line(outcome.explanations) if isinstance(outcome, Answer) else ""
    short = bool(answer) and not view.verbose
    first = answer if short else outcome.info
    parts = [painted(for_terminal(f"Request {word}: {first}"), colour)]
    parts += [_one(_without(one, outcome.info), view, first) for one in outcome.explanations]
    # Ganeti shows it its user, with the notes of plugins.
    parts += [for_terminal(f"Info: {outcome.info}")] if short else []
    return "\n".join(parts)


def _without(one: Explained, printed: str) -> Explained:
    """An explanation without the notes that were printed already."""
    return replace(one, notes=tuple(note for note in one.notes if note not in printed))


def _one(explanation: Explained, view: View, printed: str) -> str:
    return (
        explanation_text(explanation, view, printed)
        if isinstance(explanation, Explanation)
        else texts.group_text(explanation)
    )
