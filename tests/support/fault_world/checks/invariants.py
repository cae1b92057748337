"""The invariants by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: Name -> what must hold.
INVARIANTS: Final[Mapping[str, str]] = {
    "submitted-once": "The jobs of a submission are handed over once.",
    "recorded-first": "A repair is recorded before its jobs are handed over. Only routine work "
    "changes anything else.",
    "reported": "A node is drained, set offline or switched off only for a report that lasted "
    "hold-time, or if a person confirmed that it is off or requested maintenance.",
    "dead": "A silent node is repaired only after dead-after. It is not switched off while "
    "another node reaches it, or without the permission that fence needs. Nothing leaves it "
    "before it is offline.",
    "one-master": "A daemon that lost the vote for the master hands nothing over.",
    "accepted": "A record that only daemons changed is accepted by all daemons.",
    "written-back": "A daemon writes back a record that others changed.",
    "worst-first": "The most severe incident of a node is repaired first.",
    "storm": "Nothing is repaired while more nodes than storm-share have faults that no person "
    "knows.",
    "drained-first": "No instance moves off a faulty node that was not drained.",
    "migrates": "The repair evacuate stops no instance on a node in service.",
    "canceled": "A canceled incident begins nothing, and its queued jobs are canceled.",
    "not-again": "An incident that was canceled or removed begins nothing, whatever record is put "
    "back.",
    "retried": "A failed move is retried after retry-delay, at most move-attempts times. The same "
    "task succeeds at most four times in a row.",
    "open-until-ended": "A task is open in its record until its jobs and command end.",
    "result": "A repair is completed only after its command succeeded, or when no primary is left.",
    "acknowledged": "A result is acknowledged only after its tag was on the node.",
    "healthy": "An incident is forgotten only after other reports for healthy-delay.",
    "emptied": "No node is rebooted for maintenance, or set offline while it runs, with an "
    "instance on it. The daemon reboots only drained nodes.",
    "rebooted-once": "The daemon reboots a node once for one maintenance.",
    "returned": "A command reboots a node only after this daemon got its report. A node with a "
    "known boot id is back only after a reboot, or by a person's word.",
    "remembered": "What is drained, shut down or moved away for maintenance has a tag. A node that "
    "was a master candidate is one again when it is taken back.",
    "handed-over": "For a maintenance of the master one agent at most makes its node the master: a "
    "candidate in service, while no job goes on.",
    "around": "The command before a maintenance ends well before anything is done, the one after "
    "it before the node is taken back. Neither runs again after that.",
    "deadline": "No maintenance begins that is expected to end after its deadline.",
    "apart": "No two nodes of an instance are away for maintenance together.",
    "opted-out": "Nothing with the tag maintd:off, or in a group with it, is touched.",
    "paused": "Nothing is submitted while the last tags read have a pause.",
    "one-task": "No instance is in two jobs, no node in two repairs or two tasks.",
    "target-healthy": "Nothing moves to a node that is drained, offline, without memory, or has "
    "an incident that has not ended well.",
    "master-kept": "The master is never drained, set offline or switched off.",
    "candidates": "The master is not left as the only possible candidate.",
    "limits": "Repairs stay within most-nodes and most-waiting. A maintenance begins only while "
    "both kinds together do.",
    "waits-end": "Each wait ends when it says, or says what a person can do.",
    "planned-last": "No repair waits for planned maintenance.",
    "runs-once": "No instance runs on two nodes.",
    "data-kept": "No instance starts from an old copy, unless the other node has no power and "
    "failover-unsynced permits it or, for dead nodes and routine work, the last check found both "
    "in sync.",
    "copies-kept": "No good copy is given up while the instance could leave the faulty node "
    "first, or if it is the last one.",
    "command-reported": "A repair command runs only on the node that reports it, once for each "
    "id, and once an hour for an object.",
    "reported-once": "Each change of a record becomes one audit entry and one notification, in "
    "order, even over restarts.",
    "no-fault": "No round ends by an unexpected error.",
    "bounded": "Records, rules, tags, notes and threads left behind are bounded.",
    "ends": "When nothing fails any more and a person acknowledges results, every incident ends.",
}


class Broken(Exception):
    """An invariant does not hold."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name, text)
        self.name, self._text = name, text

    def __str__(self) -> str:
        return f"{self.name}: {self._text}"
