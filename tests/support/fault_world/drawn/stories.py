"""Faults that hardly ever meet by chance in the order in which they matter, one after another.

Each of them is a fault like any other: a history can be played without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fault_world.faults import Fault
from fault_world.kinds import KINDS
from ganeti_steward.plugins.model.incident import CANCEL_TAG, OPT_OUT_TAG, STOPPED_TAG

if TYPE_CHECKING:
    from fault_world.world import World

#: How many stories a history has.
_MANY: Final = (1, 1, 1, 2)
#: The share of the time of a history in which stories begin.
_BEGINNING: Final = 0.15

NODE: Final = "node"
PEER: Final = "peer"
OTHER: Final = "other"
OTHERS: Final = "others"
MASTER: Final = "master"
COPIES: Final = "copies"
"""every instance that runs on the node and has another copy"""


class Event(NamedTuple):
    """One fault of a story."""

    kind: str
    after: tuple[float, float]
    """seconds since the event before, at least and at most"""
    about: str = ""
    lasts: float | None = None
    """seconds; None: drawn for its kind"""
    detail: str | None = None
    """None: drawn for its kind"""


def _ill(action: str, about: str = NODE, after: tuple[float, float] = (0, 60)) -> Event:
    return Event("falls-ill", after, about, 1800, action)


def _says(tag: str, after: tuple[float, float]) -> Event:
    return Event("tag-set", after, NODE, detail=tag)


#: The word of a person about an incident that is long over.
_OLD_WORD: Final = f"{STOPPED_TAG}00000000-0000-4000-8000-000000000000"
#: A node runs, and neither Ganeti nor the daemon reaches it.
_UNREACHED: Final = (
    Event("agent-silent", (10, 150), NODE, 1800),
    Event("noded-hangs", (0, 5), NODE, 1800),
)
#: The same once its repair has begun, and before its instances have left.
_ONCE_BEGUN: Final = (
    Event("locks-held", (0, 0), COPIES, 200),
    _ill("evacuate-failover", after=(0, 0)),
    Event("agent-silent", (120, 180), NODE, 1800),
    Event("noded-hangs", (0, 5), NODE, 1800),
)

STORIES: Final[Mapping[str, Sequence[Event]]] = {
    "off with the only good copies": (
        Event("disk-degrades", (0, 0), COPIES),
        _ill("evacuate-failover"),
        Event("loses-power", (30, 240), NODE, 3600),
        _says(STOPPED_TAG, (20, 120)),
    ),
    "off with the only good copies, and given up": (
        Event("disk-degrades", (100, 200), COPIES),
        Event("loses-power", (100, 400), NODE, 3600),
        Event("node-given-up", (20, 120), NODE),
    ),
    "off with good copies, and given up": (
        Event("loses-power", (200, 400), NODE, 3600),
        Event("node-given-up", (20, 120), NODE),
    ),
    "cannot be reached, and runs": (
        _says(_OLD_WORD, (0, 0)),
        Event("locks-held", (0, 30), COPIES),
        _ill("evacuate", after=(0, 0)),
        *_UNREACHED,
    ),
    "to be switched off, and stays on": (
        Event("power-stays", (0, 0), "", 1800),
        *_ONCE_BEGUN,
    ),
    "switched off, on, and ill again": (
        _ill("evacuate-failover"),
        _says(STOPPED_TAG, (60, 240)),
        Event("loses-power", (0, 0), NODE, 60),
        _ill("evacuate", after=(90, 200)),
        *_UNREACHED,
    ),
    "ill while its disks are synchronized": (
        Event("disk-degrades", (0, 0), COPIES),
        Event("resync-stalls", (0, 5), "", 900),
        Event("watcher-runs", (0, 5)),
        _ill("evacuate"),
    ),
    "ill one after the other": (
        _ill("evacuate"),
        _ill("evacuate", OTHER, (60, 200)),
        _ill("evacuate", PEER, (60, 200)),
    ),
    "excluded, and ill": (
        _says(OPT_OUT_TAG, (0, 0)),
        _ill("evacuate"),
        Event("instance-excluded", (0, 200), COPIES),
    ),
    "a report that is over": (
        Event("falls-ill", (0, 0), NODE, 100, "evacuate"),
        Event("wrong-reports", (60, 90), NODE, 1800, "old"),
    ),
    "the clock is set back, and another master": (
        _ill("evacuate"),
        Event("clock-jumps", (0, 200), MASTER, detail="-3600"),
        Event("master-failover", (5, 100), OTHER),
        Event("record-restored", (5, 200)),
    ),
    "another master whose clock is behind, and back": (
        Event("clock-jumps", (0, 0), OTHER, detail="-3600"),
        Event("master-failover", (30, 60), OTHER),
        _ill("evacuate", after=(0, 0)),
        Event("master-failover", (120, 240), MASTER),
    ),
    "a day ahead, another master, and back": (
        Event("clock-jumps", (0, 0), MASTER, detail="86400"),
        _ill("evacuate", after=(0, 30)),
        Event("clock-jumps", (60, 120), MASTER, detail="-86400"),
        Event("master-failover", (0, 60), OTHER),
        _ill("evacuate", PEER, (0, 60)),
        Event("master-failover", (120, 240), MASTER),
    ),
    "a cancelled maintenance is put back after a failover": (
        Event("maintenance-requested", (0, 60), NODE, 60, "stop,command:reboot"),
        _says(CANCEL_TAG, (0, 300)),
        Event("master-failover", (90, 300), OTHER),
        Event("record-restored", (20, 60), detail="maintenance"),
        Event("record-restored", (20, 60), detail="maintenance"),
        Event("record-restored", (20, 60), detail="maintenance"),
    ),
    "a cancelled maintenance is put back before a daemon begins": (
        Event("maintenance-requested", (0, 60), NODE, 60, "stop,power"),
        _says(CANCEL_TAG, (0, 300)),
        Event("master-failover", (90, 300), OTHER),
        Event("record-restored", (6, 7), detail="maintenance"),
    ),
    "forgotten, put back, and another master": (
        Event("falls-ill", (0, 0), NODE, 100, "evacuate"),
        Event("master-failover", (400, 600), OTHER),
        Event("record-restored", (6, 60)),
        Event("record-restored", (6, 60)),
    ),
    "a record holds all jobs": (
        _ill("evacuate"),
        Event("record-pauses", (60, 200)),
    ),
    "a record holds all jobs, and another master": (
        _ill("evacuate"),
        Event("master-failover", (60, 200), OTHER),
        Event("locks-held", (6, 7), COPIES),
        Event("record-pauses", (0, 2)),
    ),
    "deposed, with something to do": (
        Event("master-left-behind", (0, 0), OTHER, 900, "agents-only"),
        _ill("evacuate", after=(0, 120)),
        _ill("live-repair", PEER, (0, 200)),
    ),
    "off while its command runs": (
        Event("surprise", (0, 0), "", 1800, "off-in-a-command"),
        _ill("live-repair"),
    ),
    "healthy before its command comes": (
        Event("surprise", (0, 0), "", 1800, "silent-once-recorded"),
        Event("falls-ill", (0, 0), NODE, 100, "live-repair"),
    ),
    "the master is maintained": (
        Event("locks-held", (0, 0), COPIES, 300),
        Event("maintenance-requested", (0, 60), MASTER, 60, "stop,with-master,permitted"),
    ),
    "maintained with its peer": (
        Event("maintenance-requested", (0, 60), NODE, 600, "stop"),
        Event("maintenance-requested", (0, 60), PEER, 600, "stop"),
        Event("maintenance-requested", (0, 60), OTHER, 600, "stop,by:600,takes:900"),
    ),
    "ill while another is ready": (
        Event("maintenance-requested", (0, 60), NODE, 900, "stop"),
        _ill("evacuate", OTHER, (200, 300)),
    ),
    "canceled while it is rebooted": (
        Event("maintenance-requested", (0, 60), NODE, 60, "stop,command:reboot"),
        _says(CANCEL_TAG, (100, 300)),
        _ill("evacuate", OTHER, (0, 60)),
    ),
    "never back from its command": (
        Event("maintenance-requested", (0, 0), NODE, 60, "stop,command:reboot"),
        Event("loses-power", (60, 150), NODE, 5000),
        _ill("evacuate", OTHER, (600, 700)),
        Event("results-removed", (60, 300), NODE),
    ),
    "canceled once it is ready": (
        Event("maintenance-requested", (0, 0), NODE, 900, "stop"),
        _says(CANCEL_TAG, (150, 600)),
        Event("maintenance-requested", (0, 60), OTHER, 60, "stop"),
    ),
    "canceled while it is emptied": (
        Event("maintenance-requested", (0, 60), NODE, 60, "stop"),
        _says(CANCEL_TAG, (40, 120)),
        Event("maintenance-requested", (60, 120), OTHER, 60, "stop"),
    ),
    "blocked while it is emptied": (
        Event("maintenance-requested", (0, 0), NODE, 600, "stop"),
        Event("disk-degrades", (60, 120), COPIES),
        Event("maintenance-requested", (0, 60), OTHER, 60, "stop"),
    ),
    "another daemon before it is rebooted": (
        Event("maintenance-requested", (0, 0), NODE, 60, "stop,command:reboot"),
        *(Event("daemon-killed", (10, 40)) for _ in range(8)),
    ),
    "reports something else each minute": (Event("falls-ill", (0, 60), NODE, 1800, "changing"),),
    "leaves once it is emptied": (
        _ill("evacuate"),
        Event("node-removed", (300, 600), NODE),
    ),
    "another is ill once its repair has failed": (
        Event("surprise", (0, 0), "", 900, "off-in-a-command"),
        Event("falls-ill", (0, 60), NODE, 120, "live-repair"),
        _ill("evacuate", OTHER, (200, 300)),
    ),
    "edited while it waits": (
        _ill("evacuate"),
        Event("record-edited", (120, 280)),
    ),
    "the others are drained": (
        Event("node-drained", (0, 0), OTHERS),
        _ill("evacuate"),
    ),
    "nothing has an effect": (Event("no-effect", (0, 0), "", 1800), _ill("evacuate")),
    "nothing succeeds": (
        Event("failing-operations", (0, 0), "", 1200, "1"),
        _ill("evacuate"),
    ),
    "each move fails": (
        Event("node-drained", (0, 0), NODE),
        Event("failing-operations", (0, 0), "", 1200, "1"),
        _ill("evacuate"),
    ),
    "its jobs fail, and are gone": (
        Event("failing-operations", (0, 0), "", 600, "1"),
        Event("archived-at-once", (0, 0), "", 1200, "removed"),
        _ill("evacuate"),
    ),
    "its record is deleted while its jobs are stored late": (
        Event("node-drained", (0, 0), NODE),
        Event("surprise", (0, 0), "", 900, "deleted-while-stored-late"),
        _ill("evacuate"),
    ),
    "records are not written": (
        _ill("evacuate"),
        Event("records-fail", (20, 150), "", 300, "1"),
    ),
    "no record is written": (
        _ill("evacuate"),
        Event("records-fail", (0, 60), "", 400, "1,never"),
    ),
    "rebooted by its command": (
        Event("maintenance-requested", (0, 60), NODE, 60, "stop,command:reboot"),
    ),
    "rebooted by its power": (
        Event("maintenance-requested", (0, 60), NODE, 60, "stop,power"),
        Event("agent-silent", (150, 200), NODE, 1800),
        Event("watcher-runs", (200, 300)),
        Event("watcher-runs", (200, 300)),
    ),
    "deposed between the record and the submission": (
        Event("surprise", (0, 0), "", 900, "stopped-and-deposed-once-recorded"),
        _ill("evacuate"),
    ),
    "everything is slow": (
        _ill("evacuate"),
        Event("slow-calls", (30, 120), "", 1800, "25"),
    ),
    "canceled while its jobs are held": (
        Event("jobs-held", (0, 0), "", 1200, "PAUSE daemon"),
        _ill("evacuate"),
        _says(CANCEL_TAG, (60, 300)),
    ),
    "silent while it would be healthy": (
        Event("falls-ill", (0, 0), NODE, 60, "evacuate"),
        Event("agent-silent", (90, 200), NODE, 200),
    ),
    "switched on while its instances wait": (
        Event("surprise", (0, 0), "", 1800, "paused-once-it-is-off"),
        *_ONCE_BEGUN,
    ),
    "canceled while it runs": (_ill("evacuate"), _says(CANCEL_TAG, (60, 300))),
    "its record is deleted once its command has failed": (
        Event("surprise", (0, 0), "", 1800, "off-in-a-command"),
        _ill("live-repair"),
        Event("record-deleted", (150, 200)),
    ),
    "dead": (Event("loses-power", (60, 120), NODE, 3600),),
    "dead, and comes back": (Event("loses-power", (60, 120), NODE),),
    "dead with the only good copies": (
        Event("disk-degrades", (200, 300), COPIES),
        Event("loses-power", (90, 150), NODE, 3600),
    ),
    "dead for all that is known, and runs": (
        Event("network-cut", (60, 120), NODE, 1800),
        Event("noded-hangs", (0, 5), NODE, 1800),
    ),
    "dead for all that is known, and its peers are silent": (
        Event("agent-silent", (60, 100), PEER, 1800),
        Event("network-cut", (0, 60), NODE, 1800),
    ),
    "dead for the master alone": (
        Event("disk-degrades", (30, 40), COPIES),
        Event("path-cut", (10, 60), NODE, 1800),
    ),
    "dead but for its machine": (
        Event("agent-silent", (60, 100), NODE, 1800),
        Event("noded-hangs", (0, 5), NODE, 1800),
        Event("disk-degrades", (0, 10), COPIES),
    ),
    "dead for all that is known, and back": (
        Event("power-stays", (0, 10), "", 1800),
        Event("disk-degrades", (40, 50), COPIES),
        Event("network-cut", (10, 60), NODE, 600),
    ),
    "dead one after the other": (
        Event("loses-power", (60, 120), NODE, 1800),
        Event("network-cut", (0, 300), OTHER, 1800),
    ),
    "dead, and its power stays": (
        Event("power-stays", (0, 10), "", 900),
        Event("network-cut", (60, 120), NODE, 1800),
        Event("disk-degrades", (0, 10), COPIES),
    ),
    "reports the same again": (
        Event("falls-ill", (0, 0), NODE, 300, "live-repair"),
        Event("daemon-killed", (20, 120)),
        Event("agent-forgets", (0, 60), NODE),
        Event("falls-ill", (300, 400), NODE, 600, "live-repair"),
    ),
}


class Alone(NamedTuple):
    """What a story needs that has an effect without other faults only."""

    hours: float
    settings: Mapping[str, Any]
    """of the daemon"""


_SWITCHES_OFF: Final = {"fence": "act", "hold_time": 0}
_DEAD: Final = {"dead_after": 60, "fence": "act", "poll_interval": 15}
_REPAIRED: Final = {"routine": ("harep",), "failover_unsynced": False}
_CHECKED: Final = {
    "routine": ("check-disks",),
    "disk_check_interval": 60,
    "failover_unsynced": False,
}
#: Story -> what it needs.
ALONE: Final[Mapping[str, Alone]] = {
    "switched on while its instances wait": Alone(0.5, _SWITCHES_OFF),
    "to be switched off, and stays on": Alone(0.3, _SWITCHES_OFF),
    "healthy before its command comes": Alone(0.1, {"hold_time": 0}),
    "edited while it waits": Alone(0.2, {"hold_time": 300}),
    "rebooted by its power": Alone(0.4, {"routine": (), "hold_time": 0}),
    "ill while its disks are synchronized": Alone(0.3, {"hold_time": 0}),
    "ill one after the other": Alone(0.4, {"hold_time": 0, "most_nodes": 3, "most_waiting": 1}),
    "a report that is over": Alone(0.3, {"hold_time": 300, "report_max_age": 150}),
    "its record is deleted once its command has failed": Alone(0.2, {"hold_time": 0}),
    "silent while it would be healthy": Alone(0.2, {"hold_time": 300, "healthy_delay": 300}),
    "maintained with its peer": Alone(0.3, {"most_nodes": 2, "most_waiting": 2}),
    "another is ill once its repair has failed": Alone(
        0.3, {"hold_time": 0, "most_nodes": 2, "most_waiting": 2}
    ),
    "never back from its command": Alone(0.5, {"hold_time": 0, "return_limit": 600}),
    "another daemon before it is rebooted": Alone(0.2, {"hold_time": 0}),
    "blocked while it is emptied": Alone(0.5, {"hold_time": 0, "blocked_limit": 60, "routine": ()}),
    "ill while another is ready": Alone(0.3, {"hold_time": 0, "most_nodes": 1, "most_waiting": 1}),
    "each move fails": Alone(0.3, {"hold_time": 0, "move_attempts": 3, "retry_delay": 90}),
    "off with the only good copies": Alone(0.2, {"hold_time": 0}),
    "off with the only good copies, and given up": Alone(0.3, _REPAIRED),
    "off with good copies, and given up": Alone(0.3, _REPAIRED),
    "cannot be reached, and runs": Alone(0.2, {"hold_time": 0}),
    "dead": Alone(0.4, _DEAD),
    "dead, and comes back": Alone(0.4, _DEAD),
    "dead with the only good copies": Alone(0.4, _DEAD | _CHECKED),
    "dead for all that is known, and runs": Alone(0.3, _DEAD),
    "dead for all that is known, and its peers are silent": Alone(0.3, _DEAD),
    "dead for the master alone": Alone(0.4, _DEAD),
    "dead but for its machine": Alone(0.4, _DEAD),
    "dead for all that is known, and back": Alone(0.5, _DEAD),
    "dead one after the other": Alone(0.3, _DEAD),
    "dead, and its power stays": Alone(0.4, _DEAD),
    "reports something else each minute": Alone(0.5, {"incident_pause": 60, "most_incidents": 1}),
}


def alone(seed: str) -> Alone | None:
    """What the only story of a history needs; None: it has others, or other faults."""
    return next((ALONE[name] for name in drawn_stories(seed) if name in ALONE), None)


def drawn_stories(seed: str) -> list[str]:
    """The names of the stories of a history."""
    return _drawn(Random(f"{seed} stories"))


def _drawn(random: Random) -> list[str]:
    """One of `ALONE` is the only one."""
    names = random.sample(sorted(STORIES), random.choice(_MANY))
    return next(([name] for name in names if name in ALONE), names)


def story_faults(seed: str, hours: float, world: World) -> Iterator[Fault]:
    """The faults of the stories of a history."""
    random = Random(f"{seed} stories")
    for name in _drawn(random):
        at, cast = random.uniform(0, hours * 3600 * _BEGINNING), _cast(random, world)
        for event in STORIES[name]:
            at += random.uniform(*event.after)
            kind = KINDS[event.kind]
            lasts = random.uniform(*kind.lasts) if event.lasts is None else event.lasts
            detail = random.choice(kind.details) if event.detail is None else event.detail
            for subject in cast[event.about]:
                if at < hours * 3600:
                    yield Fault(round(at, 1), event.kind, subject, round(lasts, 1), detail)


def _cast(random: Random, world: World) -> Mapping[str, Sequence[str]]:
    """Who a story is about."""
    rows, master = [*world.ganeti.instances], world.ganeti.master
    nodes = [row["name"] for row in world.ganeti.nodes]
    node = random.choice([name for name in nodes if name != master])
    copies = [row for row in rows if row["pnode"] == node and row["snodes"]]
    peers = [name for row in copies for name in row["snodes"]]
    others = [name for name in nodes if name not in (node, master)]
    return {
        "": [""],
        NODE: [node],
        PEER: [random.choice(peers or others or [node])],
        OTHER: [random.choice(others or [node])],
        OTHERS: others,
        MASTER: [master],
        COPIES: _names(copies),
    }


def _names(rows: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    return [row["name"] for row in rows]
