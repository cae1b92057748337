"""A status with something of everything in it."""

from __future__ import annotations

from typing import Final

from ganeti_steward.allocators.capacity.standard_room import Room
from ganeti_steward.allocators.overview.amounts import Amount, Filled, FilledGroup
from ganeti_steward.plugins.maintenance.edges.history import AuditEntry
from ganeti_steward.plugins.maintenance.edges.poll import Poll
from ganeti_steward.plugins.maintenance.edges.status import Candidate, Figures, RoundLine, Status
from ganeti_steward.plugins.model.incident import Incident, Submission
from ganeti_steward.plugins.model.progress import Emptied
from ganeti_steward.plugins.model.routine import RoutineJob
from ganeti_steward.plugins.model.task import Held
from ganeti_steward.plugins.model.world import Refused, Reported, Silent

NOW: Final = 1_767_787_200 * 10**9
SECOND: Final = 10**9

ROOM: Final = Room("drbd", 2048, 20480, 2, 12)

INCIDENT: Final = Incident(
    uuid="11111111-1111-5111-8111-111111111111",
    node="uuid-1",
    node_name="node1.lab",
    original=b'{"details":{"disk":"sda"},"status":"evacuate"}',
    action="evacuate",
    status="pending",
    jobs=(5, 6, 7),
    open=(Submission("s1", "move", ("node1.lab", "node2.lab"), ("web1",), NOW, (7, 6)),),
    first_seen=NOW - 600 * SECOND,
    observed_since=NOW - 600 * SECOND,
    changed=NOW - 300 * SECOND,
    progressed=NOW - 60 * SECOND,
    note="the node is being evacuated",
    unmovable=(("web2", "its disk template is file"),),
)
DONE: Final = Incident(
    uuid="22222222-2222-5222-8222-222222222222",
    node="uuid-2",
    node_name="node2.lab",
    original=b'{"command":"reseat","status":"live-repair"}',
    action="live-repair",
    status="failed",
    tag="maintd:repairfailed:22222222-2222-5222-8222-222222222222",
    tagged=True,
)
_AMOUNTS: Final = (Amount(1024, 4096, 512), Amount(0, None), Amount(2, 8))
HELD: Final = (
    Held(INCIDENT.uuid, "stuck", "nothing has ended for 90000 s", (("elapsed", 90000),)),
    Held("cluster", "pause", "paused: new switch"),
)
STATUS: Final = Status(
    started=NOW - 3600 * SECOND,
    mode="act",
    pause="new switch",
    emptied={INCIDENT.uuid: Emptied(2, 4)},
    incidents=(INCIDENT, DONE),
    held=HELD,
    routine=(RoutineJob(3, "rebalance", "move", "", ("node4.lab",), ("web3",), 2048, 7, "error"),),
    waiting=(6, 7),
    nodes={f"uuid-{n}": f"node{n}.lab" for n in (2, 1, 3, 4, 5)},
    poll=Poll(
        {
            "uuid-1": Reported(INCIDENT.original, "evacuate", "", NOW - SECOND),
            "uuid-2": Reported(b'{"status":"Ok"}', "Ok", "", NOW),
            "uuid-3": Silent(NOW - 5, "no route"),
            "uuid-4": Refused(NOW - 6, "901 s old"),
        },
        {"old": 3},
        7,
        NOW - SECOND,
        2.5,
    ),
    rounds=9,
    round_ended=NOW - 30 * SECOND,
    round_seconds=0.5,
    started_tasks={"drain": 1, "move": 4},
    candidates=(
        Candidate("uuid-1", "node1.lab", "same"),
        Candidate("uuid-2", "node2.lab", "differs", ("[maintd]", "plugin site")),
        Candidate("uuid-3", "node3.lab", "not-known", why="no report"),
    ),
    recent=(RoundLine(9, NOW - 30 * SECOND, 0.5, 2, 1, ""),),
    history=(
        AuditEntry(
            NOW, "change", INCIDENT.uuid, "uuid-1", "node1.lab", "started", "noted", "pending", "it"
        ),
    ),
    figures=Figures("cluster1.lab", ("web2",), 2, ("web1",), (("default", 1.5),), (ROOM,)),
    overview=(
        FilledGroup(
            Filled("default", _AMOUNTS), (Filled("node1.lab", _AMOUNTS, (), ("drained",)),)
        ),
    ),
)
