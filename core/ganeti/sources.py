"""Where a cluster comes from: luxid, RAPI, an iallocator message or htools' text format.

`open_source` takes a value, `SourceOptions`; commands make it from their arguments
(`core.commands.cluster_options`).  Clients and formats are imported only when they are used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ganeti_steward.core import builtins
from ganeti_steward.core.errors import BadInput, StewardError, reason_of
from ganeti_steward.core.ganeti.luxi import Luxi, denied
from ganeti_steward.core.ganeti.this_node import SOCKET
from ganeti_steward.core.json_nesting import LONGEST
from ganeti_steward.core.model.cluster_reader import parse, read_cluster
from ganeti_steward.core.safe_files import read_in_time

if TYPE_CHECKING:
    from ganeti_steward.core.ganeti.jobs import Jobs
    from ganeti_steward.core.ganeti.rapi import Rapi
    from ganeti_steward.core.model.cluster import Cluster

#: Seconds in which a FIFO, such as ``<(command)`` of a shell, has to give something.
_WAIT: Final = 120.0

#: Ganeti's own defaults, for files, which do not contain the cluster's.
BACKEND: Final[Mapping[str, Any]] = MappingProxyType(
    {"maxmem": 128, "minmem": 128, "vcpus": 1, "spindle_use": 1, "auto_balance": True}
)


class SourceOptions(NamedTuple):
    """Which cluster to read; at most one of the four, and with none of them luxid."""

    luxi_socket: str | None = None
    """path of luxid's socket, empty for the usual one"""
    rapi: str | None = None
    """``HOST`` or ``HOST:PORT`` of a RAPI daemon"""
    text_file: str | None = None
    """path of a file in htools' text format, ``-`` for standard input"""
    message_file: str | None = None
    """path of an iallocator message, ``-`` for standard input"""
    rapi_ca: str | None = None
    """path of the certificates that may vouch for the RAPI daemon"""
    rapi_insecure: bool = False
    """accept any certificate of the RAPI daemon"""
    rapi_credentials: str | None = None
    """path of a file with user and password; None: from the environment"""
    reason: str = ""
    """why jobs are submitted, in the user's words; empty: not given"""


class Source(NamedTuple):
    """A cluster, and where it is from."""

    cluster: Cluster
    where: str
    """for messages: "luxid at /var/...", "RAPI at https://...", "the file x.json" """
    jobs: Jobs | None = None
    """who runs jobs on this cluster; None for a file"""
    notes: tuple[str, ...] = ()
    """sentences the user should read, e.g. nodes that did not report their figures"""
    backend: Mapping[str, Any] = BACKEND
    """the default backend parameters of an instance; maxmem and minmem in MiB"""
    networks: Mapping[str, str] = MappingProxyType({})
    """name -> uuid of what is known of networks; a file knows uuids only"""
    templates: tuple[str, ...] | None = None
    """the enabled disk templates; None for a file, which does not list them"""

    def check_template(self, template: str) -> None:
        """Raise StewardError where instances of a disk template cannot be created."""
        if self.templates is not None and template not in self.templates:
            known = ", ".join(self.templates)
            raise StewardError(
                f"{self.where}: disk template {template} is not enabled (enabled: {known})"
            )


def open_source(options: SourceOptions, template: str | None = None) -> Source:
    """Read the cluster that the options name; raises StewardError.

    ``template``: the disk template whose free space a live cluster is to report; None: the
    one a plan for all instances needs.
    """
    if options.message_file is not None:
        return _message(options.message_file)
    if options.text_file is not None:
        return _text(options.text_file)
    return _live(open_client(options), template)


def open_client(options: SourceOptions) -> Luxi | Rapi:
    """The client of the live cluster that the options name; raises StewardError."""
    if options.rapi is not None:
        return _rapi(options.rapi, options)
    return open_luxid(options)


def open_luxid(options: SourceOptions) -> Luxi:
    """The client of the luxid that the options name; raises StewardError."""
    if not options.luxi_socket:
        _check_luxid(required=options.luxi_socket is not None)
    return Luxi(options.luxi_socket or SOCKET, user_reason=options.reason)


def _check_luxid(*, required: bool) -> None:
    """Raise StewardError, with the cause, where this node has no socket of luxid's.

    ``required``: whether luxid was named; where this is no node of a cluster, its client reports.
    """
    try:
        os.stat(SOCKET)
    except PermissionError:
        raise StewardError(denied(SOCKET)) from None
    except OSError:
        from ganeti_steward.core.ganeti.this_node import master_name, this_node

        master = master_name()
        if master and this_node().is_called(master):
            raise StewardError(
                f"luxid is stopped: there is no socket {SOCKET} on this node, which is the master; "
                "start ganeti-luxid"
            ) from None
        if master:
            raise StewardError(
                f"luxid runs on the master only, which is {master}: run the command there, or name "
                f"its RAPI daemon (--rapi {master}) or a file (see --help)"
            ) from None
        if not required:
            raise StewardError(
                f"no cluster is named, and there is no luxid here ({SOCKET}), which runs on the "
                "master; name a RAPI daemon or a file (see --help)"
            ) from None


def _rapi(address: str, options: SourceOptions) -> Rapi:
    from ganeti_steward.core.ganeti.rapi import Rapi
    from ganeti_steward.core.ganeti.rapi_access import read_credentials

    if options.rapi_insecure and options.rapi_ca is not None:
        raise StewardError("--rapi-ca and --rapi-insecure exclude each other")
    credentials = read_credentials(options.rapi_credentials, os.environ)
    verify: bool | str = not options.rapi_insecure
    if options.rapi_ca is not None:
        verify = options.rapi_ca
    return Rapi(address, credentials, verify=verify, user_reason=options.reason)


def _live(client: Luxi | Rapi, template: str | None) -> Source:
    from ganeti_steward.core.ganeti.snapshot import read_live

    snapshot = read_live(client, template)
    cluster = snapshot.cluster
    notes = _missing_figures(cluster)
    return Source(
        cluster,
        client.where,
        client,
        notes,
        snapshot.backend,
        snapshot.networks,
        snapshot.templates,
    )


def _message(path: str) -> Source:
    try:
        cluster = read_cluster(parse(read_file(path)))
    except BadInput as err:
        raise StewardError(f"{_file(path)}: {err}") from None
    return Source(cluster, _file(path), notes=_missing_figures(cluster))


def _text(path: str) -> Source:
    try:
        cluster = builtins.module(builtins.TEXT_FORMAT).read_text(read_file(path).decode())
    except UnicodeDecodeError as err:
        raise StewardError(f"{_file(path)}: byte {err.start} is not UTF-8") from None
    except BadInput as err:
        raise StewardError(f"{_file(path)}: {err}") from None
    return Source(cluster, _file(path), notes=_missing_figures(cluster))


def _missing_figures(cluster: Cluster) -> tuple[str, ...]:
    """A note on each node that does not report all figures."""
    return tuple(
        f"{node.name} {node.lack} and "
        + ("is treated as unusable" if node.silent else "takes no drbd and plain instances")
        for node in cluster.nodes
        if node.missing
    )


def _file(path: str) -> str:
    return "standard input" if path == "-" else f"the file {path}"


def read_file(path: str) -> bytes:
    """A file named on the command line, ``-`` for standard input; raises StewardError."""
    if path == "-":
        content = sys.stdin.buffer.read(LONGEST + 1)
        if len(content) > LONGEST:
            raise StewardError(f"standard input: it is longer than {LONGEST} bytes")
        return content
    try:
        return read_in_time(path, LONGEST, _WAIT)
    except (OSError, ValueError) as err:
        raise StewardError(f"{path}: {reason_of(err)}") from None
