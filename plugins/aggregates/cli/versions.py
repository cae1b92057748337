"""The version of the data that the commands about aggregates print.

Data of version 2 is an object with its version.  Version 1 is what the version before printed: a
list without the fields that came later.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence

from ganeti_steward.core.commands.tables import Value, chosen_fields, print_fields, print_json
from ganeti_steward.plugins.aggregates.language.tags import VERSION, VERSIONS


def add_version_option(parser: argparse.ArgumentParser) -> None:
    """``--json-version``."""
    parser.add_argument(
        "--json-version",
        type=int,
        choices=VERSIONS,
        default=VERSION,
        help="the version of the data of --json; default: %(default)s",
    )


def print_versioned(options: argparse.Namespace, key: str, data: Mapping[str, object]) -> None:
    """One object; in version 1 only what is under ``key``, or all of it without its version."""
    if options.json_version < VERSION:
        print_json(data[key] if key else data)
    else:
        print_json({"version": VERSION, **data})


def print_versioned_rows(
    options: argparse.Namespace,
    key: str,
    fields: Mapping[str, str],
    usual: Sequence[str],
    rows: Sequence[Mapping[str, Value]],
) -> None:
    """A list that version 1 does not have."""
    options.json_version = VERSION
    print_rows(options, key, fields, usual, rows)


def print_rows(
    options: argparse.Namespace,
    key: str,
    fields: Mapping[str, str],
    usual: Sequence[str],
    rows: Sequence[Mapping[str, Value]],
    new: Collection[str] = (),
) -> None:
    """A list under ``key``; ``new``: fields that version 1 has only where ``-o`` names them."""
    if not options.json:
        print_fields(options, fields, usual, rows)
        return
    given = options.output
    chosen = fields if given is None else chosen_fields(given, fields, usual)
    if given is None and options.json_version < VERSION:
        chosen = [name for name in fields if name not in new]
    print_versioned(options, key, {key: [{name: row[name] for name in chosen} for row in rows]})
