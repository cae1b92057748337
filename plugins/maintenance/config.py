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
        "Nodes under repair at the same time. Planned maintenance begins only while fewer are "
        "under repair or away; repairs do not wait for it.",
    ] = 1
    most_waiting: Annotated[
        int,
        kinds.whole(1, 1000),
        "Nodes that repairs take out of service: being evacuated, or drained or offline until "
        "acknowledged. Planned maintenance begins only while fewer are out of service, including "
        "its own.",
    ] = 2
    most_incidents: Annotated[
        int,
        kinds.whole(1, 100),
        "Incidents of one node, including those that wait for an acknowledgement. A more severe "
        "fault is still recorded.",
    ] = 4
    incident_pause: Annotated[
        float,
        kinds.number(0, 86400),
        "Seconds after a new incident before the node gets another for the same action, doubled "
        "each time within a day; 0: none.",
    ] = 60
    fold_after: Annotated[
        float,
        kinds.number(60, 31536000),
        "Seconds after which an acknowledged or canceled incident that is no longer reported "
        "moves from Ganeti's configuration to the audit log.",
    ] = 2592000
    storm_share: Annotated[
        float,
        kinds.number(0, 1),
        "The daemon starts nothing while more than this share of the nodes in service reports a "
        "fault, or reported one and then stopped answering; one node is always accepted.",
    ] = 0.2
    windows: Annotated[
        tuple[str, ...],
        kinds.list_of(_WINDOW),
        'When repairs may start, in local time, such as "Mon-Fri 22:00-06:00"; empty: always. '
        "Dead nodes and checks of disks do not wait for them.",
    ] = ()
    moves_at_once: Annotated[
        int, kinds.whole(1, 100), "Instances of one node that move at the same time."
    ] = 4
    moves_in_cluster: Annotated[
        int,
        kinds.whole(0, 1000),
        "Moves of the daemon in the whole cluster at the same time; others wait in the job queue "
        "(ad-hoc rate limit); 0: no limit.",
    ] = 0
    move_attempts: Annotated[
        int,
        kinds.whole(1, 100),
        "Failed move jobs after which an instance stays where it is.",
    ] = 3
    retry_delay: Annotated[
        float,
        kinds.number(0, 86400),
        "Seconds before a failed move is tried again, times the number of failures.",
    ] = 20
    dead_after: Annotated[
        float,
        kinds.number(0, 86400),
        "Seconds after which a node is dead if neither its node daemon nor the machine answers; "
        "0: never.",
    ] = 300
    clock_limit: Annotated[
        float,
        kinds.number(0, 86400),
        "Seconds by which a node's clock may differ from the master's; 0: not reported.",
    ] = 30
    disk_check_interval: Annotated[
        float,
        kinds.number(0, 3600),
        "Seconds between checks of all drbd disks, if `routine` has check-disks.",
    ] = 300
    sync_stalled_after: Annotated[
        float,
        kinds.number(60, 604800),
        "Seconds without progress (steps of 0.1 %) after which a disk synchronization is stalled.",
    ] = 1800
    slow_migration_after: Annotated[
        float,
        kinds.number(0, 604800),
        "Seconds after which a migration that still copies memory is called slow; 0: it never is.",
    ] = 3600
    fence: Annotated[
        str,
        kinds.one_of(FENCE_OFF, FENCE_CONFIRM, FENCE_ACT),
        "Whether Ganeti's out-of-band program powers off a node that reports evacuate-failover "
        "and does not answer, or that is dead, so that its instances can start elsewhere: never; "
        "after `gnt-steward incident fence`; or automatically unless something forbids it.",
    ] = FENCE_OFF
    failover_unsynced: Annotated[
        bool,
        "Whether drbd instances start from a copy that may be incomplete, if their node is off "
        "and its agent has not answered since. The last writes may be lost.",
    ] = False
    routine: Annotated[
        tuple[str, ...],
        kinds.NAMES,
        "Plugins with routine work, in the order in which they get nodes and instances.",
    ] = ()
    final_role: Annotated[
        str, kinds.one_of(OFFLINE, DRAINED), "The role of a node after its evacuation."
    ] = OFFLINE
    degraded_final_role: Annotated[
        str,
        kinds.one_of(OFFLINE, DRAINED),
        "The same if disk copies stay on it because no other node of its group can take them.",
    ] = DRAINED
    repair_storage: Annotated[
        bool,
        "Whether the daemon moves disks off failing physical volumes and repairs the volume group.",
    ] = False
    hold_creations: Annotated[
        bool,
        "Whether job filters delay new instances on a node during its evacuation.",
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
        "Seconds for which allocators use reported faults and volume groups (also from "
        "`gnt-steward volume-groups --update`), and commands reported load.",
    ] = 900
    round_interval: Annotated[
        float, kinds.number(1, 86400), "Seconds after which a round starts without news."
    ] = 60
    command_time_limit: Annotated[
        float,
        kinds.number(1, 86400),
        "Seconds a repair command may take, and then for which the daemon queries its result.",
    ] = 3700
    command_again_after: Annotated[
        float,
        kinds.number(0, 2592000),
        "Seconds before a repair command may begin again for the same diagnose object of a node; "
        "0: no limit.",
    ] = 3600
    plan_time_limit: Annotated[
        float, kinds.number(0.1, 3600), "Seconds a plugin may take to plan one incident."
    ] = 60
    agent_port: Annotated[int, kinds.whole(1, 65535), "TCP port of the node agents."] = AGENT_PORT
    address: Annotated[
        str,
        kinds.TEXT,
        "Address of the status; empty: the master's primary address and the cluster's.",
    ] = ""
    port: Annotated[int, kinds.whole(1, 65535), "TCP port of the status."] = 1816
    key_file: Annotated[str, kinds.PATH, "The cluster's HMAC key."] = "/var/lib/ganeti/hmac.key"
    audit_file: Annotated[
        str,
        kinds.PATH,
        "The audit log (sqlite); never read to decide.",
    ] = "/var/lib/ganeti-steward/maintd/audit.db"
    notify_command: Annotated[
        str,
        kinds.PATH,
        "Program to run on each change of an incident, with JSON on stdin.",
    ] = ""
    webhook: Annotated[
        str,
        _WEB_ADDRESS,
        "Address to post each change of an incident to, as JSON.",
    ] = ""
    alertmanager: Annotated[
        str,
        _WEB_ADDRESS,
        "Alertmanager in which to silence the alerts of a node that is away for maintenance.",
    ] = ""
    alertmanager_label: Annotated[
        str, kinds.TEXT, "The label of its alerts that has the node or instance name."
    ] = "instance"
    silence_command: Annotated[
        str,
        kinds.PATH,
        "Program that keeps downtimes of another monitoring, such as Icinga; it gets what should "
        "be silent as JSON on stdin.",
    ] = ""
    gate_command: Annotated[
        str,
        kinds.PATH,
        "Program that must exit with 0 before maintenance takes a healthy node.",
    ] = ""
    gate_prometheus: Annotated[
        str,
        _WEB_ADDRESS,
        "Prometheus that must have no firing alert before maintenance takes a healthy node.",
    ] = ""
    gate_alerts: Annotated[
        str, kinds.TEXT, "The alerts that matter: a regular expression for the whole name."
    ] = ".+"
    return_limit: Annotated[
        float,
        kinds.number(60, 604800),
        "Seconds a node may be away for planned maintenance before it fails.",
    ] = 1800
    blocked_limit: Annotated[
        float,
        kinds.number(60, 604800),
        "Seconds a started maintenance may wait for a person, for example if an instance cannot "
        "leave. Then the node returns to service and the request waits.",
    ] = 1800
    lock_file: Annotated[str, kinds.PATH, "File that prevents a second daemon on this machine."] = (
        "/run/ganeti-steward/maintd.lock"
    )


_ALLOCATOR: Final = kinds.word(is_name, "allocator name", hint='like "hail" or "steward"')


class Harep(NamedTuple):
    """[harep]: the work of Ganeti's harep, when [maintd] routine names it."""

    iallocator: Annotated[
        str, _ALLOCATOR, "Ganeti's allocator that finds new nodes for instances."
    ] = "steward"
    job_delay: Annotated[
        float,
        kinds.number(0, 3600),
        "Seconds a repair waits before its locks, so that its tag is set at once.",
    ] = 10
    disk_check_interval: Annotated[
        float,
        kinds.number(0, 3600),
        "Seconds between checks for degraded disks; 0: no checks.",
    ] = 900
    replace_after: Annotated[
        float,
        kinds.number(0, 86400),
        "Seconds disks must stay degraded after a new activation before they are replaced.",
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
        "Balance node groups with a score above this; lower is better.",
    ] = 1
    min_gain: Annotated[
        float, kinds.number(0, 1_000_000), "Least improvement of the score by one move."
    ] = 0.1
    min_gain_per_gib: Annotated[
        float,
        kinds.number(0, 1_000_000),
        "Least improvement for each GiB to copy.",
    ] = MIN_GAIN_PER_GIB
    hold_time: Annotated[
        float,
        kinds.number(0, 604800),
        "Seconds the score must be above the threshold first.",
    ] = 1800
    search_interval: Annotated[
        float,
        kinds.number(1, 604800),
        "Seconds between searches that find no moves, if nothing changes.",
    ] = 3600
    moves_at_once: Annotated[
        int,
        kinds.whole(1, 1000),
        "Instances of a node group that move at the same time.",
    ] = 4
    copy_per_hour: Annotated[
        float,
        kinds.number(0, 1_000_000),
        "GiB of disks that routine work may copy within an hour; 0: no limit.",
    ] = 100
    disk_moves: Annotated[
        bool, "Whether disks may be copied; else instances only migrate to their secondary."
    ] = True
    load_data: Annotated[
        str,
        kinds.one_of(NO_LOAD, AGENT_LOAD, NODE_LOAD, XEN_LOAD),
        "Source of CPU load: none; node agents; Ganeti's monitoring daemons, for nodes (mond) or "
        "Xen instances (mond-xen). Nothing moves while it is missing.",
    ] = NO_LOAD
    by_load: Annotated[
        bool,
        "Whether load, not threshold, hold-time and min-gain, decides when to balance; needs "
        'load-data = "agents".',
    ] = False
    load_threshold: Annotated[
        float,
        kinds.number(0, 1000),
        "With by-load: balance groups with a load imbalance above this.",
    ] = 0.3
    load_rounds: Annotated[
        int,
        kinds.whole(1, 1000),
        "With by-load: rounds in a row with this imbalance, each with newer reports.",
    ] = 3
    load_margin: Annotated[
        float,
        kinds.number(0, 1),
        "With by-load: least relative improvement by each move.",
    ] = 0.1
    load_time_limit: Annotated[
        float, kinds.number(0.1, 600), "Seconds within which all monitoring daemons must answer."
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
