"""The jobs that filter rules hold for this daemon: read, released and cancelled through luxid.

Users can write any number of rules and submit any number of jobs.  So this is done beside the
rounds, within limits; no round waits for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.plugins.filters.actions.calling import Actions
from ganeti_steward.plugins.filters.actions.changes import (
    BRAKE,
    CANCEL,
    LATER,
    RELEASE,
    JobChange,
    Releases,
)
from ganeti_steward.plugins.filters.actions.matching import STEPS, Matches, Work
from ganeti_steward.plugins.filters.actions.releasing import concerned, decide
from ganeti_steward.plugins.filters.filter_rules import RATE_LIMIT, FilterRule, FilterRules
from ganeti_steward.plugins.filters.jobs import Job, read_job
from ganeti_steward.plugins.filters.rule_notes import noted_action
from ganeti_steward.plugins.maintenance.confd.choice import Mastership, Vote
from ganeti_steward.plugins.maintenance.config import OBSERVE
from ganeti_steward.plugins.maintenance.daemon.mastership import NotMaster
from ganeti_steward.plugins.maintenance.pause import pause_reason
from ganeti_steward.plugins.maintenance.queue.orphans import OpenJobs
from ganeti_steward.plugins.maintenance.runtime import REAL, Running, Runtime
from ganeti_steward.plugins.model.filter_action import Facts, Verdict, approved_jobs
from ganeti_steward.plugins.model.task import Held
from ganeti_steward.plugins.texts import describe_fault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ganeti_steward.plugins.maintenance.engine.decision import Inputs
    from ganeti_steward.plugins.model.incident import Incident

#: Changes of one round: each is a change of Ganeti's configuration, which can take a second.
_MOST: Final = 50
#: Seconds of one decision.  Its steps are counted, too, but some take much longer than others.
_LONGEST: Final = 20.0

_log: Final = logging.getLogger(__name__)


class JobReleases:
    """Held jobs of one luxid."""

    def __init__(
        self,
        luxi: Luxi,
        config: Callable[[], Config],
        monotonic: Callable[[], float] = time.monotonic,
        given: Callable[[], int | None] = lambda: None,
    ) -> None:
        """``config``: the configuration in use, which names the plugins; ``monotonic``: s.

        ``given``: the last number that luxid has given out, see `job_search.last_job`.
        """
        self._luxi, self._config, self._monotonic = luxi, config, monotonic
        self._rules, self._open = FilterRules(luxi), OpenJobs(luxi, given)
        self._matches = Matches()

    def decide(self, facts: Facts) -> Releases:
        """What should be done now; changes nothing.  Raises StewardError."""
        rules = self._rules.read()
        if not concerned(rules):
            return Releases()
        # After the rules: a job that came since is looked at with older rules, and held.
        jobs = self._jobs()
        with Actions(self._config()) as actions:

            def verdict(rule: FilterRule, job: Job, occupied: int) -> Verdict:
                limit = str(rule.limit) if rule.action == RATE_LIMIT else ""
                name, arguments = noted_action(rule) or (rule.action, limit)
                return actions(name, arguments, job, facts._replace(occupied=occupied))

            until = self._monotonic() + _LONGEST
            work = Work(STEPS, lambda: self._monotonic() > until)
            return decide(rules, jobs, verdict, work, self._matches)

    def carry_out(
        self, changes: Sequence[JobChange], stopping: Callable[[], bool]
    ) -> tuple[list[JobChange], list[Held]]:
        """Make the changes, one after the other; those made, and what was not done."""
        rest = Releases(tuple(changes[_MOST:]))
        done = list[JobChange]()
        held = list(rest.held_back(LATER, f"after {_MOST} changes the round ends").held)
        for one in changes[:_MOST]:
            if stopping():
                break
            try:
                self._make(one)
                done.append(one)
            except StewardError as err:
                held.append(Held(one.holding, "submit", f"{one.sentence}: {err}"))
        return done, held

    def cluster_tags(self) -> list[str]:
        """Those of now; raises StewardError."""
        tags: list[str] = self._luxi.info()["tags"]
        return tags

    def _make(self, change: JobChange) -> None:
        if change.kind == CANCEL:
            self._luxi.cancel(change.job)
        elif change.kind == RELEASE:
            self._rules.write(change.rule(time.time_ns()))
        else:
            self._rules.delete(change.release)

    def _jobs(self) -> list[Job]:
        """Those that have not ended."""
        # Of a damaged job nothing is known: it stays held.
        jobs = []
        for row in self._open.read():
            with suppress(ValueError):
                jobs.append(read_job(row))
        return jobs


class Question(NamedTuple):
    """What a round knows that decides about held jobs."""

    facts: Facts
    mode: str
    tags: frozenset[str]
    """of the cluster"""
    undecided: str = ""
    """why it is undecided whether this node is the master"""


class Released(NamedTuple):
    """What was done about held jobs."""

    done: tuple[JobChange, ...] = ()
    held: tuple[Held, ...] = ()
    """what was not done, and the jobs that stay held"""
    lost: str = ""
    """why this node is not the master any more; empty while it is"""


#: Called by each round, to have something done about held jobs.
Releasing = Callable[[Question], Released]


def planned(releases: JobReleases, question: Question) -> Releases:
    """What should be done about held jobs; a fault there is no fault of the round."""
    try:
        found = releases.decide(question.facts)
    except Exception as err:
        return Releases(held=_fault(err))
    if question.mode == OBSERVE:
        return found.held_back("observe", "the mode is observe")
    if question.undecided:
        return found.held_back("master", "nothing is submitted")
    return _unless_paused(found, question.tags)


def _fault(err: Exception) -> tuple[Held, ...]:
    if not isinstance(err, StewardError):
        _log.exception("held jobs cannot be looked at")
    return (
        Held("cluster", BRAKE, f"jobs that filter rules hold stay held: {describe_fault(err)}"),
    )


def _unless_paused(found: Releases, tags: Iterable[str]) -> Releases:
    """``tags``: of the cluster."""
    paused = pause_reason(tags)
    if paused is None:
        return found
    return found.held_back("pause", f"maintenance is paused: {paused}")


class AtOnce:
    """Decides about held jobs, and does it."""

    def __init__(
        self, releases: JobReleases, voting: Callable[[], Vote], stopping: Callable[[], bool]
    ) -> None:
        """``voting``: the vote now, raises NotMaster; ``stopping``: whether the daemon ends."""
        self._releases, self._voting, self._stopping = releases, voting, stopping

    def __call__(self, question: Question) -> Released:
        """What was done."""
        found, lost = planned(self._releases, question), ""
        if found.changes:
            why, lost = self._forbidden()
            found = found.held_back("master", why) if why else found
        if found.changes:
            # The question is older than the decision.
            found = _unless_paused(found, self._releases.cluster_tags())
        done, failed = self._releases.carry_out(found.changes, self._stopping)
        return Released(tuple(done), (*found.held, *failed), lost)

    def _forbidden(self) -> tuple[str, str]:
        """Why no change may be made, and why this node is not the master any more."""
        if self._stopping():
            return "the daemon ends", ""
        try:
            result = self._voting()
        except NotMaster as err:
            return f"this node is not the master any more: {err}", str(err)
        return ("" if result.mastership is Mastership.MASTER else result.reason), ""


class Beside:
    """Does it in a thread of its own: a round gets what was done before it, and waits for nothing.

    A question that comes while one is answered is dropped; the next round has a newer one.
    """

    def __init__(
        self, answer: Releasing, wake: Callable[[], None], runtime: Runtime = REAL
    ) -> None:
        """``wake`` is called, by the thread, when there is something to report."""
        self._answer, self._wake, self._runtime = answer, wake, runtime
        self._thread: Running | None = None
        self._began = 0.0
        self._answered = Released()
        """the last answer"""

    def __call__(self, question: Question) -> Released:
        """The last answer; what was done is in one of them only."""
        if self._thread is not None and self._thread.is_alive():
            seconds = self._runtime.monotonic() - self._began
            text = f"the decision about held jobs takes {seconds:.0f} s so far; they stay held"
            return Released(held=(*self._answered.held, Held("cluster", LATER, text)))
        found = self._answered
        # What was done is reported once, what is held in each round.
        self._answered = Released(held=found.held)
        self._began = self._runtime.monotonic()
        self._thread = self._runtime.start("held jobs", lambda: self._run(question))
        return found

    def _run(self, question: Question) -> None:
        try:
            found = self._answer(question)
        except Exception as err:
            found = Released(held=_fault(err))
        self._answered = found
        if found.done or found.lost:
            self._wake()


def question_of(
    inputs: Inputs,
    incidents: Mapping[str, Incident],
    now: int,
    mode: str,
    undecided: str = "",
) -> Question:
    """What actions may decide by.

    ``incidents``: as they are recorded now; ``now``: ns since the epoch, later than the world,
    which can take minutes to be read.
    """
    world = inputs.world
    facts = Facts(
        now,
        inputs.utc_offset,
        tuple(incidents.values()),
        frozenset(inputs.unreadable),
        {uuid: node.name for uuid, node in world.nodes.items()},
        approved_jobs(world.cluster_tags),
    )
    return Question(facts, mode, world.cluster_tags, undecided)
