"""The jobs that filter rules hold for this daemon: read, released and cancelled through luxid."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.plugins.filters.actions.calling import Actions
from ganeti_steward.plugins.filters.actions.changes import (
    BRAKE,
    CANCEL,
    RELEASE,
    JobChange,
    Releases,
)
from ganeti_steward.plugins.filters.actions.releasing import concerned, decide
from ganeti_steward.plugins.filters.filter_rules import RATE_LIMIT, FilterRule, FilterRules
from ganeti_steward.plugins.filters.jobs import Job, read_job
from ganeti_steward.plugins.filters.rule_notes import noted_action
from ganeti_steward.plugins.maintenance.config import OBSERVE
from ganeti_steward.plugins.maintenance.pause import pause_reason
from ganeti_steward.plugins.maintenance.queue.orphans import OpenJobs
from ganeti_steward.plugins.model.filter_action import Facts, Verdict, approved_jobs
from ganeti_steward.plugins.model.task import Held
from ganeti_steward.plugins.texts import describe_fault

if TYPE_CHECKING:
    from ganeti_steward.plugins.maintenance.edges.store import RecordFault
    from ganeti_steward.plugins.model.world import World

#: Changes of one round: each is a change of Ganeti's configuration, which can take a second.
_MOST: Final = 50

_log: Final = logging.getLogger(__name__)


class JobReleases:
    """Held jobs of one luxid."""

    def __init__(self, luxi: Luxi, config: Callable[[], Config]) -> None:
        """``config``: the configuration in use, which names the plugins."""
        self._luxi, self._config = luxi, config
        self._rules, self._open = FilterRules(luxi), OpenJobs(luxi)

    def decide(self, facts: Facts) -> Releases:
        """What should be done now; changes nothing.  Raises StewardError."""
        rules = self._rules.read()
        if not concerned(rules):
            return Releases()
        # After the rules: a job that came since is looked at with older rules, and held.
        jobs = self._jobs()
        with Actions(self._config()) as actions:

            def verdict(rule: FilterRule, job: Job, occupied: int) -> Verdict:
                name, arguments = noted_action(rule) or (rule.action, _limit(rule))
                return actions(name, arguments, job, facts._replace(occupied=occupied))

            return decide(rules, jobs, verdict)

    def carry_out(
        self, changes: Sequence[JobChange], stopping: Callable[[], bool]
    ) -> tuple[list[JobChange], list[Held]]:
        """Make the changes, one after the other; those made, and what was not done."""
        rest = Releases(tuple(changes[_MOST:]))
        done = list[JobChange]()
        held = list(rest.held_back("round", f"after {_MOST} changes the round ends").held)
        for one in changes[:_MOST]:
            if stopping():
                break
            try:
                self._make(one)
                done.append(one)
            except StewardError as err:
                held.append(Held(one.holding, "submit", f"{one.sentence}: {err}"))
        return done, held

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


def _limit(rule: FilterRule) -> str:
    return str(rule.limit) if rule.action == RATE_LIMIT else ""


def planned(
    releasing: JobReleases | None, facts: Facts, mode: str, tags: frozenset[str]
) -> Releases:
    """What a round does about held jobs; a fault there is no fault of the round.

    ``tags``: of the cluster.
    """
    if releasing is None:
        return Releases()
    try:
        releases = releasing.decide(facts)
    except Exception as err:
        if not isinstance(err, StewardError):
            _log.exception("held jobs cannot be looked at")
        text = f"jobs that filter rules hold stay held: {describe_fault(err)}"
        return Releases(held=(Held("cluster", BRAKE, text),))
    if mode == OBSERVE:
        return releases.held_back("observe", "the mode is observe")
    paused = pause_reason(tags)
    if paused is not None:
        return releases.held_back("pause", f"maintenance is paused: {paused}")
    return releases


def facts_of(world: World, now: int, utc_offset: int, faults: Sequence[RecordFault]) -> Facts:
    """What actions may decide by.

    ``now``: ns since the epoch, later than the world, which can take minutes to be read;
    ``utc_offset``: s.
    """
    return Facts(
        now,
        utc_offset,
        tuple(world.incidents.values()),
        frozenset(fault.node for fault in faults if fault.node),
        {uuid: node.name for uuid, node in world.nodes.items()},
        approved_jobs(world.cluster_tags),
    )
