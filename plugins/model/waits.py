"""What a person can do about what the daemon holds back: a row for each word of a brake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ganeti_steward.plugins.model.task import Held

#: How a command begins that acts on the incident that is held back.
_OF_INCIDENT: Final = tuple(
    f"gnt-steward incident {one} {{subject}}" for one in ("show", "cancel", "fence")
)

_END: Final = "gnt-steward incident cancel {subject} ends it"
_LOOK: Final = "gnt-steward incident show {subject} says more; " + _END
_JOBS: Final = "gnt-job list shows the jobs"
_AUTHOR: Final = "report it to the author of the plugin"
_RECORD: Final = "gnt-filter info shows the rule, gnt-filter delete removes it"

#: Word -> what a person can do; ``{subject}``: what is held back, as in `Held.subject`.
STEPS: Final[Mapping[str, str]] = {
    "apart": f"gnt-steward maintenance list shows what is away; {_END}",
    "attempt": _LOOK,
    "canceled": "nothing is needed: the incident ends in the next round",
    "candidate": "gnt-steward check-config --all-nodes names what differs",
    "candidate-pool": "gnt-node modify --drained no NODE, --offline no or --master-capable yes "
    "makes another candidate possible",
    "changing": "see what changes in its report: gnt-steward diagnose there",
    "clock": "see chronyc tracking, or timedatectl, on {subject} and on the master",
    "configuration": "gnt-steward check-config",
    "consistency": _AUTHOR,
    "crash-loop": "look at its console, then gnt-instance startup {subject}",
    "deadline": "gnt-steward maintenance cancel {subject}, then request it again with another --by",
    "down": "see /var/log/ganeti/watcher.log on the master, and gnt-cluster watcher info",
    "failed-target": "gnt-steward incident list shows the failed repair; ack it",
    "fence": f"gnt-steward incident fence {{subject}} permits it; {_END}",
    "filter-action": "gnt-steward filter list",
    "gate": f"deal with what is named; {_END}",
    "hold": _END,
    "hook": "see what it does on that node; ending it there fails the maintenance, " + _END,
    "incidents": "gnt-steward incident ack or cancel one of them",
    "lookup": "see the connections to luxid, or whether the node agent runs",
    "master": "gnt-cluster master-failover on another candidate",
    "most-nodes": "gnt-steward incident list shows what is under repair; for a maintenance that is "
    "ready: gnt-steward maintenance done NODE",
    "most-waiting": "gnt-steward incident ack, or gnt-steward maintenance done NODE, for one of "
    "them",
    "not-named": _AUTHOR,
    "not-reported": f"see gnt-steward diagnose on the node; {_END}",
    "observe": 'set mode = "act" in [maintd]',
    "occupied": _LOOK,
    "old-copy": "gnt-instance failover starts the other copy, where the later data are lost",
    "opt-out": f"remove the tag maintd:off; {_END}",
    "orphan": _JOBS,
    "pause": "gnt-steward maintd resume, or gnt-steward maintenance resume",
    "person": _AUTHOR,
    "record": _RECORD,
    "repeated": f"look at the node; {_END}",
    "reporting": "see whether the disk is full, or what the plugin reports",
    "reserved": _JOBS,
    "round": "nothing is needed: the rest follows in the next round",
    "running": "gnt-job list shows the jobs, systemctl status gnt-steward-agent the agent",
    "silent": f"see systemctl status gnt-steward-agent on the node; {_END}",
    "slow-migration": "reduce what the instance writes, or end the migration with migrate_cancel "
    "in its QEMU monitor",
    "stopped": f"make sure that the node is off; {_END}",
    "storm": "find the common cause; gnt-steward maintd status names the nodes",
    "stuck": "gnt-steward incident show {subject}, gnt-job list: a job waits for a lock or hangs",
    "submit": "gnt-cluster queue undrain, where the queue is drained",
    "superseded": "it ends with that one",
    "tag": "nothing is needed: it is tried again",
    "tag-failed": "nothing is needed: it is tried again",
    "under-repair": "it ends with the repair: gnt-steward incident list",
    "unknown": "check the uuid, and remove the tag",
    "unmovable": "gnt-steward incident ack, when the copy on the other node may be used",
    "wait": _LOOK,
    "whole-cluster": _AUTHOR,
    "window": "wait, or change windows in [maintd]",
}


def step_of(held: Held) -> str:
    """What a person can do; empty for a word that no brake of the daemon has."""
    parts = STEPS.get(held.brake, "").split("; ")
    if " " in held.subject:
        # Routine work, such as "rebalance cluster", has no incident that a command could name.
        parts = [one for one in parts if not one.startswith(_OF_INCIDENT)]
    return "; ".join(parts).format(subject=held.subject)
