"""Where a command takes its cluster from: luxid, RAPI, a message or htools' text format.

A command calls `add_source_options` on its parser and `read_source` with what was given.
Everything else (clients, formats) is imported only when it is asked for.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ganeti_steward.core.errors import BadInput, StewardError, reason_of
from ganeti_steward.core.ganeti.luxi import SOCKET, Luxi
from ganeti_steward.core.iallocator.message import parse, read_cluster

if TYPE_CHECKING:
    from ganeti_steward.core.ganeti.jobs import Jobs
    from ganeti_steward.core.ganeti.rapi import Rapi
    from ganeti_steward.core.model.cluster import Cluster

#: Ganeti's own defaults, for files, which do not tell the cluster's.
BACKEND: Final[Mapping[str, Any]] = MappingProxyType(
    {"maxmem": 128, "minmem": 128, "vcpus": 1, "spindle_use": 1, "auto_balance": True}
)


class Source(NamedTuple):
    """A cluster, and where it is from."""

    cluster: Cluster
    where: str
    """for messages: "luxid at /var/...", "RAPI at https://...", "the file x.json" """
    jobs: Jobs | None = None
    """who runs jobs on this cluster; None for a file"""
    notes: tuple[str, ...] = ()
    """sentences the user should read, e.g. nodes that did not tell their figures"""
    backend: Mapping[str, Any] = BACKEND
    """the backend parameters an instance has unless told otherwise"""
    networks: Mapping[str, str] = MappingProxyType({})
    """name -> uuid of what is known of networks; a file knows uuids only"""


def add_source_options(
    parser: argparse.ArgumentParser, *, short: bool = True, positional: bool = True
) -> None:
    """The options that say which cluster is meant.

    ``short`` False leaves ``-t``, ``-m`` and ``-I`` to the command, ``positional`` False
    its arguments: only the long options name a source then.
    """
    group = parser.add_argument_group(
        "cluster", "Without any of these: luxid, which runs on the master only."
    )
    group.add_argument(
        "-L", "--luxi", action="store_true", help="ask luxid, on the master (the default there)"
    )
    group.add_argument("--luxi-socket", metavar="SOCKET", help=f"luxid's socket; default: {SOCKET}")
    group.add_argument(
        *_names("-m", "--rapi", short),
        metavar="HOST[:PORT]",
        help="ask the RAPI daemon there; port 5080 if none is given",
    )
    group.add_argument(
        "--rapi-ca", metavar="FILE", help="certificates that may vouch for the RAPI daemon"
    )
    group.add_argument(
        "--rapi-insecure",
        action="store_true",
        help="take whatever certificate the RAPI daemon shows",
    )
    group.add_argument(
        "--rapi-credentials",
        metavar="FILE",
        help="a file with one line, user and password (or GNT_STEWARD_RAPI_USER and "
        "GNT_STEWARD_RAPI_PASSWORD in the environment)",
    )
    group.add_argument(
        *_names("-t", "--text-data", short), metavar="FILE", help="a file in htools' text format"
    )
    group.add_argument(
        *_names("-I", "--file", short),
        metavar="FILE",
        help="an iallocator message, '-' for standard input",
    )
    if positional:
        group.add_argument("message", nargs="?", metavar="FILE", help="the same as --file")


def _names(letter: str, name: str, short: bool) -> tuple[str, ...]:
    return (letter, name) if short else (name,)


def read_source(options: argparse.Namespace, template: str | None = None) -> Source:
    """The cluster that was asked for; raises StewardError.

    ``template`` is the disk template the disk figures of a live cluster are wanted for;
    None: those a plan for all instances needs (see docs/reference/cluster-sources.md).
    """
    positional = getattr(options, "message", None)
    if options.file is not None and positional is not None:
        raise StewardError(f"two messages are named, {options.file} and {positional}")
    file = options.file if positional is None else positional
    luxi = options.luxi or options.luxi_socket is not None
    given = [
        name
        for name, value in (
            ("--luxi", luxi),
            ("--rapi", options.rapi is not None),
            ("--text-data", options.text_data is not None),
            ("an iallocator message", file is not None),
        )
        if value
    ]
    if len(given) > 1:
        raise StewardError(f"one cluster at a time: {' and '.join(given)} were given")
    if file is not None:
        return _message(file)
    if options.text_data is not None:
        return _text(options.text_data)
    if options.rapi is not None:
        return _rapi(options, template)
    if luxi or os.path.exists(SOCKET):
        return _luxi(options.luxi_socket or SOCKET, template)
    raise StewardError(
        f"no cluster is named, and there is no luxid here ({SOCKET}), which runs on the "
        "master; name a RAPI daemon or a file (--help tells how)"
    )


def _luxi(path: str, template: str | None) -> Source:
    return _live(Luxi(path), template)


def _rapi(options: argparse.Namespace, template: str | None) -> Source:
    from ganeti_steward.core.ganeti.rapi import Rapi
    from ganeti_steward.core.ganeti.rapi_access import read_credentials

    if options.rapi_insecure and options.rapi_ca is not None:
        raise StewardError("--rapi-ca and --rapi-insecure exclude each other")
    credentials = read_credentials(options.rapi_credentials, os.environ)
    verify: bool | str = not options.rapi_insecure
    if options.rapi_ca is not None:
        verify = options.rapi_ca
    return _live(Rapi(options.rapi, credentials, verify=verify), template)


def _live(client: Luxi | Rapi, template: str | None) -> Source:
    from ganeti_steward.core.ganeti.snapshot import read_live

    snapshot = read_live(client, template)
    notes = tuple(
        f"{name} does not tell its figures and counts as unusable" for name in snapshot.silent
    )
    return Source(
        snapshot.cluster, client.where, client, notes, snapshot.backend, snapshot.networks
    )


def _message(path: str) -> Source:
    try:
        cluster = read_cluster(parse(read_file(path)))
    except BadInput as err:
        raise StewardError(f"{_file(path)}: {err}") from None
    return Source(cluster, _file(path))


def _text(path: str) -> Source:
    from ganeti_steward.core.ganeti.text_format import read_text

    try:
        cluster = read_text(read_file(path).decode())
    except UnicodeDecodeError as err:
        raise StewardError(f"{_file(path)}: byte {err.start} is not UTF-8") from None
    except BadInput as err:
        raise StewardError(f"{_file(path)}: {err}") from None
    return Source(cluster, _file(path))


def _file(path: str) -> str:
    return "standard input" if path == "-" else f"the file {path}"


def read_file(path: str) -> bytes:
    """A file named on the command line, ``-`` for standard input; raises StewardError."""
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError) as err:
        raise StewardError(f"{path}: {reason_of(err)}") from None
