"""An incident: one diagnose object of one node, and what was done about it.

``docs/explanation/incidents.md`` has its life.

The same object of the same node is the same incident, another object is another one; objects are
compared in their canonical form, so the order of their members does not matter.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from ganeti_steward.core.json_reader import Range
from ganeti_steward.core.model.finding import EVACUATIONS, OK, SUSPECT, object_id, severity
from ganeti_steward.core.model.finding import STATUSES as REPORTED
from ganeti_steward.plugins.model.kept_object import shortened

#: ns since the epoch, as all times of incidents; to the year 2262.
Time = Annotated[int, Range(0, 2**63 - 1)]
#: Ganeti's number of a job.
JobNumber = Annotated[int, Range(1, 2**63 - 1)]
#: How many, or how many times.
Count = Annotated[int, Range(0, 2**31 - 1)]


#: The statuses of an incident; the words are those of the design.
NOTED: Final = "noted"
PENDING: Final = "pending"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
CANCELED: Final = "canceled"

#: A state that is shown as ``completed``: the tag of success was removed.
ACKNOWLEDGED: Final = "acknowledged"

#: A source in the reason trail of the daemon's jobs; the text is the incident's uuid.
JOB_SOURCE: Final = "gnt:daemon:maintd"
#: Tags of a node, each followed by the uuid of an incident: the result, and an admin's request.
READY_TAG: Final = "maintd:repairready:"
FAILED_TAG: Final = "maintd:repairfailed:"
CANCEL_TAG: Final = "maintd:cancel:"
#: A tag of a node, followed by the uuid of an incident: its failing physical volumes are closed.
CLOSED_TAG: Final = "maintd:closed:"
#: A tag of a node, followed by the uuid of an incident of it, or by its own where there is none: an
#: admin's word that no instance runs on the node any more.
STOPPED_TAG: Final = "maintd:stopped:"
#: A tag of a node, followed by the uuid of an incident: an admin permits that it is switched off.
FENCE_TAG: Final = "maintd:fence:"
#: A tag of the cluster, followed by the reason in words with ``-`` for blanks: nothing is started.
PAUSE_TAG: Final = "maintd:pause:"
#: A tag of the cluster or a node, followed by a reason as well: no maintenance goes on.
MAINTENANCE_PAUSE_TAG: Final = "maintd:pause-maintenance:"
#: A tag of a node, node group or instance: the daemon does nothing to it.
OPT_OUT_TAG: Final = "maintd:off"
#: A tag of an instance: when it is started elsewhere after its node has died.
RESTART_FIRST: Final = "steward:restart:first"
RESTART_LAST: Final = "steward:restart:last"
RESTART_NEVER: Final = "steward:restart:never"

#: Bytes of a note, and of the reason of anything that failed, in a record.
_NOTE: Final = 2000
_REASON: Final = 400
#: Numbers of jobs in a record, the latest ones.
_JOBS: Final = 500

#: The action of a planned maintenance, which an admin requests: no node reports it.
MAINTENANCE: Final = "maintenance"
#: The action about a node of which nothing answers: no node reports it.
DEAD: Final = "dead"
#: All actions of incidents, the least urgent first; a node that is suspect only has none.
ACTIONS: Final = (
    OK,
    MAINTENANCE,
    *(status for status in REPORTED if status not in (OK, SUSPECT)),
    DEAD,
)
#: Actions by which all instances leave the node.
LEAVING: Final = EVACUATIONS | {DEAD}

#: A tag of a node, followed by the uuid of a maintenance: an admin's word that the work is over.
DONE_TAG: Final = "maintd:done:"

#: How a state looks to an admin.
GOOD: Final = "good"
WARN: Final = "warn"
BAD: Final = "bad"


class State(NamedTuple):
    """What holds for all incidents in one state; nothing else compares states or statuses."""

    status: str
    """the word that is recorded and shown"""
    active: bool = False
    """whether something is still to be done"""
    begun: bool = True
    """whether something was started: before that, the node has to report it now"""
    under_repair: bool = False
    """whether something is being done to the node"""
    result: str = ""
    """the beginning of the tag of the node that says how it ended, until a person removes that"""
    succeeded: bool = False
    """whether the repair has succeeded"""
    withdrawn: bool = False
    """whether its tags are removed and its queued jobs canceled"""
    handled: bool = False
    """whether a person has dealt with its result, or canceled it"""
    reopens: bool = False
    """whether volumes that were closed for it are opened again"""
    avoided: str = ""
    """why nothing is moved to its node, after "has": "an active"; empty: that is allowed"""
    look: str = GOOD
    """how it looks to an admin"""


#: Name -> state; the transitions between them are in the engine of the daemon.
STATES: Final[dict[str, State]] = {
    NOTED: State(NOTED, active=True, begun=False, avoided="an active", look=WARN),
    PENDING: State(PENDING, active=True, under_repair=True, avoided="an active", look=WARN),
    COMPLETED: State(COMPLETED, result=READY_TAG, succeeded=True),
    ACKNOWLEDGED: State(COMPLETED, succeeded=True, handled=True, reopens=True),
    FAILED: State(FAILED, result=FAILED_TAG, avoided="a failed", look=BAD),
    CANCELED: State(CANCELED, withdrawn=True, handled=True),
}
STATUSES: Final = tuple(dict.fromkeys(state.status for state in STATES.values()))


class Submission(NamedTuple):
    """A task that was, or is about to be, handed to Ganeti or to a node agent.

    It is recorded before it is handed over: after a crash it is looked up by its id, and not
    handed over again while that is unknown.
    """

    id: str
    """stands in the reason trail of each of its jobs"""
    step: str
    """what it does, one of the steps of `ganeti_steward.plugins.model.task`"""
    nodes: tuple[str, ...]
    """names of the nodes it reserves, sorted"""
    instances: tuple[str, ...]
    """names of the instances it reserves, sorted"""
    at: Time
    jobs: tuple[JobNumber, ...] = ()
    """empty until they are known"""
    command: str = ""
    """the repair command of the node agent; empty for jobs"""
    refused: str = ""
    """why luxid did not take all of its jobs; empty when it did"""
    each: tuple[str, ...] = ()
    """see `Task.each`"""
    after: Annotated[int, Range(0, 2**63 - 1)] = 0
    """a number that is lower than those of its jobs; 0 when none is known"""
    size: Count = 0
    """how many jobs it has; 0 when that is not known"""
    task: str = ""
    """a hash of what it does; empty for tasks that may be repeated without limit"""
    agent: str = ""
    """see `Task.agent`; a later master does not change it"""

    @property
    def named_command(self) -> str:
        """The command in a sentence, with the node if that is not the incident's."""
        return f"{self.command} on {self.agent}" if self.agent else self.command


class Attempt(NamedTuple):
    """What was tried for one instance of a node, or for the node itself, without success yet."""

    instance: str
    """its name; empty: the node"""
    tried: Count
    """how many jobs have failed"""
    at: Time
    """when the last job ended"""
    reason: str
    """why the last one failed"""
    prepared: Count = 0
    """how many jobs have succeeded that were to make another one possible"""
    step: str = ""
    """the step of the last one"""
    failed: bool = True
    """whether the last one failed"""
    interrupted: bool = False
    """whether Ganeti itself broke the last one"""
    targets: tuple[str, ...] = ()
    """names of the nodes it could not be moved to, sorted"""


class Maintenance(NamedTuple):
    """What an admin requested for a healthy node, and how the node was before."""

    choice: str
    """what is done with instances that cannot migrate: refuse, stop or move"""
    returns: bool = True
    """whether instances go home at the end"""
    ran: tuple[str, ...] = ()
    """names of the instances that ran on the node when something was to leave it, sorted"""
    drained: bool = False
    """whether the node was drained when it began"""
    ready: bool = False
    """whether the work on the node may begin: nothing runs there, and all disks are in sync"""
    worked: Time = 0
    """when it became known that the work on the node is over; 0: not yet"""
    work: str = "none"
    """what does the work: none (an admin), power, or ``command:`` and the name of a command"""
    begun: Time = 0
    """when the work was handed over that has been taken, or may have been; 0: not yet"""
    boot: str = ""
    """the boot id of the node before that; empty where it is not known"""
    at_once: Count = 0
    """as many nodes may be away or under repair while it goes on; 0: as many as ``most-nodes``"""
    gone: bool = False
    """whether the node has not answered since then, at least once"""
    full: bool = False
    """whether copies of instances that run on other nodes leave as well"""
    blocked: Time = 0
    """since when it cannot go on before a person does something; 0: it can"""
    tag: str = ""
    """a tag of the node that requested it, which is removed at its end; empty: none"""
    before: str = ""
    """the repair command of the node that is run before anything is done; empty: none"""
    after: str = ""
    """the one that is run before the node is taken back; empty: none"""
    before_ended: Time = 0
    """when the first of them has ended well; 0: not yet"""
    after_ended: Time = 0
    """when the second of them has ended well; 0: not yet"""
    deadline: Time = 0
    """when it must be over: it does not begin where it is expected to end later; 0: none"""
    expected: Count = 0
    """s from its beginning to its end, by the forecast when it was requested; 0: not known"""
    roll: str = ""
    """a uuid that all nodes share which one command has requested; empty: it was the only one"""
    roll_nodes: Count = 0
    """how many nodes these are"""
    master_before: str = ""
    """the hook of the master that is run before both; empty: none"""
    master_after: str = ""
    """the one that is run at the end, when everything is home; empty: none"""
    master_before_ended: Time = 0
    """when the first hook has ended well; 0: not yet"""
    master_after_ended: Time = 0
    """when the second hook has ended well; 0: not yet"""
    with_master: bool = False
    """whether a candidate may be made the master for it where the node is the master"""
    declined: tuple[str, ...] = ()
    """names of the candidates that have certainly not been made the master on request, sorted"""
    handover: str = ""
    """how the one attempt ended that was, or may have been, made; empty: there was none"""


def action_severity(action: str) -> int:
    """How severe an action is; that of a maintenance is less than all that nodes report."""
    if action == DEAD:
        return len(REPORTED)
    return 0 if action == MAINTENANCE else severity(action)


class Incident(NamedTuple):
    """One incident; its record is the only memory of the daemon."""

    uuid: str
    node: str
    """uuid of the node"""
    node_name: str
    """the node's name when it was last seen in the cluster"""
    original: bytes
    """the diagnose object, as canonical JSON; of a large one what is kept of it"""
    action: str
    """the object's status: live-repair, evacuate or evacuate-failover; or `MAINTENANCE`, `DEAD`"""
    status: str = NOTED
    tag: str = ""
    """the tag that was set on the node, or that will be set on success"""
    tagged: bool = False
    """whether the tag was seen on the node, or the job that sets it has succeeded"""
    acknowledged: bool = False
    """whether the tag of success was removed again: nothing more is done, nothing tagged"""
    jobs: tuple[JobNumber, ...] = ()
    """numbers of all jobs that were submitted for it"""
    open: tuple[Submission, ...] = ()
    """submissions that have not ended"""
    first_seen: Time = 0
    observed_since: Time = 0
    """since when the node reports it without reporting something else in between"""
    healthy_since: Time | None = None
    """since when the node reports something else; None while it is observed"""
    silent_since: Time | None = None
    """since when, after that, there is no valid report: the time before it is ignored"""
    changed: Time = 0
    """when the status changed last"""
    progressed: Time = 0
    """when something was submitted for it, or ended, last"""
    retry_at: Time = 0
    """a tag whose job failed is not set or removed again before"""
    note: str = ""
    """why it has this status, in one or more sentences"""
    unmovable: tuple[tuple[str, str], ...] = ()
    """instances that could not be moved, each with the reason"""
    last_task: str = ""
    """a hash of the task that succeeded last; empty before the first one"""
    repeated: Count = 0
    """how many times in a row that same task succeeded again"""
    attempts: tuple[Attempt, ...] = ()
    """by name of the instance"""
    synced: tuple[tuple[str, Time], ...] = ()
    """instance -> when all its disks were last seen in sync; by name"""
    demoted: tuple[str, ...] = ()
    """names of nodes that tasks of it have drained, set offline or the like, sorted"""
    off_at: Time = 0
    """when Ganeti's out-of-band program last reported that the node has no power; 0: never"""
    confirmed_at: Time = 0
    """when the tags were first seen by which a person confirms that it is off; 0: there are none"""
    answered: bool = False
    """whether Ganeti reached the node after a person had confirmed that it is off: until they are
    removed, the tags do not count"""
    reported: bool = False
    """whether its agent has reported since it is confirmed to be off, by a tag or as in `off_at`"""
    object: str = ""
    """the hash of the diagnose object, of which ``original`` is a part; empty: it is all of it"""
    maintenance: Maintenance | None = None
    """with the action `MAINTENANCE`; its ``original`` is no report, only what was requested"""
    foreign: bytes = b"{}"
    """the members of its record that this version does not know, as canonical JSON"""

    @property
    def object_id(self) -> str:
        """What stands for the whole diagnose object, as `Reported.object_id`."""
        return self.object or object_id(self.original)

    def bounded(self) -> Incident:
        """The incident as it is recorded: whatever nodes and jobs say, its size is limited.

        The size of ``original`` is limited when the incident is made.
        """
        return self._replace(
            note=shortened(self.note, _NOTE),
            jobs=self.jobs[-_JOBS:],
            open=tuple(one._replace(refused=shortened(one.refused, _REASON)) for one in self.open),
            unmovable=tuple((name, shortened(why, _REASON)) for name, why in self.unmovable),
            attempts=tuple(
                one._replace(reason=shortened(one.reason, _REASON)) for one in self.attempts
            ),
            maintenance=self.maintenance
            and self.maintenance._replace(handover=shortened(self.maintenance.handover, _REASON)),
        )

    @property
    def state_name(self) -> str:
        """The name of its state, a key of `STATES`."""
        return ACKNOWLEDGED if self.acknowledged else self.status

    @property
    def state(self) -> State:
        """What holds for it in its state."""
        return STATES[self.state_name]

    @property
    def active(self) -> bool:
        """Whether something is still to be done."""
        return self.state.active

    def as_not_begun(self) -> Incident:
        """The incident as it was before its repair was begun, if that has not ended."""
        return self._replace(status=NOTED) if self.state.under_repair else self

    @property
    def ready_tag(self) -> str:
        """The tag of success."""
        return f"{READY_TAG}{self.uuid}"

    @property
    def failed_tag(self) -> str:
        """The tag of failure."""
        return f"{FAILED_TAG}{self.uuid}"

    @property
    def cancel_tag(self) -> str:
        """The tag an admin sets to cancel it."""
        return f"{CANCEL_TAG}{self.uuid}"

    @property
    def closed_tag(self) -> str:
        """The tag of a node whose failing physical volumes were closed for it."""
        return f"{CLOSED_TAG}{self.uuid}"

    @property
    def stopped_tag(self) -> str:
        """The tag by which an admin says that no instance runs on the node any more."""
        return f"{STOPPED_TAG}{self.uuid}"

    @property
    def stopped_tags(self) -> tuple[str, str]:
        """The tags by which a person confirms that its node is off: its own, and the node's."""
        return self.stopped_tag, f"{STOPPED_TAG}{self.node}"

    def attempt(self, instance: str = "") -> Attempt:
        """What was tried for an instance, or for the node."""
        found = (one for one in self.attempts if one.instance == instance)
        return next(found, Attempt(instance, 0, 0, ""))

    @property
    def fence_tag(self) -> str:
        """The tag by which an admin permits that the node is switched off."""
        return f"{FENCE_TAG}{self.uuid}"

    @property
    def done_tag(self) -> str:
        """The tag by which an admin says that the work on the node is over."""
        return f"{DONE_TAG}{self.uuid}"

    def with_attempt(self, attempt: Attempt) -> Incident:
        """The incident with this in the place of an older attempt for the same instance."""
        others = [one for one in self.attempts if one.instance != attempt.instance]
        return self._replace(attempts=tuple(sorted([*others, attempt])))

    @property
    def own_tags(self) -> tuple[str, ...]:
        """All tags of nodes that name it."""
        return (
            self.ready_tag,
            self.failed_tag,
            self.cancel_tag,
            self.closed_tag,
            self.stopped_tag,
            self.fence_tag,
            self.done_tag,
        )
