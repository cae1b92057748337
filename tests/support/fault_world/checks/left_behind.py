"""What is left when every incident has ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from fault_world.checks.texts import record_of
from fault_world.clock import SECOND
from ganeti_steward.plugins.model.incident import CANCEL_TAG

if TYPE_CHECKING:
    from fault_world.world import World

Require = Callable[[str, bool, str], None]
Row = Mapping[str, Any]

#: Threads of a daemon that has nothing to do: the loop and the polls.
_THREADS: Final = 2
#: Calls to luxid, and commands, that may be under way at any moment.
_CALLS: Final = 4
#: Seconds in which a job for a tag is handed over again, and ends.
_AGAIN: Final = 180


def check_left(world: World, records: Mapping[str, Row], require: Require) -> None:
    """Records, rules, tags, notes and threads are bounded."""
    check_records(world, records, require)
    _left_nodes(world, records, require)
    _rules(world, records, require)
    _tags(world, records, require)
    for daemon in world.daemons:
        threads = daemon.process.threads
        require("bounded", threads <= _THREADS + _CALLS, f"{threads} threads of {daemon.node}")
        noted = world.disks[daemon.node].calls.calls
        require("bounded", len(noted) <= _CALLS, f"{len(noted)} calls are noted")


def not_noticed(world: World, records: Mapping[str, Row]) -> set[str]:
    """The incidents whose tag of a result a person has removed."""
    tags = {tag for row in world.ganeti.nodes for tag in row["tags"]}
    return {
        uuid
        for uuid, one in records.items()
        if one["status"] in ("completed", "failed")
        and not (one["acknowledged"] or one.get("maintenance"))
        and one["tagged"]
        and one["tag"] not in tags
    }


def check_records(world: World, records: Mapping[str, Row], require: Require) -> None:
    """A node has few records."""
    most = world.settings.most_incidents + 2
    # Those that people have changed are ignored, or written back.
    own_records = [one for uuid, one in records.items() if uuid not in world.checks.deleted]
    for row in world.ganeti.nodes:
        reported = (one for one in own_records if not one.get("maintenance"))
        own = [one for one in reported if one["node"] == row["uuid"]]
        require("bounded", len(own) <= most, f"{row['name']} has {len(own)} records")


def _left_nodes(world: World, records: Mapping[str, Row], require: Require) -> None:
    there = {row["uuid"] for row in world.ganeti.nodes}
    for uuid, one in records.items():
        text = f"the record {uuid} of {one['node_name']}, which left the cluster"
        # What people have written back is ignored, and theirs to remove.
        require("bounded", one["node"] in there or uuid in world.checks.deleted, text)


def _rules(world: World, records: Mapping[str, Row], require: Require) -> None:
    """Other rules of the daemon are for incidents that it still works on."""
    active = [one for one in records.values() if one["status"] in ("noted", "pending")]
    own = [
        uuid
        for uuid, rule in world.luxid.filters.items()
        if record_of(rule) is None and rule["reason_trail"][0][0].startswith("maintd:")
    ]
    text = f"{len(own)} rules for {len(active)} incidents"
    require("bounded", len(own) <= 2 * len(active), text)


def _tags(world: World, records: Mapping[str, Row], require: Require) -> None:
    """Results are tagged for incidents that are known; what people set is theirs to remove."""
    for row in world.ganeti.nodes:
        for tag in row["tags"]:
            if tag.startswith(("maintd:repairready:", "maintd:closed:")):
                uuid = tag.rpartition(":")[2]
                known = uuid in records or uuid in world.checks.deleted
                require("bounded", known, f"{row['name']} has the tag {tag}")
            if tag.startswith(CANCEL_TAG):
                stays = _stays(world, records, tag.removeprefix(CANCEL_TAG))
                require("bounded", not stays, f"{row['name']} has the tag {tag}")


def _stays(world: World, records: Mapping[str, Row], uuid: str) -> bool:
    """Whether the tags of a canceled incident are left though nothing else uses its node.

    A job that failed is tried again later.
    """
    canceled = uuid in world.checks.canceled.recorded and uuid not in world.checks.deleted
    record = records.get(uuid, {})
    if not record and f"{CANCEL_TAG}{uuid}" in world.checks.results.removed_tags:
        return False  # a person has set it again, for an incident that has ended
    tried = record.get("retry_at", 0) + _AGAIN * SECOND
    used = any(one.get("open") for one in records.values() if one["node"] == record.get("node"))
    name = record.get("node_name", "")
    used |= any(name in one.nodes for one in world.checks.jobs.open)
    return canceled and not used and tried < world.clock.now
