"""Every kind of fault: how often it happens, to what, for how long."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from fault_world.causes import control, hardware, others, people
from fault_world.faults import SURPRISES
from fault_world.plugins import PLUGIN_FAULTS
from ganeti_steward.plugins.model.incident import CANCEL_TAG, FENCE_TAG, OPT_OUT_TAG, STOPPED_TAG

if TYPE_CHECKING:
    from fault_world.faults import Fault
    from fault_world.world import World


class Kind(NamedTuple):
    """One kind of fault."""

    event: Callable[[World, Fault], None]
    rate: float
    """how many there are in an hour, on average, where it happens at all and not more often"""
    about: str = ""
    """``node`` or ``instance``; empty: the cluster"""
    lasts: tuple[float, float] = (0.0, 0.0)
    """seconds, at least and at most"""
    details: Sequence[str] = ("",)
    """of which one is drawn"""


_SURPRISES: Final = tuple(SURPRISES)
_ILL: Final = ("evacuate", "evacuate", "evacuate-failover", "live-repair", hardware.CHANGING)
_JUMPS: Final = ("-86400", "-3600", "-30", "-2", "2", "30", "3600", "86400")
#: All of them, and none is done.
_NEVER: Final = "1,never"
_REQUESTS: Final = (
    "stop",
    "refuse",
    "stop,power",
    "refuse,command:reboot",
    "stop,before:silence,after:burn-in",
    "stop,command:reboot,master-before:silence,master-after:sound",
)
_TAGS: Final = (CANCEL_TAG, FENCE_TAG, STOPPED_TAG, OPT_OUT_TAG)

KINDS: Final[Mapping[str, Kind]] = {
    "falls-ill": Kind(hardware.falls_ill, 6, "node", (60, 1800), _ILL),
    "loses-power": Kind(hardware.loses_power, 0.7, "node", (60, 3600)),
    "noded-hangs": Kind(hardware.noded_hangs, 1, "node", (10, 900)),
    "agent-silent": Kind(hardware.agent_silent, 1, "node", (30, 3600)),
    "disk-degrades": Kind(hardware.disk_degrades, 1, "instance"),
    "disk-fails": Kind(hardware.disk_fails, 0.5, "node"),
    "disk-full": Kind(hardware.disk_full, 0.7, "node", (60, 1800)),
    "resync-stalls": Kind(control.lasting, 0.7, "", (60, 1800)),
    "clock-jumps": Kind(hardware.clock_jumps, 0.5, "node", (0, 0), _JUMPS),
    "path-cut": Kind(hardware.path_cut, 0.4, "node", (300, 3600)),
    "cut-off": Kind(hardware.cut_off, 0.7, "node", (30, 900)),
    "network-cut": Kind(hardware.network_cut, 0.7, "node", (30, 1800)),
    "wrong-reports": Kind(control.lasting, 1, "node", (60, 1800), ("lost", "old", "forged")),
    "agent-forgets": Kind(hardware.agent_forgets, 1, "node"),
    "late-agents": Kind(control.lasting, 1, "", (60, 900), ("5", "60", "700")),
    "plugin-fails": Kind(control.lasting, 1, "", (30, 600), PLUGIN_FAULTS),
    "luxid-restarts": Kind(control.luxid_restarts, 2, "", (1, 120)),
    "slow-calls": Kind(control.lasting, 2, "", (30, 600), ("1", "25", "130")),
    "lost-answers": Kind(control.lasting, 3, "", (30, 300), ("0.3", "1")),
    "late-storing": Kind(control.lasting, 3, "", (60, 600), ("5", "40", "90", "300")),
    "failing-operations": Kind(control.lasting, 2, "", (60, 900), ("0.3", "1")),
    "daemon-killed": Kind(control.daemon_killed, 4),
    "daemon-stopped": Kind(control.daemon_stopped, 1, "", (5, 900)),
    "daemon-terminated": Kind(control.daemon_terminated, 1),
    "master-failover": Kind(control.master_failover, 0.7, "node"),
    "master-left-behind": Kind(
        control.master_left_behind, 0.7, "node", (60, 600), ("cut-off", "agents-only", "reached")
    ),
    "lost-submissions": Kind(control.lasting, 1, "", (60, 600), ("0.3", "1")),
    "records-fail": Kind(control.lasting, 1, "", (10, 200), ("0.3", "1", _NEVER)),
    "surprise": Kind(control.lasting, 8, "", (60, 900), _SURPRISES),
    "archived-at-once": Kind(control.archived_at_once, 1, "", (60, 900), ("", "", "removed")),
    "power-stays": Kind(control.lasting, 0.7, "", (60, 900)),
    "no-effect": Kind(control.lasting, 0.3, "", (60, 600)),
    "queue-drained": Kind(control.queue_drained, 0.5, "", (30, 900)),
    "jobs-held": Kind(control.jobs_filtered, 1, "", (60, 900), control.FILTERS),
    "locks-held": Kind(others.locks_held, 1, "instance"),
    "watcher-runs": Kind(others.watcher_runs, 6),
    "harep-runs": Kind(others.harep_runs, 2),
    "job-canceled": Kind(control.job_canceled, 1),
    "jobs-archived": Kind(control.jobs_archived, 2),
    "tag-set": Kind(people.tag_set, 2, "node", (0, 0), _TAGS),
    "results-removed": Kind(people.results_removed, 4, "node"),
    "record-deleted": Kind(people.record_deleted, 0.7),
    "record-restored": Kind(people.record_restored, 1, details=("", "", "maintenance")),
    "record-pauses": Kind(people.record_pauses, 0.7),
    "record-edited": Kind(people.record_edited, 0.7),
    "maintenance-requested": Kind(people.maintenance_requested, 2, "node", (30, 600), _REQUESTS),
    "paused": Kind(people.paused, 0.7, "", (60, 900)),
    "group-renamed": Kind(people.group_renamed, 0.2),
    "group-excluded": Kind(people.group_excluded, 0.2, "", (60, 600)),
    "instance-excluded": Kind(people.instance_excluded, 0.7, "instance", (60, 1800)),
    "node-drained": Kind(people.node_drained, 0.7, "node"),
    "node-given-up": Kind(people.node_given_up, 0.5, "node"),
    "node-taken-back": Kind(people.node_taken_back, 2, "node"),
    "node-added": Kind(people.node_added, 0.2),
    "node-removed": Kind(people.node_removed, 0.3, "node"),
    "instance-moved": Kind(people.instance_moved, 2, "instance"),
    "instance-removed": Kind(people.instance_removed, 0.7, "instance"),
    "instance-stopped": Kind(people.instance_stopped, 1, "instance"),
}
