"""An evacuation from its first round to its end: the step, the built-in repair, a job queue.

Jobs end at once and do to the world what they do in Ganeti, unless the test says that they fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from worlds import after, uuid_of, with_instance, with_node

from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.job_state import ERROR, SUCCESS, JobState
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.config import ACT, Maintd
from ganeti_steward.plugins.maintenance.engine.decision import Decision, Inputs, PluginPlan, Recent
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.maintenance.repairs.evacuate import Evacuate
from ganeti_steward.plugins.model.disks import DiskHealth
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.task import Held
from ganeti_steward.plugins.model.world import Observation, Reported, World

SECOND = 10**9

#: The results of a job, or why it fails.
Outcome = list[Any] | str


def succeed(job: Job) -> Outcome:
    """Every job succeeds."""
    return [None] * len(job)


class Evacuated:
    """A cluster of `worlds` whose incidents are handled by the built-in evacuation."""

    def __init__(self, start: World, **settings: Any) -> None:
        self.config = Maintd(**{"mode": ACT, "hold_time": 0, "storm_share": 1, **settings})
        self.now = start
        self.jobs: list[Job] = []
        """all that were submitted"""
        self.outcome: Callable[[Job], Outcome] = succeed
        self.held: tuple[Held, ...] = ()
        self.decisions: list[Decision] = []
        self._states: dict[int, JobState] = {}
        self._recent = Recent()
        self._plugin = Evacuate()
        self._plugin.configure(self.config)

    def round(self, seconds: float = 1) -> Decision:
        """One round, and the jobs it starts."""
        now = self.now.now + int(seconds * SECOND)
        self.now = self.now._replace(now=now, observations=self._observed(now))
        inputs = Inputs(self.now, dict(self._states), recent=self._recent)
        decision = step(inputs, self.config, self._plan)
        self._recent = decision.recent
        known = {**self.now.incidents, **{one.uuid: one for one in decision.records}}
        for started in decision.started:
            numbers = tuple(self._run(list(job)) for job in started.task.jobs)
            one = known[started.incident]
            opened = tuple(
                each._replace(jobs=numbers) if each.id == started.submission else each
                for each in one.open
            )
            known[one.uuid] = one._replace(open=opened, jobs=(*one.jobs, *numbers))
        for uuid in decision.removed:
            del known[uuid]
        self.now = self.now._replace(incidents=known)
        self.held = decision.held
        self.decisions.append(decision)
        return decision

    def _observed(self, now: int) -> Mapping[str, Observation]:
        """Agents that answer report the present."""
        found = self.now.observations.items()
        return {n: o._replace(at=now) if isinstance(o, Reported) else o for n, o in found}

    def _plan(self, incident: Incident, world: World) -> list[PluginPlan]:
        found = self._plugin.steward_plan(incident, world, Context()) or []
        return [PluginPlan("evacuate", one) for one in found]

    def _run(self, job: Job) -> int:
        number = len(self.jobs) + 1
        self.jobs.append(job)
        outcome = self.outcome(job)
        if isinstance(outcome, str):
            self._states[number] = JobState(number, ERROR, outcome)
        else:
            self._states[number] = JobState(number, SUCCESS, results=outcome)
            self.now = after(self.now, [job])
        return number

    def run(self, rounds: int = 40, seconds: float = 31) -> Incident:
        """Rounds until the only incident has ended, or no more; the incident."""
        for _ in range(rounds):
            self.round(seconds)
            if not self.incident.active:
                break
        return self.incident

    # What a test changes, and looks at

    @property
    def incident(self) -> Incident:
        """The only one."""
        (found,) = self.now.incidents.values()
        return found

    def sentences(self, brake: str) -> list[str]:
        """What the last round held back for this reason."""
        return [one.sentence for one in self.held if one.brake == brake]

    def disks(self, instance: str, *faults: str, **more: Any) -> None:
        """What each check of an instance's disks finds from now on."""
        health = DiskHealth(self.now.now + 10**15, faults, **more)
        self.now = self.now._replace(disks={**self.now.disks, instance: health})

    def node(self, name: str, **facts: Any) -> None:
        """Change what is known of a node."""
        self.now = with_node(self.now, name, **facts)

    def instance(self, name: str, **facts: Any) -> None:
        """Change what is known of an instance."""
        self.now = with_instance(self.now, name, **facts)

    def answer(self, name: str) -> None:
        """Its agent reports what the incident is about."""
        report = Reported(self.incident.original, self.incident.action, "", self.now.now)
        observations = {**self.now.observations, uuid_of(name): report}
        self.now = self.now._replace(observations=observations)

    def dies(self, name: str) -> None:
        """The node does not answer any more."""
        self.now = with_node(self.now, name, missing=("total_memory", "free_memory"))
