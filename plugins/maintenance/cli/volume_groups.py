"""``gnt-steward volume-groups``: what allocators know of volume groups; read it by a job."""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final

from ganeti_steward.allocators.state.volume_groups import (
    KeptGroups,
    NodeGroups,
    Space,
    read_kept,
    write_kept,
)
from ganeti_steward.core import builtins
from ganeti_steward.core.commands.cluster_options import add_source_options, source_options
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import (
    Value,
    add_field_options,
    is_list,
    print_fields,
    print_notes,
)
from ganeti_steward.core.errors import EXIT_OK, StewardError, reason_of
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.sources import open_luxid
from ganeti_steward.core.ganeti.this_node import DATA
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.model.job_state import SUCCESS, JobState
from ganeti_steward.core.typed_json import from_json
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.volume_groups import (
    kept_before,
    kept_with,
    read_places,
)
from ganeti_steward.plugins.maintenance.queue.short_jobs import run_short

#: Field -> heading.
_FIELDS: Final = {
    "node": "Node",
    "group": "Group",
    "total": "Total",
    "free": "Free",
    "age": "Age",
    "used": "Used",
    "cluster": "Cluster",
}
_USUAL: Final = ("node", "group", "total", "free", "age", "used")

#: The text and the source for the reason trail of the job.
_TRAIL: Final = (("gnt-steward", "volume-groups: read the figures of volume groups"),)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    describe(
        parser,
        {
            "gnt-steward volume-groups": "what allocators know of volume groups",
            "gnt-steward volume-groups --update": "read it now, such as from cron",
            "gnt-steward volume-groups --update -o +cluster": "read it now, and list it",
        },
        units="Sizes are in MiB, ages in seconds.",
    )
    parser.add_argument(
        "--update",
        action="store_true",
        help="read it by a job and from Ganeti's configuration, and list it with -o or --json only",
    )
    add_field_options(parser, _FIELDS)
    add_source_options(parser, positional=False, files=False, rapi=False)
    parser.set_defaults(data=DATA, kept=builtins.KEPT_GROUPS)


def run(options: argparse.Namespace) -> int:
    """Print a row for each volume group of each node."""
    if options.update:
        luxi = open_luxid(source_options(options))
        max_age = configuration(("maintd",)).section(Maintd).volume_groups_age
        print_notes(_update(luxi, options.data, options.kept, max_age, time.sleep))
        if not (is_list(options) or options.json):
            return EXIT_OK
    kept = read_kept(options.kept)
    print_fields(options, _FIELDS, _USUAL, list(_rows(kept, time.time())) if kept else [])
    print_notes(_notes(kept, time.time()))
    return EXIT_OK


def _rows(kept: KeptGroups, now: float) -> Iterator[dict[str, Value]]:
    for name, node in sorted(kept.nodes.items()):
        for group, (total, free) in sorted(node.groups.items()):
            yield {
                "node": name,
                "group": group,
                "total": total,
                "free": free,
                "age": int(now) - node.at,
                "used": kept.current(name, now) is not None,
                "cluster": group == kept.volume_group,
            }


def _notes(kept: KeptGroups | None, now: float) -> Iterator[str]:
    if kept is None:
        yield "nothing is kept here: --update on the master reads it"
        return
    for name, why in sorted(kept.suspected(now).items()):
        yield f"{name} {why}, so allocators use it after others"
    if kept.disks:
        number = counted(len(kept.disks), "instance")
        have = "has" if len(kept.disks) == 1 else "have"
        yield f"{number} {have} disks outside of the cluster's volume group {kept.volume_group}"


def _update(
    luxi: Luxi, data: str, path: str, max_age: float, sleep: Callable[[float], None]
) -> Iterator[str]:
    """Read and keep everything; what could not be read, a sentence each.  Raises StewardError."""
    cluster = luxi.info()["name"]
    try:
        found = read_places(data)
    except OSError as err:
        raise StewardError(f"{data} cannot be read: {reason_of(err)}") from None
    if cluster != found.cluster:
        raise StewardError(f"{luxi.where} does not belong to {found.cluster}, whose master this is")
    nodes = luxi.rows("node", ("name", "offline", "vm_capable"))
    live = [node["name"] for node in nodes if node["vm_capable"] and not node["offline"]]
    at = int(time.time())
    groups = _groups(luxi, live, sleep) if live else {}
    read = {name: NodeGroups(at, one) for name, one in groups.items()}
    there = [node["name"] for node in nodes]
    write_kept(kept_with(kept_before(path), found, read, there, max_age), path)
    for name in live:
        if name not in groups:
            yield f"{name} has reported no volume group"


def _groups(
    luxi: Luxi, nodes: list[str], sleep: Callable[[float], None]
) -> dict[str, dict[str, Space]]:
    """Node -> its volume groups, by a job; raises StewardError."""
    operation = {
        "OP_ID": "OP_NODE_QUERY_STORAGE",
        "storage_type": "lvm-vg",
        "output_fields": ["node", "name", "size", "free"],
        "nodes": nodes,
    }
    (state,) = run_short(luxi, [[operation]], [_TRAIL], sleep)
    if state.status != SUCCESS:
        raise StewardError(
            f"{luxi.where}: job {state.number}, which queries the nodes' volume groups, ended with "
            f"{state.status}: {state.error}"
        )
    return _read(luxi, state)


def _read(luxi: Luxi, state: JobState) -> dict[str, dict[str, Space]]:
    found: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    try:
        rows = from_json(list[tuple[str, str, float, float]], state.results[0])
        for node, name, size, free in rows:
            found[node][name] = [int(size), int(free)]
        return from_json(dict[str, dict[str, Space]], dict(found))
    except (IndexError, OverflowError, ValueError) as err:
        raise StewardError(
            f"{luxi.where}: job {state.number} did not return what Ganeti 3 returns ({err})"
        ) from None
