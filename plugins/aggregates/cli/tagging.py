"""Tags written to a live cluster: all of them, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from ganeti_steward.allocators.jobs.run_jobs import UNKNOWN, Result, Run, run_job_sets
from ganeti_steward.core.errors import StewardError, join_faults
from ganeti_steward.core.ganeti.jobs import Jobs
from ganeti_steward.core.model.job_state import LOST, SUCCESS
from ganeti_steward.core.model.opcodes import Job, remove_tags, set_tags

CLUSTER: Final = "cluster"
GROUP: Final = "nodegroup"
NODE: Final = "node"

#: The kinds in words for people.
WORDS: Final = {CLUSTER: "the cluster", GROUP: "node group", NODE: "node"}


class Change(NamedTuple):
    """Tags put on one object, or taken off it."""

    kind: str
    name: str
    """empty: the cluster"""
    tags: tuple[str, ...]
    removed: bool = False

    @property
    def job(self) -> Job:
        """As Ganeti does it."""
        make = remove_tags if self.removed else set_tags
        return [make(self.kind, self.name, self.tags)]

    @property
    def inverse(self) -> Change:
        """What takes it back."""
        return self._replace(removed=not self.removed)

    @property
    def sentence(self) -> str:
        """What is done, for people."""
        tags = ", ".join(map(repr, self.tags))
        verb = "off" if self.removed else "on"
        return f"{tags} {verb} {WORDS[self.kind]} {self.name}".rstrip()


def grouped(changes: Iterable[Change]) -> list[Change]:
    """One change for each object, with all its tags."""
    found: dict[tuple[str, str, bool], tuple[str, ...]] = {}
    for change in changes:
        key = change.kind, change.name, change.removed
        found[key] = (*found.get(key, ()), *change.tags)
    return [Change(kind, name, tags, removed) for (kind, name, removed), tags in found.items()]


def run_stages(
    jobs: Jobs,
    stages: Sequence[Sequence[Change]],
    reason: str,
    interrupts: Callable[[], int] = lambda: 0,
) -> Result:
    """Changes at the same time, stage by stage up to the first that fails; raises StewardError."""
    sets = [[change.job for change in stage] for stage in stages if stage]
    return run_job_sets(jobs, sets, reason=reason, interrupts=interrupts)


def complaint(result: Result) -> str:
    """Why a result is not complete."""
    faults = [f"{_about(run)}: {run.error or run.status}" for run in result.failed]
    faults += [result.trouble] if result.trouble else []
    faults += ["interrupted"] if result.interrupted else []
    return join_faults(faults)


def _about(run: Run) -> str:
    (operation,) = run.job
    return f"{WORDS[operation['kind']]} {operation['name'] or ''}".rstrip()


def succeeded(result: Result, changes: Iterable[Change]) -> list[Change]:
    """Those of the changes that were made."""
    done = [run.job for run in result.runs if run.status == SUCCESS]
    return [change for change in changes if change.job in done]


def uncertain(result: Result) -> list[Run]:
    """Changes of which it is unknown whether they are made, or will be."""
    return [run for run in result.runs if not run.over or run.status in (LOST, UNKNOWN)]


def write(
    jobs: Jobs,
    changes: Sequence[Change],
    reason: str,
    interrupts: Callable[[], int] = lambda: 0,
) -> None:
    """Make all changes; raises StewardError when one fails, after taking back the others."""
    result = run_stages(jobs, [changes], reason, interrupts)
    if result.complete:
        return
    back = [change.inverse for change in succeeded(result, changes)]
    left = [] if not back else _failing(jobs, back, f"{reason}: taken back")
    left += [f"perhaps done later: {_about(run)}" for run in uncertain(result)]
    ending = "; ".join(left) or "nothing is changed"
    raise StewardError(f"{complaint(result)}; {ending}")


def _failing(jobs: Jobs, changes: Sequence[Change], reason: str) -> list[str]:
    """Make changes; those that failed, as sentences."""
    result = run_stages(jobs, [changes], reason)
    done = succeeded(result, changes)
    return [f"could not be taken back: {c.inverse.sentence}" for c in changes if c not in done]
