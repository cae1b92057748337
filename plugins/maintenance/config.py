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
        "With observe it only records incidents and says what it would do; with act it does it.",
    ] = OBSERVE
    hold_time: Annotated[
        float,
        kinds.number(0, 604800),
        "Seconds a node must have reported the same object before anything is done about it.",
    ] = 300
    healthy_delay: Annotated[
        float,
        kinds.number(0, 604800),
        "Seconds a node must have reported something else before an incident counts as over.",
    ] = 900
    most_nodes: Annotated[
        int,
        kinds.whole(1, 1000),
        "The most nodes that may be under repair at the same time; planned maintenance begins only "
        "while fewer are under repair or away for maintenance, and no repair waits for it.",
    ] = 1
    most_waiting: Annotated[
        int,
        kinds.whole(1, 1000),
        "The most nodes that repairs may have taken out of service: those that are being "
        "evacuated, and those that wait, drained or offline, for a person to acknowledge the "
        "incident; planned maintenance begins only while fewer are out of service for either.",
    ] = 2
    most_incidents: Annotated[
        int,
        kinds.whole(1, 100),
        "The most incidents of one node that are recorded, those included that wait for a person "
        "to acknowledge them; a fault that is more severe than all of them is still recorded.",
    ] = 4
    incident_pause: Annotated[
        float,
        kinds.number(0, 86400),
        "Seconds after a new incident in which a node gets no other one for the same action; "
        "doubled with each further one within a day; 0: none.",
    ] = 60
    fold_after: Annotated[
        float,
        kinds.number(60, 31536000),
        "Seconds after which an incident that is acknowledged or canceled, and not reported, is "
        "moved from Ganeti's configuration to the audit log.",
    ] = 2592000
    storm_share: Annotated[
        float,
        kinds.number(0, 1),
        "Nothing is started while more than this share of the nodes in service reports a fault, or "
        "reported one and fell silent; one ill node is never too much.",
    ] = 0.2
    windows: Annotated[
        tuple[str, ...],
        kinds.list_of(_WINDOW),
        'When repairs may be started, in local time, like "Mon-Fri 22:00-06:00"; empty: always.',
    ] = ()
    moves_at_once: Annotated[
        int, kinds.whole(1, 100), "The most instances of one node that are moved at the same time."
    ] = 4
    moves_in_cluster: Annotated[
        int,
        kinds.whole(0, 1000),
        "The most moves of the daemon that run at the same time in the whole cluster: the rest "
        "waits in the job queue (Ganeti's ad-hoc rate limit); 0: no limit.",
    ] = 0
    move_attempts: Annotated[
        int,
        kinds.whole(1, 100),
        "How many jobs that move an instance may fail before it is left where it is.",
    ] = 3
    retry_delay: Annotated[
        float,
        kinds.number(0, 86400),
        "Seconds after which a job that moves an instance is tried again, times the number of "
        "those that have failed.",
    ] = 20
    dead_after: Annotated[
        float,
        kinds.number(0, 86400),
        "Seconds after which a node is noted as dead of which nothing answers, neither Ganeti's "
        "node daemon nor the machine; 0: never.",
    ] = 300
    clock_limit: Annotated[
        float,
        kinds.number(0, 86400),
        "Seconds by which the clock of a node may differ from the master's before the daemon says "
        "so; 0: it never does.",
    ] = 30
    disk_check_interval: Annotated[
        float,
        kinds.number(0, 3600),
        "Seconds from one check of the disks of all drbd instances to the next, when the plugin "
        "check-disks is among routine.",
    ] = 300
    sync_stalled_after: Annotated[
        float,
        kinds.number(60, 604800),
        "Seconds without progress after which the synchronization of disks is called stalled. "
        "Ganeti reports progress in steps of 0.1 %.",
    ] = 1800
    fence: Annotated[
        str,
        kinds.one_of(FENCE_OFF, FENCE_CONFIRM, FENCE_ACT),
        "Whether a node that reports evacuate-failover and does not answer, or that is noted as "
        "dead, is switched off by Ganeti's out-of-band program, so that its instances can be "
        "started elsewhere: never, once a person has permitted it (`gnt-steward incident fence`), "
        "or as soon as nothing forbids it.",
    ] = FENCE_OFF
    failover_unsynced: Annotated[
        bool,
        "Whether drbd instances of a node that is off, and whose agent does not answer, nor has "
        "answered since the node was confirmed to be off, are "
        "started from their copy, although it is not known to be complete: what was written last "
        "may be lost.",
    ] = False
    routine: Annotated[
        tuple[str, ...],
        kinds.NAMES,
        "Plugins whose routine work is done where no repair is in the way, in the order in which "
        "they get nodes and instances; empty: none.",
    ] = ()
    final_role: Annotated[
        str, kinds.one_of(OFFLINE, DRAINED), "The role of a node after its evacuation."
    ] = OFFLINE
    degraded_final_role: Annotated[
        str,
        kinds.one_of(OFFLINE, DRAINED),
        "The role of a node after an evacuation that left copies of disks on it, because no other "
        "node of its group can take them.",
    ] = DRAINED
    repair_storage: Annotated[
        bool,
        "Whether disks are moved off physical volumes that a report names as failing, and the "
        "volume group is repaired.",
    ] = False
    hold_creations: Annotated[
        bool,
        "Whether jobs that create instances on a node wait while it is evacuated, by job filters.",
    ] = False
    stuck_after: Annotated[
        float,
        kinds.number(60, 2592000),
        "Seconds without progress after which an active incident raises an alarm.",
    ] = 86400
    poll_interval: Annotated[
        float, kinds.number(1, 86400), "Seconds from one poll of the node agents to the next."
    ] = 60
    poll_time_limit: Annotated[float, kinds.number(0.1, 600), "Seconds one agent may take."] = 10
    report_max_age: Annotated[
        float, kinds.number(1, 604800), "Seconds after which a report is too old to count."
    ] = 900
    volume_groups_age: Annotated[
        float,
        kinds.number(60, 604800),
        "Seconds for which allocators use what a node reports to be wrong with it, and the figures "
        "of its volume groups, from its report or from `gnt-steward volume-groups --update`, and "
        "commands the load that it reports.",
    ] = 900
    round_interval: Annotated[
        float, kinds.number(1, 86400), "Seconds after which a round starts without news."
    ] = 60
    command_time_limit: Annotated[
        float,
        kinds.number(1, 86400),
        "Seconds a repair command of an agent may take, and for which its agent is queried after "
        "that what became of it.",
    ] = 3700
    command_again_after: Annotated[
        float,
        kinds.number(0, 2592000),
        "Seconds after a repair command in which it is not begun again for the same diagnose "
        "object of the same node; 0: no limit.",
    ] = 3600
    plan_time_limit: Annotated[
        float, kinds.number(0.1, 3600), "Seconds a plugin may take to plan one incident."
    ] = 60
    agent_port: Annotated[int, kinds.whole(1, 65535), "The TCP port of the node agents."] = (
        AGENT_PORT
    )
    address: Annotated[
        str,
        kinds.TEXT,
        "Where the status is served; empty for the master's primary address and the cluster's.",
    ] = ""
    port: Annotated[int, kinds.whole(1, 65535), "The TCP port the status is served on."] = 1816
    key_file: Annotated[str, kinds.PATH, "The cluster's HMAC key."] = "/var/lib/ganeti/hmac.key"
    audit_file: Annotated[
        str, kinds.PATH, "The audit log (sqlite); empty for none.  It is never read to decide."
    ] = "/var/lib/ganeti-steward/maintd/audit.db"
    notify_command: Annotated[
        str,
        kinds.PATH,
        "A program that is run on each change of an incident and reads it as JSON on stdin; empty "
        "for none.",
    ] = ""
    webhook: Annotated[
        str,
        _WEB_ADDRESS,
        "An http or https address to which each change of an incident is posted as JSON; empty for "
        "none.",
    ] = ""
    alertmanager: Annotated[
        str,
        _WEB_ADDRESS,
        "The http or https address of an Alertmanager in which the alerts of a node are silenced "
        "while it is away for maintenance; empty for none.",
    ] = ""
    alertmanager_label: Annotated[
        str, kinds.TEXT, "The label of alerts there that has the name of the node or instance."
    ] = "instance"
    gate_command: Annotated[
        str,
        kinds.PATH,
        "A program that has to end with status 0 before a healthy node is taken out for "
        "maintenance; empty for none.",
    ] = ""
    gate_prometheus: Annotated[
        str,
        _WEB_ADDRESS,
        "The http or https address of a Prometheus that must know of no firing alert before a "
        "healthy node is taken out for maintenance; empty for none.",
    ] = ""
    gate_alerts: Annotated[
        str, kinds.TEXT, "Which alerts count there: a regular expression for the whole name."
    ] = ".+"
    return_limit: Annotated[
        float,
        kinds.number(60, 604800),
        "Seconds in which a node has to come back from the work of its planned maintenance; then "
        "the maintenance has failed.",
    ] = 1800
    blocked_limit: Annotated[
        float,
        kinds.number(60, 604800),
        "Seconds for which a planned maintenance that has begun waits for a person, because an "
        "instance cannot leave its node for example; then the node is taken back into service, and "
        "the request waits.",
    ] = 1800
    lock_file: Annotated[
        str, kinds.PATH, "The file that keeps a second daemon from being started on this machine."
    ] = "/run/ganeti-steward/maintd.lock"


_ALLOCATOR: Final = kinds.word(is_name, "name of an allocator", hint='like "hail" or "steward"')


class Harep(NamedTuple):
    """[harep]: the work of Ganeti's harep, when [maintd] routine names it."""

    iallocator: Annotated[
        str, _ALLOCATOR, "The allocator of Ganeti that finds new nodes for instances."
    ] = "steward"
    job_delay: Annotated[
        float,
        kinds.number(0, 3600),
        "Seconds a repair waits before it takes its locks, so that its tag is set at once.",
    ] = 10
    disk_check_interval: Annotated[
        float,
        kinds.number(0, 3600),
        "Seconds from one check for degraded disks to the next; 0: disks are not checked.",
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
        "A node group is balanced when its score is above this; lower scores are better.",
    ] = 1
    min_gain: Annotated[
        float, kinds.number(0, 1_000_000), "What a move must lower the score of its group by."
    ] = 0.1
    min_gain_per_gib: Annotated[
        float,
        kinds.number(0, 1_000_000),
        "What copying disks must lower the score by for each GiB.",
    ] = MIN_GAIN_PER_GIB
    hold_time: Annotated[
        float,
        kinds.number(0, 604800),
        "Seconds for which the score must have been above the threshold before anything is moved.",
    ] = 1800
    search_interval: Annotated[
        float,
        kinds.number(1, 604800),
        "Seconds until moves are searched again where none were found and nothing has changed.",
    ] = 3600
    moves_at_once: Annotated[
        int,
        kinds.whole(1, 1000),
        "The most instances of a node group that are moved at the same time.",
    ] = 4
    copy_per_hour: Annotated[
        float,
        kinds.number(0, 1_000_000),
        "The most GiB of disks that routine work may have copied within an hour when another move "
        "begins; 0: no limit.",
    ] = 100
    disk_moves: Annotated[
        bool, "Whether disks may be copied; without, instances only migrate to their secondary."
    ] = True
    load_data: Annotated[
        str,
        kinds.one_of(NO_LOAD, AGENT_LOAD, NODE_LOAD, XEN_LOAD),
        "CPU load that counts: none, what the agents of the nodes report (agents), what Ganeti's "
        "monitoring daemons measure of the nodes (mond), or of the Xen instances on them "
        "(mond-xen).  Where it is missing nothing is moved.",
    ] = NO_LOAD
    by_load: Annotated[
        bool,
        "Whether the load decides when a node group is balanced, in place of threshold, hold-time "
        'and min-gain; needs load-data = "agents".',
    ] = False
    load_threshold: Annotated[
        float,
        kinds.number(0, 1000),
        "With by-load: a node group is balanced when the imbalance of its load is above this.",
    ] = 0.3
    load_rounds: Annotated[
        int,
        kinds.whole(1, 1000),
        "With by-load: in so many rounds one after the other it must have been above it, each "
        "with newer reports of all nodes.",
    ] = 3
    load_margin: Annotated[
        float,
        kinds.number(0, 1),
        "With by-load: the share by which each move must lower the imbalance.",
    ] = 0.1
    load_time_limit: Annotated[
        float, kinds.number(0.1, 600), "Seconds all monitoring daemons have to answer."
    ] = 5
    evac_mode: Annotated[
        bool, "Whether only instances are moved that have a node which is drained or offline."
    ] = False

    @property
    def fault(self) -> str:
        """Which keys cannot work together; empty: all can."""
        if not self.by_load or self.load_data == AGENT_LOAD:
            return ""
        return (
            "rebalance.by-load: the load that agents report is needed, load-data = "
            f'"{AGENT_LOAD}", not "{self.load_data}" (rebalance.load-data)'
        )
