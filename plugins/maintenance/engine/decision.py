"""What a step is given and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.plugins.filters.actions.changes import Releases
from ganeti_steward.plugins.maintenance.engine.copies import LastSeen
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.progress import Transfer
from ganeti_steward.plugins.model.task import Held, Plan, Task
from ganeti_steward.plugins.model.world import World

#: The subject of what is about the cluster as a whole.
CLUSTER: Final = "cluster"


#: What is known of a repair command: its end, nothing yet, or that its agent never got it.
HAS_ENDED: Final = "ended"
NOT_KNOWN: Final = "not known"
NEVER_CAME: Final = "never came"
#: It was begun, or may have been, and how it ended will not be known.
UNCERTAIN: Final = "uncertain"
#: An agent was requested to make its node the master, and certainly does not do it.
REFUSED: Final = "refused"


class Recent(NamedTuple):
    """What the daemon remembers of the last hours until it is restarted, beyond the records.

    Others can delete records; what a node has had done is still known then.
    """

    commands: Mapping[str, int] = MappingProxyType({})
    """`command_key` of the ledger -> when its repair command was begun last, ns"""
    opened: Mapping[str, tuple[tuple[int, str], ...]] = MappingProxyType({})
    """uuid of a node and action, with a blank -> when its incidents of the last day were opened
    (ns), each with its `object_id`, the latest last"""
    seen: LastSeen = LastSeen()
    """of nodes and disks"""
    unanswered: Mapping[str, int] = MappingProxyType({})
    """uuid of a node of which nothing answers -> since when, in each round, ns since the epoch"""
    down: Mapping[str, int] = MappingProxyType({})
    """name of an instance that is down though its node answers -> since when, in each round, ns
    since the epoch; 0: not known, though for long enough"""


class CommandResult(NamedTuple):
    """The result of a repair command of a node agent."""

    ok: bool
    """whether it ended by itself with exit status 0"""
    text: str
    """exit status and output, or why it was not run, or why that is not known, in one sentence"""
    state: str = HAS_ENDED
    """`NOT_KNOWN`: its agent is queried until it is; `NEVER_CAME`, `REFUSED`: it will not be run;
    `UNCERTAIN`: nothing more will be known"""


class Lasting(NamedTuple):
    """Since when each round had something about the subjects of one plugin of routine work."""

    since: Mapping[str, int] = MappingProxyType({})
    """as `World.since`"""
    marked: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    """as `World.marked`"""


class Inputs(NamedTuple):
    """Everything one step depends on."""

    world: World
    """with the incidents as they were recorded"""
    jobs: Mapping[int, JobState] = MappingProxyType({})
    """number -> state, of each job of an open submission; read before the world, so that what a
    job that has succeeded did is seen there"""
    results: Mapping[str, CommandResult] = MappingProxyType({})
    """submission id -> what is known of its repair command; missing while that runs"""
    found: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    """id of a submission without job numbers -> those the job queue has for it; a submission that
    is missing here is not known to be over"""
    refused: Mapping[str, str] = MappingProxyType({})
    """id of a submission in ``found`` -> why luxid did not take all of its jobs"""
    awaited: Mapping[str, str] = MappingProxyType({})
    """id of a submission that is not in ``found`` -> what has to happen before it can be there"""
    last_job: int = 0
    """a number that is lower than that of each job that is submitted from now on"""
    utc_offset: int = 0
    """s; what local time, in which windows are configured, is ahead of UTC"""
    unreadable: Mapping[str, str] = MappingProxyType({})
    """uuid of a node with a record that cannot be read -> why"""
    calls_known: bool = True
    """whether ``world.routine`` and ``world.orphans`` have all jobs that no record names: a call
    whose answer was lost, and a daemon that was killed, may have left some that the queue does not
    show yet"""
    since: Mapping[str, Lasting] = MappingProxyType({})
    """`Decision.since` of the step before"""
    recent: Recent = Recent()
    """`Decision.recent` of the step before, with the commands that were handed over after it"""
    transfers: Mapping[int, Transfer] = MappingProxyType({})
    """number -> the memory that a job copies, of those that may have done so for too long"""
    only: str = ""
    """uuid of the only incident for which anything is begun: all else is as in mode observe.
    Empty: the mode decides for all"""


class Started(NamedTuple):
    """A task that is to be handed over now."""

    incident: str
    """uuid"""
    submission: str
    """id of its submission, recorded in the incident already"""
    task: Task


class RoutineStarted(NamedTuple):
    """A task of routine work that is to be handed over now."""

    plugin: str
    """name of the plugin that planned it"""
    submission: str
    """an id of its own, for the call that hands it over"""
    task: Task
    copied: tuple[int, ...] = ()
    """MiB of disks that each of its jobs copies"""

    @property
    def name(self) -> str:
        """What `Held.subject` has for it."""
        return routine_name(self.plugin, self.task.subject)


def routine_name(plugin: str, subject: str) -> str:
    """What `Held.subject` has for something of routine work."""
    return f"{plugin} {subject or CLUSTER}"


class Change(NamedTuple):
    """A change of an incident's state, for the audit log and the hook."""

    before: Incident | None
    """None: the incident is new"""
    after: Incident | None
    """None: the incident is forgotten"""
    event: str
    """what happened, in words of `ganeti_steward.plugins.maintenance.engine.transitions.Event`"""
    reason: str
    """one sentence"""


class Decision(NamedTuple):
    """What the step decided; what it names is done in this order."""

    records: tuple[Incident, ...] = ()
    """incidents to be written, each at most once"""
    removed: tuple[str, ...] = ()
    """uuids of incidents whose record is removed"""
    cancels: tuple[int, ...] = ()
    """numbers of jobs to be cancelled where they have not started"""
    started: tuple[Started, ...] = ()
    """tasks to be handed over; their submissions are in ``records``"""
    held: tuple[Held, ...] = ()
    """what was not done, and why"""
    changes: tuple[Change, ...] = ()
    """what happened to incidents"""
    routine: tuple[RoutineStarted, ...] = ()
    """tasks of routine work, handed over in the same call as those of ``started``"""
    since: Mapping[str, Lasting] = MappingProxyType({})
    """plugin of routine work -> since when each round had something about its subjects; the next
    step gets it"""
    recent: Recent = Recent()
    """the next step gets it"""
    observed: tuple[Task, ...] = ()
    """tasks that would be in ``started`` or ``routine`` if the mode were not observe"""
    releases: Releases = Releases()
    """jobs that filter rules hold: what is done about them, last of all"""


class PluginPlan(NamedTuple):
    """What the plugin of an incident answered."""

    plugin: str
    """name of the plugin; empty when none handles the incident"""
    plan: Plan
