"""Applies what has ended since the last step: jobs and repair commands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from ganeti_steward.core.model.job_state import CANCELED, LOST, NOT_STARTED, SUCCESS, JobState
from ganeti_steward.plugins.maintenance.engine.brake_case import command_ends
from ganeti_steward.plugins.maintenance.engine.decision import NEVER_CAME, NOT_KNOWN, UNCERTAIN
from ganeti_steward.plugins.maintenance.engine.ledger import Ledger, command_key
from ganeti_steward.plugins.maintenance.engine.transitions import Event
from ganeti_steward.plugins.maintenance.engine.work import (
    around_ended,
    handover_ended,
    never_came,
    power_cycle_fault,
    work_ended,
)
from ganeti_steward.plugins.model.incident import Incident, Submission, action_severity
from ganeti_steward.plugins.model.task import (
    AFTERWARDS,
    AROUND,
    COMMAND,
    MASTER_FAILOVER,
    POWER_OFF,
    POWER_STATUS,
    PREPARATIONS,
    TAG,
    WORK,
)

#: What errors of jobs contain that no node, disk or policy caused: a daemon of Ganeti was stopped,
#: the master failed over, a call to a node did not come through, a lock was not free.
_GANETIS_OWN: Final = re.compile(
    r"wconfd|luxid|ganeti-query"
    r"|[Jj]ob (?:process )?(?:has )?died|[Uu]nclean master daemon shutdown|detected death"
    r"|[Cc]onnection (?:failed|refused|reset)|[Ff]ailed to connect|[Cc]ould not connect"
    r"|[Tt]imed out|[Bb]roken pipe|[Ee]rror while executing backend function"
    r"|\b[Ll]ocks?\b|temp_insufficient_resources"
)


def is_interrupted(state: JobState) -> bool:
    """Whether Ganeti itself broke a job that did not succeed: it may be tried again as it is."""
    return state.status == LOST or _GANETIS_OWN.search(state.error) is not None


def power_fault(result: Any) -> str:
    """Why a node is not known to be off, by the result of its power status; empty: it is off.

    ``result``: for each node its name and the answer, each with a status, 0 where it is valid.
    """
    try:
        ((_, (status, answer)),) = result
        powered = answer["powered"] if status == 0 else None
    except (IndexError, KeyError, TypeError, ValueError):
        powered = None
    if powered is False:
        return ""
    what = "that the node is on" if powered is True else "nothing about its power"
    return f"its out-of-band program reports {what}"


#: ns until a tag whose job failed, or an opening that failed, is tried again.
TAG_RETRY = 300 * 10**9

_POWER: Final = frozenset({POWER_OFF, POWER_STATUS})
#: Steps whose success is not counted as one of the repair.
_UNCOUNTED: Final = frozenset({*PREPARATIONS, *_POWER, *AFTERWARDS})


def apply_ends(ledger: Ledger) -> None:
    """Close what has ended; a failure fails its incident, a successful command completes it."""
    for incident in ledger.all(lambda one: bool(one.open)):
        for submission in incident.open:
            if submission.command:
                # Others may delete the record meanwhile.
                ledger.commands[command_key(incident, submission.step)] = submission.at
            _look_at(ledger, incident.uuid, submission)


def _look_at(ledger: Ledger, uuid: str, submission: Submission) -> None:
    if submission.command:
        _command(ledger, uuid, submission)
    elif submission.jobs or submission.refused:
        _jobs(ledger, uuid, submission)
    elif submission.id in ledger.inputs.found:
        _recovered(ledger, uuid, submission, ledger.inputs.found[submission.id])
    else:
        why = ledger.inputs.awaited.get(submission.id, "")
        text = f"whether the jobs of step {submission.step} were submitted is not known yet"
        ledger.hold(uuid, "lookup", f"{text}: {why}" if why else text)


def _command(ledger: Ledger, uuid: str, submission: Submission) -> None:
    result = ledger.inputs.results.get(submission.id)
    if result is None:
        return
    if submission.step == WORK and result.state == NEVER_CAME:
        result = never_came(ledger, uuid, result)
    if result.state == NOT_KNOWN:
        until = command_ends(submission, ledger.config)
        ledger.hold(uuid, "lookup", result.text, since=submission.at, until=until)
        return
    if submission.step == MASTER_FAILOVER:
        _close(ledger, uuid, submission)
        handover_ended(ledger, uuid, submission, result)
        return
    if result.state == NEVER_CAME:
        ledger.commands.pop(command_key(ledger.incidents[uuid], submission.step), None)
        _recovered(ledger, uuid, submission, ())
        return
    _close(ledger, uuid, submission)
    reason = f"{COMMAND} {submission.named_command}: {result.text}"
    if submission.step == WORK:
        done = result.ok or result.state == UNCERTAIN
        work_ended(ledger, uuid, submission, "" if done else reason)
    elif submission.step in AROUND:
        around_ended(ledger, uuid, submission, "" if result.ok else reason)
    elif result.ok:
        complete(ledger, uuid, reason)
    else:
        ledger.happen(uuid, Event.FAILURE, reason)


def complete(ledger: Ledger, uuid: str, reason: str) -> None:
    """Complete an incident, and with it the less severe active ones of its node.

    A maintenance that is over need not be acknowledged.
    """
    if ledger.incidents[uuid].maintenance:
        ledger.happen(uuid, Event.TAKEN_BACK, reason)
        return
    ledger.happen(uuid, Event.DONE, reason)
    incident = ledger.incidents[uuid]
    if not incident.state.succeeded:
        return
    for other in ledger.all(lambda one: one.active and one.node == incident.node):
        if other.maintenance:
            continue
        if action_severity(other.action) < action_severity(incident.action):
            ledger.happen(
                other.uuid,
                Event.WORSE_DONE,
                f"incident {uuid} ({incident.action}) of the node completed",
            )


def _recovered(ledger: Ledger, uuid: str, submission: Submission, numbers: tuple[int, ...]) -> None:
    """A submission whose call is over: luxid has its jobs, or refused it, or never got it."""
    refused = ledger.inputs.refused.get(submission.id, "")
    if not (numbers or refused):
        _close(ledger, uuid, submission)
        return
    known = submission._replace(jobs=numbers, refused=refused)
    incident = ledger.incidents[uuid]
    ledger.update(
        incident._replace(
            jobs=(*incident.jobs, *(one for one in numbers if one not in incident.jobs)),
            open=tuple(known if one.id == known.id else one for one in incident.open),
        )
    )
    _jobs(ledger, uuid, known)


def _jobs(ledger: Ledger, uuid: str, submission: Submission) -> None:
    states = [ledger.inputs.jobs[one] for one in submission.jobs if one in ledger.inputs.jobs]
    fault = _fault(submission, states)
    if fault and not (submission.each or _is_repeated(ledger, uuid, submission, states)):
        ledger.happen(uuid, Event.FAILURE, fault)
    if len(states) < len(submission.jobs) or not all(state.ended for state in states):
        return
    _close(ledger, uuid, submission)
    if submission.step in AFTERWARDS:
        _afterwards(ledger, uuid, submission.step, fault)
    elif submission.step == WORK:
        work_ended(ledger, uuid, submission, _work_fault(submission, states))
    elif submission.each:
        _instances(ledger, uuid, submission, states)
    elif submission.step in _POWER:
        _power(ledger, uuid, submission, states, fault)
    elif fault and ledger.incidents[uuid].active:
        _attempt(ledger, uuid, submission.step, "", fault, interrupted=True)
    if submission.task and not fault and submission.step not in _UNCOUNTED:
        _count(ledger, uuid, submission.task)


def _is_repeated(
    ledger: Ledger, uuid: str, submission: Submission, states: Sequence[JobState]
) -> bool:
    """Whether a failure of a step is no failure of the incident: it is planned again."""
    if submission.step in AFTERWARDS or submission.step in (*_POWER, WORK):
        return True
    bad = [one for one in states if one.ended and one.status != SUCCESS]
    tried = ledger.incidents[uuid].attempt().tried
    ganetis_own = not submission.refused and all(map(is_interrupted, bad))
    return ganetis_own and tried < ledger.config.move_attempts


def _work_fault(submission: Submission, states: Sequence[JobState]) -> str:
    """Why the work on a node was not done; empty where it was, or may have been."""
    bad = [one for one in states if one.status != SUCCESS]
    if submission.refused or not all(map(is_interrupted, bad)):
        return _fault(submission, states)
    results = [state.results for state in states if state.results]
    return power_cycle_fault(results[0][-1]) if results else ""


def _instances(
    ledger: Ledger, uuid: str, submission: Submission, states: Sequence[JobState]
) -> None:
    """Note how the job of each instance ended."""
    if submission.refused or len(states) != len(submission.each):
        taken = f"luxid took {len(states)} of {len(submission.each)} jobs"
        for name in submission.each:
            _attempt(ledger, uuid, submission.step, name, _fault(submission, ()) or taken)
        return
    for name, state in zip(submission.each, states, strict=True):
        if state.status != SUCCESS:
            reason = f"job {state.number} ({submission.step}) {_ended(state)}"
            _attempt(ledger, uuid, submission.step, name, reason, interrupted=is_interrupted(state))
        elif submission.step in PREPARATIONS:
            _prepared(ledger, uuid, submission.step, name)
        else:
            # Where it is now, or has a copy, is no target that has failed.
            attempt = ledger.incidents[uuid].attempt(name)
            ledger.update(ledger.incidents[uuid].with_attempt(attempt._replace(targets=())))


def _attempt(
    ledger: Ledger, uuid: str, step: str, name: str, reason: str, *, interrupted: bool = False
) -> None:
    """One more failed attempt for an instance, or for the node (an empty name)."""
    incident = ledger.incidents[uuid]
    before = incident.attempt(name)
    after = before._replace(
        tried=before.tried + 1,
        at=ledger.now,
        reason=reason,
        step=step,
        failed=True,
        interrupted=interrupted,
    )
    # It did nothing, so to plan the same again is no repetition.
    ledger.update(incident.with_attempt(after)._replace(last_task="", repeated=0))
    ledger.hold(uuid, "attempt", f"{name or incident.node_name}: {reason}")


def _prepared(ledger: Ledger, uuid: str, step: str, name: str) -> None:
    incident = ledger.incidents[uuid]
    before = incident.attempt(name)
    after = before._replace(
        prepared=before.prepared + 1, at=ledger.now, step=step, failed=False, interrupted=False
    )
    ledger.update(incident.with_attempt(after)._replace(last_task="", repeated=0))


def _power(
    ledger: Ledger, uuid: str, submission: Submission, states: Sequence[JobState], fault: str
) -> None:
    """The node counts as off only if the status that was queried last shows it."""
    results = [state.results for state in states]
    last = results[0][-1] if results and results[0] else None
    if reason := fault or power_fault(last):
        ledger.update(ledger.incidents[uuid]._replace(off_at=0))
        _attempt(ledger, uuid, submission.step, "", reason)
        return
    ledger.update(ledger.incidents[uuid]._replace(off_at=submission.at, reported=False))


def _count(ledger: Ledger, uuid: str, task: str) -> None:
    """Count how often the same task has succeeded in a row; what was not run does not count."""
    incident = ledger.incidents[uuid]
    repeated = incident.repeated + 1 if task == incident.last_task else 0
    ledger.update(incident._replace(last_task=task, repeated=repeated))


def _fault(submission: Submission, states: Sequence[JobState]) -> str:
    """What went wrong with a submission's jobs so far; empty when nothing did."""
    faults = [f"luxid refused a job: {submission.refused}"] if submission.refused else []
    faults += [
        f"job {state.number} ({submission.step}) {_ended(state)}"
        for state in states
        if state.ended and state.status != SUCCESS
    ]
    return "; ".join(faults)


def _ended(state: JobState) -> str:
    if state.status == CANCELED:
        return "was canceled"
    return f"failed: {state.error}" if state.error else f"ended with status {state.status}"


def _afterwards(ledger: Ledger, uuid: str, step: str, fault: str) -> None:
    incident = ledger.incidents[uuid]
    if fault:
        ledger.update(incident._replace(retry_at=ledger.now + TAG_RETRY))
        ledger.hold(uuid, "tag-failed", fault)
    elif step == TAG:
        ledger.update(incident._replace(tagged=True))


def _close(ledger: Ledger, uuid: str, submission: Submission) -> None:
    incident = ledger.incidents[uuid]
    ledger.update(
        incident._replace(
            open=tuple(one for one in incident.open if one.id != submission.id),
            progressed=ledger.now,
        )
    )


def queued_jobs(ledger: Ledger, incident: Incident) -> list[int]:
    """Jobs of an incident's repair that have not started."""
    numbers = [number for one in incident.open if one.step not in AFTERWARDS for number in one.jobs]
    states = ledger.inputs.jobs
    return [one for one in numbers if one in states and states[one].status in NOT_STARTED]
