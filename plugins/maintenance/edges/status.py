"""What is visible of the daemon at one moment, and its form as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ganeti_steward.allocators.overview.amounts import KINDS, Amount, Filled, Overview
from ganeti_steward.allocators.rolling.hypervisors import Hypervisor
from ganeti_steward.core.model.finding import OK
from ganeti_steward.core.typed_json import to_json
from ganeti_steward.plugins.maintenance.config import OBSERVE
from ganeti_steward.plugins.maintenance.edges.history import AuditEntry, state_after, state_before
from ganeti_steward.plugins.maintenance.edges.poll import NOTHING, Poll
from ganeti_steward.plugins.model.cause import cause
from ganeti_steward.plugins.model.incident import MAINTENANCE, Incident, Submission
from ganeti_steward.plugins.model.progress import Emptied, progress
from ganeti_steward.plugins.model.routine import RoutineJob
from ganeti_steward.plugins.model.task import Held
from ganeti_steward.plugins.model.waits import step_of
from ganeti_steward.plugins.model.world import (
    Observation,
    Reported,
    diagnose_object,
    reported_hypervisors,
)
from ganeti_steward.plugins.texts import local_time

if TYPE_CHECKING:
    from ganeti_steward.allocators.capacity.standard_room import Room


class RoundLine(NamedTuple):
    """The outcome of one round, in numbers."""

    number: int
    ended: int
    """ns since the epoch"""
    seconds: float
    """how long it took"""
    started: int
    """tasks that were handed over"""
    held: int
    """what was not done"""
    fault: str
    """why it failed; empty when it did not"""


class Figures(NamedTuple):
    """The cluster in a few figures, of what the round has read anyway."""

    cluster: str = ""
    """the cluster's name; empty: not known"""
    down: tuple[str, ...] = ()
    """names of the instances that should run and do not"""
    checked: int = 0
    """instances whose disks were checked lately: those of nodes under repair, and those that
    routine work looks at"""
    degraded: tuple[str, ...] = ()
    """names of those of them whose disks are degraded"""
    scores: tuple[tuple[str, float], ...] = ()
    """name and score of each group with usable nodes; the smaller, the more even"""
    room: tuple[Room, ...] = ()
    """how many more instances of the standard sizes fit; empty: not counted"""


#: Whether the daemon of a master candidate would act as the running one does.
SAME: Final = "same"
DIFFERS: Final = "differs"
NOT_KNOWN: Final = "not-known"
CANDIDATE_STATES: Final = (SAME, DIFFERS, NOT_KNOWN)


class Candidate(NamedTuple):
    """A master candidate, on which the daemon runs after a failover to it."""

    node: str
    """its uuid"""
    name: str
    state: str
    """one of `CANDIDATE_STATES`"""
    parts: tuple[str, ...] = ()
    """what differs: sections of the configuration, plugins, the version of the program"""
    why: str = ""
    """why it is not known"""


class Status(NamedTuple):
    """What the status page, the metrics and the commands show; replaced after each round."""

    started: int
    """when the daemon started, ns since the epoch"""
    mode: str = OBSERVE
    """``observe`` or ``act``"""
    pause: str | None = None
    """why nothing is started; None when the daemon is not paused"""
    incidents: tuple[Incident, ...] | None = None
    """all that are recorded; None as long as they have not been read"""
    emptied: Mapping[str, Emptied] = MappingProxyType({})
    """uuid of an incident -> how far its node is emptied; only of those that empty one"""
    held: tuple[Held, ...] = ()
    """what the last round did not do, and why"""
    routine: tuple[RoutineJob, ...] = ()
    """the jobs of routine work that the last round has seen"""
    waiting: tuple[int, ...] = ()
    """numbers of the jobs that are waited for, sorted"""
    nodes: Mapping[str, str] = MappingProxyType({})
    """uuid -> name of each node of the cluster"""
    poll: Poll = NOTHING
    """the observations, and the reports that were refused"""
    rounds: int = 0
    """rounds that have ended since the start"""
    round_ended: int = 0
    """when the last round ended, ns since the epoch; 0 before"""
    round_seconds: float = 0.0
    """how long the last round took"""
    round_fault: str = ""
    """why the last round failed; empty when it did not"""
    undecided: str = ""
    """why it was undecided in the last round whether this node is the master; empty when it was
    decided"""
    started_tasks: Mapping[str, int] = MappingProxyType({})
    """step -> tasks started since the start"""
    recent: tuple[RoundLine, ...] = ()
    """the last rounds, the latest last"""
    history: tuple[AuditEntry, ...] = ()
    """the latest entries of the audit log, the latest last"""
    overview: Overview = ()
    """how full each group and node is; empty as long as the cluster has not been read"""
    figures: Figures = Figures()
    """the cluster in a few figures"""
    candidates: tuple[Candidate, ...] = ()
    """the master candidates, the master itself among them, by name"""

    def held_for(self, subject: str) -> list[Held]:
        """What was not done for an incident (its uuid), a node, a plugin or the cluster."""
        return [held for held in self.held if held.subject == subject]


def reported_object(incident: Incident, found: Observation | None) -> dict[str, Any]:
    """The diagnose object of an incident: all of it where its node reports it now (``found``)."""
    if isinstance(found, Reported) and found.object_id == incident.object_id:
        return diagnose_object(found.original)
    return diagnose_object(incident.original)


def cause_of(incident: Incident, found: Observation | None = None) -> str:
    """What its node reports as broken, in one line; empty where no node reports anything."""
    return "" if incident.action == MAINTENANCE else cause(reported_object(incident, found))


def incident_json(
    incident: Incident,
    held: Iterable[Held] = (),
    found: Observation | None = None,
    emptied: Emptied | None = None,
) -> dict[str, Any]:
    """An incident; times are ns since the epoch.  ``found``: what its node shows now."""
    return {
        "uuid": incident.uuid,
        "node": incident.node,
        "node-name": incident.node_name,
        "original": reported_object(incident, found),
        "object": incident.object_id,
        "action": incident.action,
        "cause": cause_of(incident, found),
        "progress": progress(incident, emptied),
        "repair-status": incident.status,
        "jobs": list(incident.jobs),
        "tag": incident.tag or incident.ready_tag,
        "tagged": incident.tagged,
        "acknowledged": incident.acknowledged,
        "open": [_submission_json(submission) for submission in incident.open],
        "first-seen": incident.first_seen,
        "observed-since": incident.observed_since,
        "healthy-since": incident.healthy_since,
        "changed": incident.changed,
        "progressed": incident.progressed,
        "note": incident.note,
        "unmovable": [{"instance": name, "reason": why} for name, why in incident.unmovable],
        "held": [held_json(one) for one in held],
    }


def change_json(before: Incident | None, after: Incident | None, event: str, reason: str) -> bytes:
    """A change of an incident, for programs that are notified of it."""
    incident = after or before
    content = {
        "incident": incident.uuid if incident else "",
        "node": incident.node if incident else "",
        "node-name": incident.node_name if incident else "",
        "from": state_before(before),
        "to": state_after(after),
        "event": event,
        "reason": reason,
        "before": incident_json(before) if before else None,
        "after": incident_json(after) if after else None,
    }
    return json.dumps(content).encode()


def _submission_json(submission: Submission) -> dict[str, Any]:
    return {
        "id": submission.id,
        "step": submission.step,
        "nodes": list(submission.nodes),
        "instances": list(submission.instances),
        "jobs": list(submission.jobs),
        "command": submission.command,
        "at": submission.at,
    }


def wait_line(held: Held) -> str:
    """The sentence, with since when, until when at most, and what a person can do."""
    return wait_text(held_json(held))


def wait_text(held: Mapping[str, Any]) -> str:
    """The same for what `held_json` has made."""
    parts = [held["sentence"]]
    parts += [f"since {local_time(held['since'])}"] if held["since"] else []
    parts += [f"until {local_time(held['until'])} at most"] if held["until"] else []
    parts += [f"what helps: {held['step']}"] if held["step"] else []
    return "; ".join(parts)


def held_json(held: Held) -> dict[str, Any]:
    """Something that was not done; times are ns since the epoch, 0: not known."""
    return {
        "subject": held.subject,
        "brake": held.brake,
        "sentence": held.sentence,
        "since": held.since,
        "until": held.until,
        "step": step_of(held),
        "values": {name: _plain(value) for name, value in held.values},
    }


def _plain(value: object) -> object:
    """A value that JSON has; the text of any other."""
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def daemon_json(status: Status) -> dict[str, Any]:
    """The daemon: its mode, last round and last poll, each node, and what is held."""
    return {
        "mode": status.mode,
        "pause": status.pause,
        "cluster": _figures_json(status.figures),
        "started": status.started,
        "round": {
            "number": status.rounds,
            "ended": status.round_ended,
            "seconds": status.round_seconds,
            "fault": status.round_fault,
        },
        "rounds": [line._asdict() for line in status.recent],
        "poll": {
            "number": status.poll.polls,
            "ended": status.poll.ended,
            "seconds": status.poll.seconds,
            "refused": dict(status.poll.refused),
        },
        "nodes": [
            {"node": uuid, "node-name": name, **_observed(status.poll.observations.get(uuid))}
            for uuid, name in sorted(status.nodes.items(), key=lambda one: one[1])
        ],
        "candidates": [_candidate_json(one) for one in status.candidates],
        "routine": [_routine_json(job) for job in status.routine],
        "held": [held_json(held) for held in status.held],
    }


def _candidate_json(one: Candidate) -> dict[str, Any]:
    return {
        "node": one.node,
        "node-name": one.name,
        "configuration": one.state,
        "differs": list(one.parts),
        "why": one.why,
    }


def _figures_json(figures: Figures) -> dict[str, Any]:
    return {
        "name": figures.cluster,
        "instances-down": list(figures.down),
        "disks-checked": figures.checked,
        "disks-degraded": list(figures.degraded),
        "scores": dict(figures.scores),
        "room": [one._asdict() for one in figures.room],
    }


def _routine_json(job: RoutineJob) -> dict[str, Any]:
    return {
        "job": job.number,
        "plugin": job.plugin,
        "step": job.step,
        "subject": job.subject,
        "nodes": list(job.nodes),
        "instances": list(job.instances),
        "copied-mib": job.copied,
        "job-status": job.status,
        "error": job.error,
        "submitted": job.submitted,
        "ended": job.ended,
    }


def overview_json(overview: Overview) -> list[dict[str, Any]]:
    """How full each group and node is; MiB, and virtual CPUs."""
    return [
        {**_filled_json(group.whole), "nodes": [_filled_json(filled) for filled in group.nodes]}
        for group in overview
    ]


def _filled_json(filled: Filled) -> dict[str, Any]:
    return {
        "name": filled.name,
        "notes": list(filled.notes),
        "now": _amounts_json(filled.now),
        "planned": _amounts_json(filled.after),
    }


def _amounts_json(amounts: Iterable[Amount]) -> dict[str, Any]:
    return {kind.lower(): amount._asdict() for kind, amount in zip(KINDS, amounts, strict=False)}


def hypervisors_json(status: Status) -> dict[str, Any]:
    """Name of a node -> what it reports of QEMU, its CPU and how instances run."""
    found = reported_hypervisors(status.poll.observations, status.nodes)
    return {name: to_json(Hypervisor, one, whole=True) for name, one in found.nodes.items()}


def observation_word(found: Observation | None) -> str:
    """What a node shows, in one word: healthy, suspect, ill, silent, refused, or unknown."""
    if found is None:
        return "unknown"
    if isinstance(found, Reported):
        if found.needs_repair:
            return "ill"
        return "healthy" if found.status == OK else found.status
    return type(found).__name__.lower()


def _observed(found: Observation | None) -> dict[str, Any]:
    word = observation_word(found)
    if found is None:
        return {"observation": word}
    if isinstance(found, Reported):
        what = cause(diagnose_object(found.original))
        reboot = {"reboot-required": found.reboot.required, "booted": found.reboot.booted}
        return {
            "observation": word,
            "status": found.status,
            "cause": what,
            "at": found.at,
            **reboot,
        }
    return {"observation": word, "since": found.since, "why": found.why}
