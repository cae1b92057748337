"""The sections [maintd], [harep] and [rebalance]: what the daemon may do, and when."""

from __future__ import annotations

import re
from typing import Annotated, Final, NamedTuple

from ganeti_steward.core.config import kinds
from ganeti_steward.core.model.finding import is_name
from ganeti_steward.core.model.requests import MIN_GAIN_PER_GIB
from ganeti_steward.core.node_agent.protocol import PORT as AGENT_PORT
from ganeti_steward.plugins.model.windows import is_window

OBSERVE: Final = "observe"
ACT: Final = "act"
#: Values of ``fence``.
FENCE_OFF: Final = "off"
FENCE_CONFIRM: Final = "confirm"
FENCE_ACT: Final = "act"
OFFLINE: Final = "offline"
DRAINED: Final = "drained"

_WINDOW: Final = kinds.word(is_window, "window", hint='days and times, like "Mon-Fri 22:00-06:00"')

_WEB_ADDRESS: Final = kinds.word(
    lambda text: re.fullmatch(r"https?://[^\s/?#]+\S*", text) is not None,
    "web address",
    hint='like "https://example.org/hook"',
)


class Maintd(NamedTuple):
    """[maintd]: the maintenance daemon on the master."""

    mode: Annotated[
        str,
        kinds.one_of(OBSERVE, ACT),
        "With observe the daemon only records incidents and reports what it would do; with act "
        "it does it.",
    ] = OBSERVE
    hold_time: Annotated[
        float,
        kinds.number(0, 604800),
        "Seconds a node must report the same object before the daemon acts.",
    ] = 300
    healthy_delay: Annotated[
        float,
        kinds.number(0, 604800),
        "Seconds a node must report something else before an incident is over.",
    ] = 900
    most_nodes: Annotated[
        int,
        kinds.whole(1, 1000),
        "Nodes that may be under repair at the same time. Planned maintenance begins only while "
        "fewer are under repair or away for maintenance; repairs do not wait for maintenance.",
    ] = 1
    most_waiting: Annotated[
        int,
        kinds.whole(1, 1000),
        "Nodes that repairs may take out of service: nodes being evacuated, and drained or "
        "offline nodes that wait for an acknowledgement. Planned maintenance begins only while "
        "fewer nodes are out of service, including for maintenance.",
    ] = 2
    most_incidents: Annotated[
        int,
        kinds.whole(1, 100),
        "Recorded incidents of one node, including those that wait for an acknowledgement. A "
        "fault more severe than all of them is still recorded.",
    ] = 4
    incident_pause: Annotated[
        float,
        kinds.number(0, 86400),
        "Seconds after a new incident in which a node gets no other one for the same action, "
        "doubled with each further one within a day; 0: none.",
    ] = 60
    fold_after: Annotated[
        float,
        kinds.number(60, 31536000),
        "Seconds after which an incident that is acknowledged or canceled, and no longer "
        "reported, moves from Ganeti's configuration to the audit log.",
    ] = 2592000
    storm_share: Annotated[
        float,
        kinds.number(0, 1),
        "The daemon starts nothing while more than this share of the nodes in service reports a "
        "fault, or reported one and stopped answering. One faulty node is always accepted.",
    ] = 0.2
    windows: Annotated[
        tuple[str, ...],
        kinds.list_of(_WINDOW),
        'When repairs may start, in local time, such as "Mon-Fri 22:00-06:00"; empty: always.',
    ] = ()
    moves_at_once: Annotated[
        int, kinds.whole(1, 100), "Instances of one node that move at the same time."
    ] = 4
    moves_in_cluster: Annotated[
        int,
        kinds.whole(0, 1000),
        "The daemon's moves that run at the same time in the whole cluster; the others wait in "
        "the job queue (Ganeti's ad-hoc rate limit). 0: no limit.",
    ] = 0
    move_attempts: Annotated[
        int,
        kinds.whole(1, 100),
        "Failed move jobs after which an instance stays where it is.",
    ] = 3
    retry_delay: Annotated[
        float,
        kinds.number(0, 86400),
        "Seconds before a failed move job is tried again, times the number of failures.",
    ] = 20
    dead_after: Annotated[
        float,
        kinds.number(0, 86400),
        "Seconds after which a node is recorded as dead if neither its node daemon nor the "
        "machine answers; 0: never.",
    ] = 300
    clock_limit: Annotated[
        float,
        kinds.number(0, 86400),
        "Seconds by which a node's clock may differ from the master's before the daemon reports "
        "it; 0: never reported.",
    ] = 30
    disk_check_interval: Annotated[
        float,
        kinds.number(0, 3600),
        "Seconds between checks of the disks of all drbd instances, if `routine` has check-disks.",
    ] = 300
    sync_stalled_after: Annotated[
        float,
        kinds.number(60, 604800),
        "Seconds without progress after which a disk synchronization is called stalled. Ganeti "
        "reports progress in steps of 0.1 %.",
    ] = 1800
    fence: Annotated[
        str,
        kinds.one_of(FENCE_OFF, FENCE_CONFIRM, FENCE_ACT),
        "Whether Ganeti's out-of-band program powers off a node that reports evacuate-failover "
        "and does not answer, or that is recorded as dead, so that its instances can start "
        "elsewhere: never, after a person permits it (`gnt-steward incident fence`), or "
        "automatically unless something forbids it.",
    ] = FENCE_OFF
    failover_unsynced: Annotated[
        bool,
        "Whether drbd instances start from a copy that is not known to be complete, if their "
        "node is off and its agent has not answered since the node was confirmed to be off. The "
        "last writes may be lost.",
    ] = False
    routine: Annotated[
        tuple[str, ...],
        kinds.NAMES,
        "Plugins that do routine work where no repair needs the node, in the order in which they "
        "get nodes and instances.",
    ] = ()
    final_role: Annotated[
        str, kinds.one_of(OFFLINE, DRAINED), "The role of a node after its evacuation."
    ] = OFFLINE
    degraded_final_role: Annotated[
        str,
        kinds.one_of(OFFLINE, DRAINED),
        "The role after an evacuation that left disk copies on the node because no other node of "
        "its group can take them.",
    ] = DRAINED
    repair_storage: Annotated[
        bool,
        "Whether the daemon moves disks off physical volumes that a report names as failing, and "
        "repairs the volume group.",
    ] = False
    hold_creations: Annotated[
        bool,
        "Whether job filters delay jobs that create instances on a node during its evacuation.",
    ] = False
    stuck_after: Annotated[
        float,
        kinds.number(60, 2592000),
        "Seconds without progress after which an active incident raises an alarm.",
    ] = 86400
    poll_interval: Annotated[
        float, kinds.number(1, 86400), "Seconds between polls of the node agents."
    ] = 60
    poll_time_limit: Annotated[float, kinds.number(0.1, 600), "Seconds one agent may take."] = 10
    report_max_age: Annotated[
        float, kinds.number(1, 604800), "Seconds after which a report is too old to use."
    ] = 900
    volume_groups_age: Annotated[
        float,
        kinds.number(60, 604800),
        "Seconds for which reported data is used: faults and volume groups (from the report or "
        "from `gnt-steward volume-groups --update`) by allocators, load by commands.",
    ] = 900
    round_interval: Annotated[
        float, kinds.number(1, 86400), "Seconds after which a round starts without news."
    ] = 60
    command_time_limit: Annotated[
        float,
        kinds.number(1, 86400),
        "Seconds a repair command may take, and then for how long the daemon queries its agent "
        "for the result.",
    ] = 3700
    command_again_after: Annotated[
        float,
        kinds.number(0, 2592000),
        "Seconds before a repair command may begin again for the same diagnose object of the "
        "same node; 0: no limit.",
    ] = 3600
    plan_time_limit: Annotated[
        float, kinds.number(0.1, 3600), "Seconds a plugin may take to plan one incident."
    ] = 60
    agent_port: Annotated[int, kinds.whole(1, 65535), "TCP port of the node agents."] = AGENT_PORT
    address: Annotated[
        str,
        kinds.TEXT,
        "Address to serve the status on; empty for the master's primary address and the cluster's.",
    ] = ""
    port: Annotated[int, kinds.whole(1, 65535), "TCP port to serve the status on."] = 1816
    key_file: Annotated[str, kinds.PATH, "The cluster's HMAC key."] = "/var/lib/ganeti/hmac.key"
    audit_file: Annotated[
        str,
        kinds.PATH,
        "The audit log (sqlite); empty for none. The daemon never reads it to decide.",
    ] = "/var/lib/ganeti-steward/maintd/audit.db"
    notify_command: Annotated[
        str,
        kinds.PATH,
        "Program to run on each change of an incident; it reads the change as JSON on stdin.",
    ] = ""
    webhook: Annotated[
        str,
        _WEB_ADDRESS,
        "Address to which each change of an incident is posted as JSON.",
    ] = ""
    alertmanager: Annotated[
        str,
        _WEB_ADDRESS,
        "Alertmanager in which a node's alerts are silenced while it is away for maintenance.",
    ] = ""
    alertmanager_label: Annotated[
        str, kinds.TEXT, "The label of its alerts that has the node or instance name."
    ] = "instance"
    gate_command: Annotated[
        str,
        kinds.PATH,
        "Program that must exit with 0 before maintenance takes a healthy node out of service.",
    ] = ""
    gate_prometheus: Annotated[
        str,
        _WEB_ADDRESS,
        "Prometheus that must have no firing alert before maintenance takes a healthy node out "
        "of service.",
    ] = ""
    gate_alerts: Annotated[
        str, kinds.TEXT, "The alerts that matter there: a regular expression for the whole name."
    ] = ".+"
    return_limit: Annotated[
        float,
        kinds.number(60, 604800),
        "Seconds a node may take to come back from the work of its planned maintenance before "
        "the maintenance fails.",
    ] = 1800
    blocked_limit: Annotated[
        float,
        kinds.number(60, 604800),
        "Seconds a planned maintenance that has begun may wait for a person, for example because "
        "an instance cannot leave. Then the node returns to service and the request waits.",
    ] = 1800
    lock_file: Annotated[str, kinds.PATH, "File that prevents a second daemon on this machine."] = (
        "/run/ganeti-steward/maintd.lock"
    )


_ALLOCATOR: Final = kinds.word(is_name, "name of an allocator", hint='like "hail" or "steward"')


class Harep(NamedTuple):
    """[harep]: the work of Ganeti's harep, when [maintd] routine names it."""

    iallocator: Annotated[
        str, _ALLOCATOR, "Ganeti's allocator that finds new nodes for instances."
    ] = "steward"
    job_delay: Annotated[
        float,
        kinds.number(0, 3600),
        "Seconds a repair waits before it takes its locks, so that its tag is set at once.",
    ] = 10
    disk_check_interval: Annotated[
        float,
        kinds.number(0, 3600),
        "Seconds between checks for degraded disks; 0: no checks.",
    ] = 900
    replace_after: Annotated[
        float,
        kinds.number(0, 86400),
        "Seconds disks must stay degraded after they were activated again before they are "
        "replaced.",
    ] = 3600


#: Values of ``load-data``.
NO_LOAD: Final = "none"
AGENT_LOAD: Final = "agents"
NODE_LOAD: Final = "mond"
XEN_LOAD: Final = "mond-xen"


class Rebalance(NamedTuple):
    """[rebalance]: balancing by the maintenance daemon, where [maintd] routine names it."""

    threshold: Annotated[
        float,
        kinds.number(0, 1_000_000),
        "The daemon balances a node group with a score above this; lower scores are better.",
    ] = 1
    min_gain: Annotated[
        float, kinds.number(0, 1_000_000), "The least improvement of the group's score by one move."
    ] = 0.1
    min_gain_per_gib: Annotated[
        float,
        kinds.number(0, 1_000_000),
        "The least improvement for each GiB of disks to copy.",
    ] = MIN_GAIN_PER_GIB
    hold_time: Annotated[
        float,
        kinds.number(0, 604800),
        "Seconds the score must be above the threshold before anything moves.",
    ] = 1800
    search_interval: Annotated[
        float,
        kinds.number(1, 604800),
        "Seconds to the next search after one that found no moves, if nothing changes.",
    ] = 3600
    moves_at_once: Annotated[
        int,
        kinds.whole(1, 1000),
        "Instances of a node group that move at the same time.",
    ] = 4
    copy_per_hour: Annotated[
        float,
        kinds.number(0, 1_000_000),
        "GiB of disks that routine work may have copied in the last hour when another move "
        "begins; 0: no limit.",
    ] = 100
    disk_moves: Annotated[
        bool, "Whether disks may be copied; if not, instances only migrate to their secondary."
    ] = True
    load_data: Annotated[
        str,
        kinds.one_of(NO_LOAD, AGENT_LOAD, NODE_LOAD, XEN_LOAD),
        "Source of CPU load: none; the node agents (agents); Ganeti's monitoring daemons, for "
        "nodes (mond) or for Xen instances (mond-xen). Nothing moves while it is missing.",
    ] = NO_LOAD
    by_load: Annotated[
        bool,
        "Whether the load, not threshold, hold-time and min-gain, decides when to balance a "
        'group; needs load-data = "agents".',
    ] = False
    load_threshold: Annotated[
        float,
        kinds.number(0, 1000),
        "With by-load: the daemon balances a node group with a load imbalance above this.",
    ] = 0.3
    load_rounds: Annotated[
        int,
        kinds.whole(1, 1000),
        "With by-load: rounds in a row that must see this imbalance, each with newer reports of "
        "all nodes.",
    ] = 3
    load_margin: Annotated[
        float,
        kinds.number(0, 1),
        "With by-load: the share by which each move must lower the imbalance.",
    ] = 0.1
    load_time_limit: Annotated[
        float, kinds.number(0.1, 600), "Seconds all monitoring daemons have to answer."
    ] = 5
    evac_mode: Annotated[bool, "Whether only instances with a drained or offline node move."] = (
        False
    )

    @property
    def fault(self) -> str:
        """Which keys cannot work together; empty: all can."""
        if not self.by_load or self.load_data == AGENT_LOAD:
            return ""
        return (
            "rebalance.by-load: the load that agents report is needed, load-data = "
            f'"{AGENT_LOAD}", not "{self.load_data}" (rebalance.load-data)'
        )
