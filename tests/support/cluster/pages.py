"""Statuses that the page is looked at with: quiet, busy, failed, paused; of many nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import clusters
from statuses import NOW, SECOND

from ganeti_steward.allocators.capacity.standard_room import Room
from ganeti_steward.allocators.overview.amounts import Overview
from ganeti_steward.allocators.overview.filled import overview, with_placed
from ganeti_steward.allocators.state.load import load
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.plugins.maintenance.edges.history import AuditEntry
from ganeti_steward.plugins.maintenance.edges.poll import Poll
from ganeti_steward.plugins.maintenance.edges.status import Figures, RoundLine, Status
from ganeti_steward.plugins.model.incident import Incident, Submission
from ganeti_steward.plugins.model.routine import RoutineJob
from ganeti_steward.plugins.model.task import Held
from ganeti_steward.plugins.model.world import Observation, Reported, Silent

MINUTE: Final = 60 * SECOND
FAULT: Final = "luxid does not answer: no such file or directory"


def figures(nodes: int, moved: int) -> Overview:
    """Of a generated cluster, some instances of which change their primary."""
    groups = max(nodes // 40, 1)
    shape = (f"--nodes={nodes}", f"--groups={groups}", "--mix=drbd=1", "--seed=3", "--fill=.6")
    message = clusters.generate(*shape, "--offline=1", "--drained=1", "--per-node=4")
    message["request"] = {"type": "balance"}
    cluster, _ = read_message(json.dumps(message).encode())
    now = load(cluster, None, 0)
    two = [one for one in cluster.instances if len(one.nodes) == 2][:moved]
    return overview(now, with_placed(now, [(one, one.nodes[::-1]) for one in two]))


def quiet(nodes: int = 12, moved: int = 0) -> Status:
    """Nothing is wrong."""
    shown = figures(nodes, moved)
    names = [node.name for group in shown for node in group.nodes]
    healthy = Reported(b'{"status":"Ok"}', "Ok", "", NOW - 20 * SECOND)
    return Status(
        started=NOW - 9 * 24 * 60 * MINUTE,
        mode="act",
        incidents=(),
        nodes={f"uuid-{name}": name for name in names},
        poll=Poll({f"uuid-{name}": healthy for name in names}, {}, 77, NOW - 20 * SECOND, 0.4),
        rounds=120,
        round_ended=NOW - 12 * SECOND,
        round_seconds=0.4,
        recent=tuple(
            RoundLine(100 + n, NOW - (20 - n) * MINUTE, 0.4, 0, 0, "") for n in range(1, 21)
        ),
        overview=shown,
        figures=Figures(
            "cluster1.example.com",
            scores=tuple((one.whole.name, 1.5) for one in shown),
            room=(Room("drbd", 2048, 20480, 2, 1201),),
        ),
    )


def incident(number: int, node: str, **more: object) -> Incident:
    """An evacuation."""
    uuid = f"{number:08d}-1111-5111-8111-111111111111"
    original = (
        b'{"details":{"disk":"sda","errors":["reallocated sectors: 4711"]},"status":"evacuate"}'
    )
    one = Incident(uuid, f"uuid-{node}", node, original, "evacuate")
    one = one._replace(first_seen=NOW - 50 * MINUTE, changed=NOW - 40 * MINUTE)
    return one._replace(progressed=NOW - 3 * MINUTE, **more)  # type: ignore[arg-type]


def _observed(status: Status, seen: Mapping[str, Observation]) -> Status:
    found = {f"uuid-{name}": one for name, one in seen.items()}
    return status._replace(poll=status.poll._replace(observations=status.poll.observations | found))  # type: ignore[operator]


def busy(nodes: int = 12) -> Status:
    """A node is being evacuated, another one waits, a third one does not answer."""
    status = quiet(nodes, moved=3)
    first, second, third, *_ = status.nodes.values()
    task = Submission(
        "s1", "move", (first, third), ("web1.example.com",), NOW - 3 * MINUTE, (4711, 4712)
    )
    one = incident(1, first, status="pending", jobs=(4700, 4711, 4712), open=(task,))
    one = one._replace(note="the node is being evacuated: 2 of 7 instances are left")
    two = incident(2, second, note="reported since 2026-01-07 11:20")
    evacuate = Reported(one.original, "evacuate", "", NOW - 20 * SECOND)
    silent = Silent(NOW - 12 * MINUTE, "no connection: connection refused")
    status = _observed(status, {first: evacuate, second: evacuate, third: silent})
    history = [
        AuditEntry(
            NOW - 50 * MINUTE,
            "change",
            one.uuid,
            one.node,
            first,
            "observed",
            "new",
            "noted",
            "it reports evacuate",
        ),
        AuditEntry(
            NOW - 40 * MINUTE,
            "task",
            one.uuid,
            one.node,
            first,
            "drain",
            "",
            "",
            f"drain node {first}",
        ),
        AuditEntry(
            NOW - 40 * MINUTE,
            "change",
            one.uuid,
            one.node,
            first,
            "started",
            "noted",
            "pending",
            f"drain node {first}",
        ),
        AuditEntry(
            NOW - 3 * MINUTE,
            "held",
            two.uuid,
            two.node,
            second,
            "most-nodes",
            "",
            "",
            "1 node is under repair, the limit is 1",
        ),
    ]
    held = (
        Held(two.uuid, "most-nodes", "1 node is under repair, the limit is 1"),
        Held(one.uuid, "wait", "4 moves run already, the limit for one node is 4"),
    )
    jobs = (
        RoutineJob(4720, "rebalance", "move", "group00", (third,), ("web2.example.com",), 0,
                   NOW - 2 * MINUTE, "running"),
        RoutineJob(4690, "harep", "repair", "web3.example.com", (third,), ("web3.example.com",), 0,
                   NOW - 30 * MINUTE, "error", "disk 0 is degraded", NOW - 20 * MINUTE),
    )  # fmt: skip
    return status._replace(
        incidents=(one, two), held=held, history=tuple(history), routine=jobs, waiting=(4711, 4712)
    )


def failed(nodes: int = 12) -> Status:
    """A repair has failed, and so has the last round."""
    status = busy(nodes)
    uuid = "00000003-1111-5111-8111-111111111111"
    _, _, _, node, *_ = status.nodes.values()
    unmovable = (
        ("db1.example.com", "its disk template is file"),
        ("db2.example.com", "no node fits: 9 memory, 2 N+1"),
    )
    one = incident(3, node, status="failed", tag=f"maintd:repairfailed:{uuid}", tagged=True)
    one = one._replace(note="2 instances could not be moved", unmovable=unmovable)
    line = status.recent[-1]._replace(number=121, fault=FAULT)
    return status._replace(
        incidents=(*(status.incidents or ()), one),
        round_fault=FAULT,
        recent=(*status.recent[1:], line),
    )


def paused(nodes: int = 12) -> Status:
    """An admin has paused it, in observe mode."""
    held = Held("cluster", "pause", "paused: new switch in rack 7")
    return busy(nodes)._replace(mode="observe", pause="new switch in rack 7", held=(held,))


ALL: Final = {"quiet": quiet, "busy": busy, "failed": failed, "paused": paused}
