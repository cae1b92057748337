"""What a step is given and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.maintenance.task import Held, Plan, Task
from ganeti_steward.core.maintenance.world import World
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.plugins.filters.actions.changes import Releases


class CommandResult(NamedTuple):
    """What came of a repair command of a node agent."""

    ok: bool
    """whether it ended by itself with exit status 0"""
    text: str
    """exit status and output, or why it was not run, in one sentence"""


class Inputs(NamedTuple):
    """Everything one step depends on."""

    world: World
    """with the incidents as they were recorded"""
    jobs: Mapping[int, JobState] = MappingProxyType({})
    """number -> state, of each job of an open submission; read before the world, so that what a
    job that has succeeded did is seen there"""
    results: Mapping[str, CommandResult] = MappingProxyType({})
    """submission id -> what came of its repair command, once that is known"""
    found: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    """id of a submission without job numbers -> those the job queue has for it; a submission that
    is missing here has not been looked up"""
    utc_offset: int = 0
    """s; what local time, in which windows are configured, is ahead of UTC"""


class Started(NamedTuple):
    """A task that is to be handed over now."""

    incident: str
    """uuid"""
    submission: str
    """id of its submission, recorded in the incident already"""
    task: Task


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
    releases: Releases = Releases()
    """jobs that filter rules hold: what is done about them, last of all"""


class Planned(NamedTuple):
    """What the plugin of an incident answered."""

    plugin: str
    """name of the plugin; empty when none handles the incident"""
    plan: Plan
