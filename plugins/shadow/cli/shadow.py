"""``gnt-steward shadow``: what the log has of shadows, summed up."""

from __future__ import annotations

import argparse
import gzip
import os
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from io import BytesIO
from typing import Final

from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.manual import add_subcommand, add_subcommands, describe
from ganeti_steward.core.commands.tables import (
    Value,
    add_field_options,
    is_list,
    print_fields,
    table,
)
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError, reason_of
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.safe_files import UnsafeFile, read_regular
from ganeti_steward.plugins.shadow.report import OUTCOMES, Sums, comparisons, sums

#: Fields of the list -> headings.
FIELDS: Final = {
    "shadow": "Shadow",
    "request": "Request",
    "first": "First",
    "last": "Last",
    "compared": "Compared",
    **{name: name.capitalize() for name in OUTCOMES},
    "lower": "Lower",
    "median": "Median",
    "longest": "Longest",
}
#: Bytes of one log file, and of what a compressed one contains.
_LONGEST: Final = 2**29
#: Rotated files that are read: ``steward.log.1``, ``steward.log.2.gz``, ...
_ROTATED: Final = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command."""
    what = add_subcommands(parser, "WHAT")
    add_subcommand(what, "report", "sum up the comparisons in the log", _report_options)


def _report_options(one: argparse.ArgumentParser) -> None:
    describe(
        one,
        {
            "gnt-steward shadow report": "of the configured log and its rotated files",
            "gnt-steward shadow report --days 7": "of the last week",
            "gnt-steward shadow report node1.log node2.log.gz": "of logs of several nodes",
        },
        statuses={EXIT_FAILURE: "there is no comparison, or a log cannot be read"},
        units="Times are in ms; a lower score is better.",
    )
    one.add_argument("file", nargs="*", help="logs, also compressed ones; default: [log] file")
    text = "only comparisons of the last N days"
    one.add_argument("--days", type=_days, metavar="N", help=text)
    add_field_options(one, FIELDS)
    one.set_defaults(act=_report)


def _days(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 36500:
        raise argparse.ArgumentTypeError(f"a number of days above 0 is expected, not {text!r}")
    return value


def run(options: argparse.Namespace) -> int:
    """Run the sub-command; returns the exit status."""
    status: int = options.act(options)
    return status


def _report(options: argparse.Namespace) -> int:
    files = options.file or _configured()
    lines = (line for file in files for line in _lines(file))
    since = ""
    if options.days:
        since = (datetime.now() - timedelta(days=options.days)).strftime("%Y-%m-%d %H:%M:%S")
    found = sums(one for one in comparisons(lines) if one.at >= since)
    if options.json or is_list(options):
        print_fields(options, FIELDS, tuple(FIELDS), [_row(one) for one in found])
    elif found:
        sys.stdout.write("\n".join(map(as_text, found)))
    if not found:
        raise StewardError(
            f"no comparison is in {', '.join(files)}: shadows are configured in [shadow], and "
            "logged at level info"
        )
    return EXIT_OK


def _configured() -> Sequence[str]:
    """The configured log with its rotated files, the oldest first; raises StewardError."""
    path = configuration(("log", "shadow")).log.file
    if not path:
        raise StewardError("no log is configured ([log] file); name one")
    rotated = [f"{path}.{number}{end}" for number in range(_ROTATED, 0, -1) for end in ("", ".gz")]
    return [*filter(os.path.exists, rotated), path]


def _lines(path: str) -> Iterator[str]:
    """Raises StewardError."""
    try:
        raw = read_regular(path, _LONGEST)
        if path.endswith(".gz"):
            raw = gzip.GzipFile(fileobj=BytesIO(raw)).read(_LONGEST)
    except (EOFError, OSError, UnsafeFile, zlib.error) as err:
        raise StewardError(f"{path}: {reason_of(err)}") from None
    return iter(raw.decode(errors="replace").splitlines())


def _row(one: Sums) -> Mapping[str, Value]:
    return {
        "shadow": one.shadow,
        "request": one.request,
        "first": one.first,
        "last": one.last,
        "compared": one.number,
        **one.outcomes,
        "lower": f"{one.lower:.8f}",
        "median": one.median,
        "longest": one.longest,
    }


def as_text(one: Sums) -> str:
    """The sums of one shadow for one request type."""
    rows = [
        (name, str(number), f"{100 * number / one.number:.0f} %", OUTCOMES[name])
        for name, number in one.outcomes.items()
        if number
    ]
    word = "lower" if one.lower >= 0 else "higher"
    differ = sum(one.outcomes[name] for name in ("better", "worse", "tie"))
    mean = f"where places differ its score is {abs(one.lower):.8f} {word} on average\n"
    return (
        f"{one.shadow}\n{one.request}: {counted(one.number, 'comparison')} from {one.first} to "
        f"{one.last}\n{table(('It', 'Number', 'Share', 'Meaning'), rows)}"
        f"{mean if differ else ''}time: {one.median} ms in the median, {one.longest} ms at most\n"
    )
