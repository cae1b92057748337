"""``gnt-steward replay``: answer a kept request again and compare."""

from __future__ import annotations

import argparse
import sys

from ganeti_steward.allocators import kept_requests
from ganeti_steward.allocators.kept_requests import Entry
from ganeti_steward.core import builtins
from ganeti_steward.core.builtins import ALLOCATION
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import add_field_options, print_fields
from ganeti_steward.core.commands.terminal import progress
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError
from ganeti_steward.core.iallocator.dispatch import answer_message
from ganeti_steward.core.iallocator.members import Question
from ganeti_steward.core.iallocator.message import read_message, write_answer
from ganeti_steward.core.model.options import parse_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    describe(
        parser,
        {
            "gnt-steward replay --list": "the kept requests, the oldest first",
            "gnt-steward replay": "answer the last one again",
            "gnt-steward replay 3 --shadow": "the third last, also by the shadows",
        },
        statuses={EXIT_FAILURE: "the answer differs from the one given then"},
    )
    parser.add_argument("name", nargs="?", default="", help=f"{kept_requests.WHICH}; default: 1")
    parser.add_argument("--list", action="store_true", help="list the kept requests")
    parser.add_argument("--shadow", action="store_true", help="also ask the shadows, and compare")
    add_field_options(parser, kept_requests.FIELDS)


def run(options: argparse.Namespace) -> int:
    """Print the new answer; status 1 when it differs from the one given then."""
    config = configuration(ALLOCATION)
    if options.list:
        fields = kept_requests.FIELDS
        rows = [dict(zip(fields, row, strict=True)) for row in kept_requests.rows(config.history)]
        print_fields(options, fields, [*fields], rows)
        return EXIT_OK
    entry = kept_requests.kept_request(config.history, options.name)
    try:
        with progress("answering the request again"):
            outcome = answer_message(entry.request, parse_options(entry.call.arguments), config)
        new = write_answer(outcome)
    except StewardError as err:
        new = f"Error: {err}\n".encode()
    sys.stdout.write(new.decode(errors="backslashreplace"))
    if options.shadow and not new.startswith(b"Error: "):
        cluster, request = read_message(entry.request)
        arguments = parse_options(entry.call.arguments)
        question = Question(request, cluster, config, arguments, raw=entry.request)
        for line in builtins.module(builtins.SHADOWS).compare(question, new):
            print(line)
    if new == entry.answer:
        print(f"The answer to {_named(entry)} is the same as then.", file=sys.stderr)
        return EXIT_OK
    then = entry.answer.decode(errors="backslashreplace").strip()
    print(f"The answer to {_named(entry)} was different then: {then}", file=sys.stderr)
    return EXIT_FAILURE


def _named(entry: Entry) -> str:
    return f"{entry.name} ({kept_requests.described(entry)})"
