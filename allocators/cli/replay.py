"""``gnt-steward replay``: answer a kept request again and compare."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import orjson

from ganeti_steward.core import builtins
from ganeti_steward.core.builtins import ALLOCATION
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.tables import add_table_options, table
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError
from ganeti_steward.core.iallocator import history
from ganeti_steward.core.iallocator.dispatch import answer_message
from ganeti_steward.core.iallocator.members import Question
from ganeti_steward.core.iallocator.message import read_message, write_answer
from ganeti_steward.core.model.options import parse_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("name", nargs="?", default="", help="a kept request; default: the last")
    parser.add_argument("--list", action="store_true", help="list the kept requests")
    parser.add_argument("--shadow", action="store_true", help="also ask the shadows, and compare")
    add_table_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the new answer; status 1 when it differs from the one given then."""
    config = configuration(ALLOCATION)
    if options.list:
        sys.stdout.write(_list(config, options))
        return EXIT_OK
    entry = history.entry(config.history, options.name)
    try:
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
        print(f"The answer to {entry.name} is the same as then.", file=sys.stderr)
        return EXIT_OK
    then = entry.answer.decode(errors="backslashreplace").strip()
    print(f"The answer to {entry.name} was different then: {then}", file=sys.stderr)
    return EXIT_FAILURE


def _list(config: Config, options: argparse.Namespace) -> str:
    rows = []
    for name in history.names(config.history):
        try:
            entry = history.entry(config.history, name)
        except StewardError:
            # Dropped from the ring meanwhile, or no kept request at all.
            rows.append((name, "-", "-", "-", "unreadable"))
            continue
        seconds = entry.call.started // 10**9
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
        kind, instance = _request(entry.request)
        answer = _object(entry.answer)
        word = "success" if answer.get("success") else "failure" if answer else "error"
        rows.append((name, when, kind, instance, word))
    headings = ("Name", "Time", "Type", "Instance", "Answer")
    return table(headings, rows, separator=options.separator, no_headers=options.no_headers)


def _object(raw: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _request(raw: bytes) -> tuple[str, str]:
    """Type and instance of a kept request; dashes where it has none."""
    request = _object(raw).get("request")
    if not isinstance(request, dict):
        return "-", "-"
    instances = request.get("instances")
    if isinstance(instances, list):
        return str(request.get("type", "-")), f"{len(instances)} instances"
    return str(request.get("type", "-")), str(request.get("name", "-"))
