"""Whether configuration and plugins of all nodes are alike: ``check-config --all-nodes``.

The files of each node are read over ssh as ``gnt-cluster command`` does it.  Ganeti's own files say
which nodes there are, at which ssh ports, and which host keys they have.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple

from ganeti_steward.core.builtins import built_in
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.ganeti import this_node
from ganeti_steward.core.hooks.loading import named_plugins
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.process.program import run_program
from ganeti_steward.plugins.daemon_parts import plugin_files

SSH: Final = "/usr/bin/ssh"

#: Seconds until a node has answered, and until it takes the connection.
_LIMIT: Final = 60.0
_CONNECT_LIMIT: Final = 10
#: Nodes that are read at the same time.
_AT_ONCE: Final = 10
#: Bytes of the file.
_LONGEST_FILE: Final = 2**24
#: The exit status of the command that reads the file where there is none; ssh's own is 255.
_NO_FILE: Final = 66

#: Keys that are named of each node.
_SHOWN: Final = 5
#: Characters of a value.
_LONGEST: Final = 60


def print_comparison(
    path: str, raw: bytes | None, plugins: Mapping[str, str], data: str = this_node.DATA
) -> bool:
    """Print a line for each node whose values differ; whether all could be read and agree.

    ``raw``: this node's file, None without one; ``plugins``: those of `plugin_digests`; ``data``:
    Ganeti's directory.  An offline node is named and does not count.  Raises StewardError.
    """
    nodes, same = other_nodes(data), 0
    for found in read_everywhere(path, list(plugins), nodes.online, data):
        faults = [*filter(None, [_fault(found, raw)]), *_other_plugins(found, plugins)]
        same += not faults
        if faults:
            print(f"{found.node}: {'; '.join(faults)}")
    for name in nodes.offline:
        print(f"{name}: not compared, the node is offline")
    alike = "configuration and plugins" if plugins else "configuration"
    print(f"The same {alike}: {same} of {counted(len(nodes.online), 'other node')}.")
    if same < len(nodes.online):
        print(f"gnt-cluster copyfile {path} copies the file of this node to all others.")
    return same == len(nodes.online)


def _fault(found: NodeFile, raw: bytes | None) -> str:
    if found.fault:
        return f"not compared: {found.fault}"
    if found.content == raw:
        return ""
    if found.content is None:
        return "there is no such file"
    if raw is None:
        return "has a file, and this node has none"
    try:
        here, there = (_values(tomllib.loads(text.decode())) for text in (raw, found.content))
    except (ValueError, RecursionError):
        return "the file is another one, and one of the two is not valid TOML"
    keys = [key for key in sorted(here | there) if here.get(key) != there.get(key)]
    texts = [f"{key} is {_shown(there, key)}, here {_shown(here, key)}" for key in keys[:_SHOWN]]
    more = [f"and {len(keys) - _SHOWN} more"] if len(keys) > _SHOWN else []
    return "; ".join([*texts, *more])


def _other_plugins(found: NodeFile, plugins: Mapping[str, str]) -> list[str]:
    """The files of plugins that differ."""
    lines = found.digests.decode(errors="replace").splitlines()
    there = {path: digest for digest, _, path in (line.partition("  ") for line in lines)}
    faults = [
        f"{path} {'is another one' if path in there else 'is missing'}"
        for path, digest in plugins.items()
        if not found.fault and there.get(path) != digest
    ]
    more = [f"and {len(faults) - _SHOWN} more files"] if len(faults) > _SHOWN else []
    return [*faults[:_SHOWN], *more]


def _values(table: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Every value with its whole path."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found |= _values(value, f"{path}{key}.")
        else:
            found[f"{path}{key}"] = value
    return found


def _shown(values: Mapping[str, Any], key: str) -> str:
    if key not in values:
        return "not set"
    text = json.dumps(values[key], ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


# -- the files of one node


def plugin_digests(config: Config) -> Mapping[str, str]:
    """Path -> SHA-256 of each Python file of plugins that are not built in; imports nothing."""
    names = [one.name for one in named_plugins(config) if built_in(one.name) is None]
    files = sorted({file for name in names for file in plugin_files(name).values()})
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


class NodeFile(NamedTuple):
    """The file of one node."""

    node: str
    content: bytes | None
    """None: there is none, or it could not be read"""
    fault: str = ""
    """why it could not be read; empty otherwise"""
    digests: bytes = b""
    """what sha256sum prints of the files of plugins"""


class Nodes(NamedTuple):
    """The other nodes of the cluster, as Ganeti's files on this node list them."""

    online: tuple[str, ...]
    offline: tuple[str, ...]


def other_nodes(data: str) -> Nodes:
    """The nodes but for this one, by name; raises StewardError outside of a cluster."""
    own = this_node.this_node(data).name
    online = this_node.lines(data, "ssconf_online_nodes")
    if not online:
        where = f"{data}/ssconf_online_nodes"
        raise StewardError(f"this machine is not a cluster node ({where} is empty)")
    offline = this_node.lines(data, "ssconf_offline_nodes")
    return Nodes(
        tuple(sorted(name for name in online if name != own)),
        tuple(sorted(name for name in offline if name != own)),
    )


def read_everywhere(
    path: str, plugins: Sequence[str], nodes: Sequence[str], data: str
) -> Iterator[NodeFile]:
    """The file of each of these nodes, in their order, and the digests of files of plugins."""
    options = _options(data)
    pairs = (line.partition("=") for line in this_node.lines(data, "ssconf_ssh_ports"))
    ports = {name: port for name, _, port in pairs if port.isdigit()}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        yield from pool.map(partial(_read, _command(path, plugins), options, ports), nodes)


def _command(path: str, plugins: Sequence[str]) -> str:
    """Prints the digests, a zero byte, and the file."""
    quoted = shlex.quote(path)
    digests = f"sha256sum -- {shlex.join(plugins)} 2>/dev/null; " if plugins else ""
    return (
        f"{digests}printf '\\0'; if test -e {quoted}; then cat {quoted}; else exit {_NO_FILE}; fi"
    )


def _options(data: str) -> list[str]:
    """ssh's options as Ganeti calls it: no questions, and the cluster's host keys only."""
    ipv6 = this_node.lines(data, "ssconf_primary_ip_family")[:1] == ["10"]
    return [
        "-q",
        "-6" if ipv6 else "-4",
        "-oBatchMode=yes",
        "-oEscapeChar=none",
        f"-oConnectTimeout={_CONNECT_LIMIT}",
        "-oStrictHostKeyChecking=yes",
        "-oHashKnownHosts=no",
        "-oCheckHostIp=no",
        "-oUserKnownHostsFile=/dev/null",
        f"-oGlobalKnownHostsFile={data}/known_hosts",
        f"-oHostKeyAlias={this_node.cluster_name(data)}",
    ]


def _read(command: str, options: Sequence[str], ports: dict[str, str], node: str) -> NodeFile:
    port = [f"-oPort={ports[node]}"] if node in ports else []
    try:
        ended = run_program(
            [SSH, *options, *port, f"root@{node}", command], _LIMIT, output_limit=_LONGEST_FILE
        )
    except OSError as err:
        return NodeFile(node, None, f"{SSH}: {reason_of(err)}")
    if ended.fault:
        return NodeFile(node, None, ended.fault)
    digests, _, content = ended.output.partition(b"\0")
    if ended.status == _NO_FILE:
        return NodeFile(node, None, digests=digests)
    if ended.status:
        text = " ".join(ended.errors.decode(errors="replace").split())
        return NodeFile(node, None, text or f"ssh ended with status {ended.status}")
    return NodeFile(node, content, digests=digests)
