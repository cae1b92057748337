"""Worlds with one instance that is repaired as harep does, and what the plugin does about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from worlds import SECOND, instance, node, world

from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.plugins.maintenance.config import Harep
from ganeti_steward.plugins.maintenance.harep.plugin import Plugin
from ganeti_steward.plugins.model.disks import DiskHealth
from ganeti_steward.plugins.model.routine import RoutineJob
from ganeti_steward.plugins.model.task import RoutinePlan, Task, Wait
from ganeti_steward.plugins.model.world import World

A: Final = "ganeti:watcher:autorepair:"
OFF: Final[Mapping[str, Any]] = {"offline": True}
DRAINED: Final[Mapping[str, Any]] = {"drained": True}
FINE: Final[Mapping[str, Any]] = {}

#: s since the epoch, of the examples.
AT: Final = 2000


def at(seconds: int = AT, **fields: Any) -> dict[str, Any]:
    return {"now": seconds * SECOND, **fields}


def tagged(*ends: str) -> tuple[str, ...]:
    """Tags of harep, without their prefix."""
    return tuple(f"{A}{end}" for end in ends)


def one_instance(
    own: Iterable[str] = (),
    *,
    group: Iterable[str] = (),
    cluster: Iterable[str] = (),
    primary: Mapping[str, Any] = FINE,
    secondary: Mapping[str, Any] = FINE,
    template: str = "drbd",
    jobs: Mapping[int, str] | None = None,
    status: str = "running",
    up: bool = True,
    **fields: Any,
) -> World:
    """``i1`` on n1 and n2 of three nodes; tags without their prefix, ``jobs``: number -> status."""
    nodes = [node("n1", **primary), node("n2", **secondary), node("n3")]
    places = ("n1", "n2") if template == "drbd" else ("n1",)
    made = instance("i1", *places, template=template, tags=tagged(*own), status=status, up=up)
    states = {number: JobState(number, state) for number, state in (jobs or {}).items()}
    return world(
        nodes,
        [made],
        group_tags={"g1": tagged(*group)},
        cluster_tags=frozenset(tagged(*cluster)),
        tagged_jobs=states,
        **at(**fields),
    )


def plans(seen: World, settings: Harep | None = None) -> list[RoutinePlan]:
    plugin = Plugin()
    plugin.configure(settings or Harep(disk_check_interval=0, job_delay=0))
    return plugin.steward_routine(seen)


def done(plan: RoutinePlan) -> str:
    """A plan in a few words."""
    if isinstance(plan, Wait):
        return "nothing"
    found = [_operation(one) for job in plan.jobs for one in job]
    return ", ".join(found)


def _operation(one: Mapping[str, Any]) -> str:
    name: str = one["OP_ID"].removeprefix("OP_")
    if not name.startswith("TAGS"):
        return name.removeprefix("INSTANCE_")
    (tag,) = one["tags"] if name == "TAGS_SET" else (" ".join(sorted(one["tags"])),)
    return f"{'+' if name == 'TAGS_SET' else '-'} {tag.replace(A, '')}"


def reason(seen: World, settings: Harep | None = None) -> str:
    (plan,) = plans(seen, settings)
    return plan.reason


def routine(number: int, step: str, *, subject: str = "i1", **fields: Any) -> RoutineJob:
    """A job of the plugin."""
    usual: dict[str, Any] = {"submitted": (AT - 5) * SECOND, "status": "running"}
    return RoutineJob(number, "harep", step, subject, (), (), **usual | fields)


def health(*faults: str, seconds: int = AT, **fields: Any) -> dict[str, DiskHealth]:
    return {"i1": DiskHealth(seconds * SECOND, faults, **fields)}


def job_of(plan: RoutinePlan) -> list[dict[str, Any]]:
    """The operations of the only job of a task."""
    assert isinstance(plan, Task)
    (job,) = plan.jobs
    return list(job)
