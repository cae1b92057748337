"""Hands tasks over to luxid, and finds out afterwards what was handed over.

Intent first: when this is called, the records hold the submissions already, without numbers.
What is not known then, because luxid or the daemon stopped in between, is looked up in the job
queue by the submission's id in the reason trails before anything is decided again.  Nothing counts
as not submitted because time has passed: only once the call is known to be over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.jobs import Submitted
from ganeti_steward.core.ganeti.luxi import Luxi, NotReached
from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.core.typed_json import from_json
from ganeti_steward.plugins.maintenance.edges.store import Store
from ganeti_steward.plugins.maintenance.engine.decision import RoutineStarted, Started
from ganeti_steward.plugins.maintenance.queue.calls import Calls, TaskOutcome
from ganeti_steward.plugins.maintenance.queue.job_search import FoundJob, jobs_with_reason
from ganeti_steward.plugins.model.incident import JOB_SOURCE, Incident, Submission
from ganeti_steward.plugins.model.routine import ROUTINE_SOURCE, ROUTINE_TEXT, RoutineJob
from ganeti_steward.plugins.model.task import Task

#: What a reason trail says of a job of routine work.
_FACTS: Final = ("plugin", "step", "subject", "nodes", "instances", "copied")


def trail(started: RoutineStarted, copied: int) -> list[tuple[str, str]]:
    """Sources and texts of the reasons for one job of a task, which copies so many MiB."""
    task = started.task
    facts = {
        "plugin": started.plugin,
        "step": task.step,
        "subject": task.subject,
        "nodes": sorted(task.nodes),
        "instances": sorted(task.instances),
        "copied": copied,
    }
    text = json.dumps(facts, separators=(",", ":"))
    return [(JOB_SOURCE, f"{ROUTINE_TEXT}{started.plugin}"), (ROUTINE_SOURCE, text)]


def read_trail(job: FoundJob) -> RoutineJob | None:
    """The job as its reason trail describes it; None when it does not."""
    reasons = [reason for each in job.reasons for reason in each if reason.source == ROUTINE_SOURCE]
    return _read(job.number, reasons)


def _read(number: int, reasons: Iterable[Reason]) -> RoutineJob | None:
    for reason in reasons:
        try:
            facts = load_json(reason.text)
            known = {key: facts[key] for key in _FACTS}
            added = {"number": number, "submitted": reason.timestamp}
            job: RoutineJob = from_json(RoutineJob, known | added)
        except (LookupError, TypeError, ValueError):
            continue
        return job
    return None


#: A source in the reason trail of each operation; the text is the submission's id.
SUBMISSION_SOURCE: Final = "gnt:daemon:maintd:submission"

_AnyStarted = Started | RoutineStarted

#: What luxid adds to the trail of each operation.
_NUMBER: Final = re.compile(r"job=([0-9]{1,15});")

#: luxid's words for a call in which one operation is wrong; it takes none of the others either.
_UNREADABLE: Final = "Failed to parse request"


class HandedOver(NamedTuple):
    """What is known after a submission."""

    incidents: Mapping[str, Incident]
    """uuid -> incident as it was recorded: with job numbers or refusal, or without a submission
    that was withdrawn"""
    unknown: Mapping[str, str]
    """submission id -> why it is not known, or not recorded, whether its jobs are in the queue;
    `look_up` will find out"""
    routine: Mapping[str, TaskOutcome] = MappingProxyType({})
    """submission id -> what became of a task of routine work"""
    withdrawn: Mapping[str, str] = MappingProxyType({})
    """submission id -> why its jobs were not handed over, through no fault of the task"""


class LookedUp(NamedTuple):
    """What is known of submissions whose records have no numbers."""

    found: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    """submission id -> numbers of its jobs, none when it was not handed over"""
    refused: Mapping[str, str] = MappingProxyType({})
    """submission id in ``found`` -> why luxid did not take all of its jobs"""
    awaited: Mapping[str, str] = MappingProxyType({})
    """submission id, not in ``found`` -> what has to happen before it is known"""


def submit(
    started: Sequence[Started],
    incidents: Mapping[str, Incident],
    store: Store,
    luxi: Luxi,
    routine: Sequence[RoutineStarted] = (),
    calls: Calls | None = None,
) -> HandedOver:
    """Hand all jobs over in one call, then record their numbers; never raises StewardError.

    ``incidents`` (by uuid) hold the submissions of ``started`` and are recorded.  Repair commands
    are not handed over here.  Only if luxid cannot read the jobs, each task is handed over by
    itself, so that the wrong one is found: a refusal is recorded as `Submission.refused`.  Nothing
    is recorded of ``routine``: the reason trails of its jobs say what they are.  ``calls``: those
    of this process.
    """
    tasks: list[_AnyStarted] = [*(one for one in started if not one.task.command), *routine]
    results = _hand_over(tasks, luxi, calls or Calls())
    changed: dict[str, Incident] = {}
    own = {one.submission: results.pop(one.submission) for one in routine}
    unknown = {key: result.unknown for key, result in results.items() if result.unknown}
    for one in started:
        result = results.get(one.submission)
        if result is None or result.unknown:
            continue
        incident = changed.get(one.incident, incidents[one.incident])
        changed[one.incident] = _with(incident, one.submission, result)
        try:
            store.write(changed[one.incident])
        except StewardError as err:
            unknown[one.submission] = _unrecorded(result, err)
    withdrawn = {key: result.withdrawn for key, result in results.items() if result.withdrawn}
    return HandedOver(changed, unknown, own, withdrawn)


def _with(incident: Incident, submission: str, result: TaskOutcome) -> Incident:
    """The incident with what became of one of its open submissions."""
    if result.withdrawn:
        return without(incident, submission)
    return noted(incident, submission, result.numbers, result.refused)


def _unrecorded(result: TaskOutcome, err: StewardError) -> str:
    if result.withdrawn:
        return f"{result.withdrawn}; that is not recorded: {err}"
    numbers = ", ".join(map(str, result.numbers)) or "none"
    return f"the job numbers ({numbers}) are not recorded: {err}"


def without(incident: Incident, submission: str) -> Incident:
    """The incident without a submission that was not handed over."""
    return incident._replace(open=tuple(one for one in incident.open if one.id != submission))


def noted(
    incident: Incident, submission: str, numbers: tuple[int, ...], refused: str = ""
) -> Incident:
    """The incident with the job numbers of one of its open submissions."""
    return incident._replace(
        jobs=(*incident.jobs, *(one for one in numbers if one not in incident.jobs)),
        open=tuple(
            one._replace(jobs=numbers, refused=refused) if one.id == submission else one
            for one in incident.open
        ),
    )


def _hand_over(started: Sequence[_AnyStarted], luxi: Luxi, calls: Calls) -> dict[str, TaskOutcome]:
    faults = {one.submission: _fault(one.task) for one in started}
    results = {key: TaskOutcome(refused=fault) for key, fault in faults.items() if fault}
    good = [one for one in started if not faults[one.submission]]
    if not good:
        return results
    return results | calls.make(good, lambda: _submit(good, luxi.without_limit()))


def _submit(started: Sequence[_AnyStarted], luxi: Luxi) -> dict[str, TaskOutcome]:
    """The answer of luxid, whenever it comes, or that there will be none."""
    jobs = [job for one in started for job in one.task.jobs]
    trails = [each for one in started for each in _trails(one)]
    try:
        answers = luxi.submit_with_trails(jobs, trails)
    except NotReached as err:
        return {one.submission: TaskOutcome(withdrawn=str(err)) for one in started}
    except StewardError as err:
        return {one.submission: TaskOutcome(unknown=str(err)) for one in started}
    whole = _refusal_of_all(answers, luxi)
    if not whole:
        return _divided(started, answers)
    if _UNREADABLE not in whole:
        # A drained or full queue is no fault of the task: it is planned again.
        return {one.submission: TaskOutcome(withdrawn=whole) for one in started}
    if len(started) == 1:
        return {started[0].submission: TaskOutcome(refused=whole)}
    results: dict[str, TaskOutcome] = {}
    for one in started:
        results |= _submit([one], luxi)
    return results


def _trails(started: _AnyStarted) -> list[list[tuple[str, str]]]:
    """Of each job of a task."""
    if isinstance(started, RoutineStarted):
        return [trail(started, copied) for copied in started.copied]
    own = [(JOB_SOURCE, started.incident), (SUBMISSION_SOURCE, started.submission)]
    return [own] * len(started.task.jobs)


def _refusal_of_all(answers: Sequence[Submitted], luxi: Luxi) -> str:
    """Why luxid took no job of the call; empty when it answered for each."""
    errors = {answer.error for answer in answers}
    (error,) = errors if len(errors) == 1 else {""}
    return error if error.startswith(luxi.where) else ""


def _divided(
    started: Sequence[_AnyStarted], answers: Sequence[Submitted]
) -> dict[str, TaskOutcome]:
    """The answers by submission."""
    rest = iter(answers)
    results = {}
    for one in started:
        own = [next(rest) for _ in one.task.jobs]
        numbers = tuple(number for answer in own for number in answer.numbers)
        refused = "; ".join(answer.error for answer in own if answer.error)
        results[one.submission] = TaskOutcome(numbers, refused)
    return results


def _fault(task: Task) -> str:
    """Why luxid must not get a task; empty when it may."""
    if not task.jobs:
        return f"step {task.step} has neither jobs nor a command"
    for at, job in enumerate(task.jobs):
        if fault := _job_fault(job, at):
            return f"job {at + 1} of step {task.step} {fault}"
    return ""


def _job_fault(job: Job, at: int) -> str:
    """``at``: how many jobs of the task come before it."""
    if not job:
        return "has no operation"
    try:
        text = json.dumps(job, ensure_ascii=False, allow_nan=False)
        needed = [int(one) for operation in job for one, _ in operation.get("depends") or ()]
    except (AttributeError, TypeError, ValueError) as err:
        return f"is not a list of operations: {err}"
    if not text.isascii():
        return "holds other text than ASCII, which luxid does not confirm"
    # Relative numbers count back from the job itself, so that other tasks' jobs may come before.
    if any(-one > at or one == 0 for one in needed if one <= 0):
        return "depends on a job that is not in the same task"
    return ""


def look_up(
    submissions: Iterable[Submission],
    luxi: Luxi,
    calls: Calls,
    before: Callable[[Collection[str]], Mapping[str, str]],
) -> LookedUp:
    """What became of the submissions without numbers; raises StewardError.

    Those of ``calls`` are known, or their call has ended and the queue has its outcome.  Of
    the others, handed over by an earlier daemon, that is certain once its calls are over:
    ``before`` returns those that may go on, each with the reason.
    """
    wanted = [
        submission
        for submission in submissions
        if not (submission.jobs or submission.refused or submission.command)
    ]
    running = {start.submission for start in calls.running()}
    calls.forget(submission.id for submission in wanted)
    awaited = {
        submission.id: "luxid has not answered yet"
        for submission in wanted
        if submission.id in running
    }
    outcomes = {
        submission.id: calls.outcome(submission.id)
        for submission in wanted
        if submission.id not in running
    }
    known = {key: one for key, one in outcomes.items() if one and not one.unknown}
    found = {key: one.numbers for key, one in known.items()}
    refused = {key: one.refused for key, one in known.items() if one.refused}
    lost = [submission for submission in wanted if submission.id in outcomes.keys() - known.keys()]
    # Before the queue is read.
    whys = before([submission.id for submission in lost if outcomes[submission.id] is None])
    for submission, jobs in _in_queue(lost, luxi):
        if submission.id in whys and not _has_all(submission, jobs):
            awaited[submission.id] = whys[submission.id]
        else:
            found[submission.id] = tuple(job.number for job in jobs)
    return LookedUp(found, refused, awaited)


def _in_queue(
    submissions: Sequence[Submission], luxi: Luxi
) -> list[tuple[Submission, list[FoundJob]]]:
    """The jobs of each submission, archived ones included."""
    if not submissions:
        return []
    after = min(submission.after for submission in submissions)
    jobs = jobs_with_reason(luxi, SUBMISSION_SOURCE, after=after, archived=True)
    return [
        (submission, [job for job in jobs if submission.id in submissions_of(job)])
        for submission in submissions
    ]


def submissions_of(job: FoundJob) -> set[str]:
    """The ids of the submissions in the reason trail of a job."""
    reasons = (reason for trail in job.reasons for reason in trail)
    return {reason.text for reason in reasons if reason.source == SUBMISSION_SOURCE}


def _has_all(submission: Submission, jobs: Sequence[FoundJob]) -> bool:
    """Whether luxid has stored all jobs of a submission, also while the call goes on."""
    # A job that was submitted by another one has the other one's number in its trail as well.
    own = sum(_numbers(job) == {job.number} for job in jobs)
    return 0 < submission.size == own


def _numbers(job: FoundJob) -> set[int]:
    """The numbers in the reasons that luxid has added."""
    reasons = (reason for trail in job.reasons for reason in trail)
    texts = (one.text for one in reasons if one.source.startswith("gnt:opcode:"))
    return {int(found[1]) for text in texts if (found := _NUMBER.match(text))}


def job_states(incidents: Iterable[Incident], luxi: Luxi) -> dict[int, JobState]:
    """Number -> state of every job of an open submission; raises StewardError.

    A job Ganeti does not know any more is lost, which counts as failed: nothing shows that it has
    succeeded.
    """
    numbers = sorted(
        {n for incident in incidents for open_one in incident.open for n in open_one.jobs}
    )
    return {state.number: state for state in luxi.states(numbers)}


def cancel(numbers: Iterable[int], luxi: Luxi) -> dict[int, str]:
    """Cancel jobs that have not started; running ones finish.

    Number -> luxid's answer, or why there is none; never raises StewardError.
    """
    answers = {}
    for number in numbers:
        try:
            answers[number] = luxi.cancel(number)
        except StewardError as err:
            answers[number] = str(err)
    return answers
