"""The options of a command that name the cluster to read."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.this_node import SOCKET

if TYPE_CHECKING:
    from ganeti_steward.core.ganeti.sources import Source, SourceOptions


def add_source_options(
    parser: argparse.ArgumentParser,
    *,
    positional: bool = True,
    files: bool = True,
    rapi: bool = True,
    default: str = "luxid, which runs on the master only",
) -> None:
    """The options that name the cluster; ``positional`` False leaves the arguments to the command.

    ``files``: False where only a live cluster will do; ``rapi``: False where only luxid will do;
    ``default``: the cluster without any.

    Letters as in hbal, but for ``-t``, which is the disk template in all commands, as in Ganeti's.
    """
    group = parser.add_argument_group("cluster", f"Without any of these: {default}.")
    group.add_argument(
        "-L",
        "--luxi",
        action="store_true",
        help="read from luxid, on the master (the default there)",
    )
    group.add_argument("--luxi-socket", metavar="SOCKET", help=f"luxid's socket; default: {SOCKET}")
    if rapi:
        _add_rapi(group)
    if not files:
        return
    group.add_argument("--text-data", metavar="FILE", help="a file in htools' text format")
    group.add_argument(
        "-I",
        "--file",
        metavar="FILE",
        help="an iallocator message, '-' for standard input",
    )
    if positional:
        group.add_argument("message", nargs="?", metavar="FILE", help="the same as --file")


def _add_rapi(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-m",
        "--rapi",
        metavar="HOST[:PORT]",
        help="read from the RAPI daemon there; port 5080 if none is given",
    )
    group.add_argument(
        "--rapi-ca", metavar="FILE", help="file of certificates that may sign the RAPI daemon's"
    )
    group.add_argument(
        "--rapi-insecure",
        action="store_true",
        help="accept any certificate of the RAPI daemon",
    )
    group.add_argument(
        "--rapi-credentials",
        metavar="FILE",
        help="a file with one line, user and password (or GNT_STEWARD_RAPI_USER and "
        "GNT_STEWARD_RAPI_PASSWORD in the environment)",
    )


def add_reason_option(parser: argparse.ArgumentParser) -> None:
    """Ganeti's option of everything that submits jobs."""
    parser.add_argument(
        "--reason", metavar="TEXT", help="why; for the reason trails of the jobs that are submitted"
    )


def source_options(options: argparse.Namespace) -> SourceOptions:
    """The parsed options as a value; raises StewardError when they name several clusters."""
    from ganeti_steward.core.ganeti.sources import SourceOptions  # not for the help

    # A command offers only those that work for it.
    names = ("file", "message", "rapi", "rapi_ca", "rapi_credentials")
    file, positional, rapi, rapi_ca, credentials = (getattr(options, n, None) for n in names)
    if file is not None and positional is not None:
        raise StewardError(f"two messages are named, {file} and {positional}")
    file = file if positional is None else positional
    text_data = getattr(options, "text_data", None)
    luxi = "" if options.luxi and options.luxi_socket is None else options.luxi_socket
    given = [
        name
        for name, value in (
            ("--luxi", luxi),
            ("--rapi", rapi),
            ("--text-data", text_data),
            ("an iallocator message", file),
        )
        if value is not None
    ]
    if len(given) > 1:
        raise StewardError(f"one cluster at a time: {' and '.join(given)} were given")
    return SourceOptions(
        luxi_socket=luxi,
        rapi=rapi,
        text_file=text_data,
        message_file=file,
        rapi_ca=rapi_ca,
        rapi_insecure=getattr(options, "rapi_insecure", False),
        rapi_credentials=credentials,
        reason=getattr(options, "reason", None) or "",
    )


def read_source(options: argparse.Namespace, template: str | None = None) -> Source:
    """The cluster that parsed options name; see `open_source`.  Raises StewardError."""
    from ganeti_steward.core.ganeti.sources import open_source  # not for the help

    given = source_options(options)
    from ganeti_steward.core.commands.terminal import progress  # help shows none

    with progress("reading the cluster"):
        return open_source(given, template)
