"""The work on a node under planned maintenance: done by an admin, or by what the daemon starts."""

from __future__ import annotations

from typing import Final

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.model.cluster import Node
from ganeti_steward.core.model.finding import LIVE_REPAIR, is_name
from ganeti_steward.core.node_agent.protocol import HOOK
from ganeti_steward.plugins.model.incident import MAINTENANCE, Incident, Maintenance, Submission
from ganeti_steward.plugins.model.task import (
    AFTER,
    AROUND,
    BEFORE,
    MASTER_AFTER,
    MASTER_BEFORE,
    WORK,
)

#: An admin does the work, and reports when it is over.
BY_ADMIN: Final = "none"
#: Ganeti's out-of-band program switches the node off and on.
POWER: Final = "power"
#: The agent of the node runs the repair command whose name follows.
_COMMAND: Final = "command:"


def is_work(text: str) -> bool:
    """Whether this names a kind of work."""
    return text in (BY_ADMIN, POWER) or bool(command_of(text))


def command_of(work: str) -> str:
    """The repair command of a kind of work; empty where it has none."""
    name = work.removeprefix(_COMMAND)
    return name if work.startswith(_COMMAND) and is_name(name) else ""


def requested(node: Node, request: Maintenance, now: int, uuid: str, reason: str) -> Incident:
    """The record of a maintenance that is requested now.

    ``now``: ns since the epoch; of several nodes the one with the lowest is taken first.
    """
    wanted = {"choice": request.choice, "returns": request.returns, "work": request.work}
    around = commands_around(request)
    wanted |= {step: command for step, command in around.items() if command}
    made = Incident(
        uuid,
        node.uuid,
        node.name,
        canonical({"status": MAINTENANCE, "request": wanted, "uuid": uuid}),
        MAINTENANCE,
        first_seen=now,
        observed_since=now,
        changed=now,
        progressed=now,
        note=f"requested: {reason}" if reason else "requested",
        maintenance=request,
    )
    return made._replace(tag=made.ready_tag)


def misses_deadline(request: Maintenance, now: int) -> bool:
    """Whether a maintenance that begins now would end after its deadline; ``now``: ns."""
    return 0 < request.deadline < now + request.expected * 10**9


def commands_around(request: Maintenance) -> dict[str, str]:
    """Step -> the command that is run in it; empty: none."""
    return {
        MASTER_BEFORE: request.master_before,
        BEFORE: request.before,
        AFTER: request.after,
        MASTER_AFTER: request.master_after,
    }


def command_object(incident: Incident, command: str, step: str) -> bytes:
    """The diagnose object that requests a repair command of a maintenance from an agent.

    It differs for each maintenance and step, so that no agent takes one for the other.
    """
    wanted = {"status": LIVE_REPAIR, "command": command, "maintenance": incident.uuid}
    if step in (MASTER_BEFORE, MASTER_AFTER):
        wanted |= {"status": HOOK, "node": incident.node_name}
    return canonical({**wanted, "step": step} if step in AROUND else wanted)


def master_object(incident: Incident, master: str) -> bytes:
    """What requests from the agent of a candidate that it becomes the master; as canonical JSON.

    ``master``: the name of the node that is the master now.  It differs for each maintenance, and
    an agent follows the same one once only.
    """
    return canonical({"master": master, "maintenance": incident.uuid})


def runs_on(incident: Incident, submission: Submission) -> str:
    """The name of the node whose agent runs the command of a submission."""
    return submission.agent or incident.node_name


def work_began(incident: Incident) -> int:
    """When the work on the node was handed over, ns since the epoch; 0: not yet."""
    begun = incident.maintenance.begun if incident.maintenance else 0
    return begun or next((one.at for one in incident.open if one.step == WORK), 0)


def failed_around(step: str, node: str) -> str:
    """What it means, and what to do, when the command before or after the work has failed."""
    if step in (MASTER_BEFORE, BEFORE):
        return f"nothing has left {node}, and it is as it was"
    if step == MASTER_AFTER:
        return (
            f"{node} is in service again: do by hand what the command should have done, then "
            "acknowledge the incident"
        )
    return (
        f"{node} is not taken back, and what has left it stays away; when it is in order: "
        f"gnt-steward maintenance done {node}"
    )


def take_back_by_hand(node: str) -> str:
    """What to do about a node whose maintenance has failed."""
    return (
        f"all instances stay where they are, and {node} as it is: see gnt-instance list and "
        f"gnt-node list {node}, and where a migration was cut in half gnt-instance migrate "
        f"--cleanup INSTANCE; then take it back (gnt-node modify -D no {node}), or gnt-steward "
        f"maintenance start {node} again"
    )
