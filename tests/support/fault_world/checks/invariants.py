"""The invariants by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: Name -> what must hold.
INVARIANTS: Final[Mapping[str, str]] = {
    "submitted-once": "The jobs of one submission are handed over once.",
    "recorded-first": "A repair's jobs are handed over after the record that announces them, "
    "and the daemon hands over no others that change anything but those of routine work.",
    "reported": "A node is drained, set offline or switched off only in a repair that was begun "
    "while a valid report of that node named a fault, or after a person "
    "confirmed that it is off, or requested its maintenance; and not before the report has lasted "
    "for hold-time.",
    "dead": "The repair of a node of which nothing answers is begun only after its agent has not "
    "answered for dead-after. It is not switched off while another node has a DRBD connection to "
    "it, while other master candidates reach it, or before a person permits it where fence is "
    "confirm, and nothing leaves it before it is marked offline.",
    "one-master": "A daemon whose node is not the master any more hands nothing over after the "
    "next vote.",
    "accepted": "A record that a daemon has written, and no one else has changed since, "
    "counts for every daemon that reads it.",
    "written-back": "A record that others have changed is written back by the daemon that knows "
    "it.",
    "worst-first": "Of several incidents of a node the most severe one is repaired first.",
    "storm": "Nothing is repaired while more nodes than storm-share report a fault of which no "
    "person knows.",
    "drained-first": "No instance is moved off an ill node that was not drained before.",
    "migrates": "The repair evacuate stops no instance on a node that is in service.",
    "canceled": "Nothing is begun for an incident that a person has canceled, and its queued jobs "
    "are canceled.",
    "not-again": "Nothing is begun for an incident once a daemon has recorded that it was "
    "canceled, or removed its record, whichever older record of it is written back.",
    "retried": "A move that failed is tried again after retry-delay, and not more often than "
    "move-attempts permits; the same task succeeds at most four times in a row.",
    "open-until-ended": "A task is open in its record until its jobs and its command have ended; "
    "an incident that has ended has no open command.",
    "result": "A record says how jobs and commands have ended: a repair is completed after its "
    "command has ended well, or when no instance has its primary on the node any more.",
    "acknowledged": "A result counts as acknowledged only after its tag was on the node.",
    "healthy": "An incident is forgotten only after its node has reported something else, and not "
    "it, for healthy-delay.",
    "emptied": "No node is rebooted for a maintenance while an instance runs on it, and by the "
    "daemon only while it is drained. No node that runs is set offline while an instance runs "
    "on it.",
    "rebooted-once": "No node is rebooted twice by the daemon for one maintenance.",
    "returned": "A command reboots a node for a maintenance only once the daemon has a report of "
    "that node of its own. Where its boot id is known, the node counts as rebooted only after it "
    "was, or after a person says so.",
    "remembered": "What is drained, shut down or moved away to come back for a maintenance has a "
    "tag that says so.",
    "apart": "No two nodes of one instance are away for maintenance at the same time.",
    "opted-out": "Nothing with the tag maintd:off is touched: no node, no node of such a group, no "
    "instance.",
    "paused": "Nothing is submitted while the cluster was paused when its tags were read last.",
    "one-task": "No instance is in two jobs of the daemon at the same time, no node is used by "
    "tasks of two repairs, and a node has one task at a time.",
    "target-healthy": "Nothing is moved to a node that is drained, offline, without memory, or has "
    "an incident that has not ended well.",
    "master-kept": "The master is neither drained, set offline nor switched off.",
    "candidates": "No daemon takes so many candidates out of service that only the master has the "
    "configuration, where two could have it.",
    "limits": "No more nodes than most-nodes are under repair, and no more than most-waiting are "
    "out of service because of repairs; a maintenance begins only while repairs and maintenance "
    "together stay within both.",
    "waits-end": "Whatever waits says until when at most, and waits no longer, or what a person "
    "can do.",
    "planned-last": "No repair of an ill node waits for planned maintenance.",
    "runs-once": "No instance runs on two nodes.",
    "data-kept": "The daemon starts no instance from a copy that lacks what was written, unless "
    "the other node has no power, and failover-unsynced permits it or, for routine work and a node "
    "that is dead, the last check found both copies in sync.",
    "copies-kept": "No good copy of an instance's disks is given up while the instance itself "
    "could have left the ill node first, and none after which no good one is left.",
    "command-reported": "A repair command is begun only on the node that reports it, once for each "
    "id, and once within an hour for the same object.",
    "reported-once": "Every change of a record becomes one entry of the audit log and one "
    "notification, in its order; after a restart the log has caught up with the records.",
    "no-fault": "No round ends by an error that is not expected.",
    "bounded": "Records, rules, tags, notes and threads that the daemon leaves behind are bounded.",
    "ends": "When nothing goes wrong any more, and a person acknowledges results, every incident "
    "ends.",
}


class Broken(Exception):
    """An invariant does not hold."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name, text)
        self.name, self._text = name, text

    def __str__(self) -> str:
        return f"{self.name}: {self._text}"
