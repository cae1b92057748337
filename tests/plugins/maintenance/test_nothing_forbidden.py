"""Every built-in repair, routine plugin and example of the manual, where something is forbidden.

What is started is judged by the effects of its operations: on the master, on last candidates, on
nodes without a report, and on what has the tag ``maintd:off``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pytest
import worlds
from paths import DOCS
from storage_worlds import OK, lvm, report
from worlds import SECOND, changed, incident, instance, node, uuid_of

from ganeti_steward.core.builtins import BUILT_INS
from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.config.parse import parse_config
from ganeti_steward.core.model.cluster import HYPERVISOR_FIGURES
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.finding import MISSING
from ganeti_steward.core.model.job_state import SUCCESS, JobState
from ganeti_steward.core.model.opcodes import MOVES, Job
from ganeti_steward.plugins.maintenance.config import ACT, Maintd, Rebalance
from ganeti_steward.plugins.maintenance.effects import effects_of
from ganeti_steward.plugins.maintenance.engine import effect_brakes, routine, tasks
from ganeti_steward.plugins.maintenance.engine.copies import LastSeen
from ganeti_steward.plugins.maintenance.engine.decision import (
    CommandResult,
    Inputs,
    PluginPlan,
    Recent,
)
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.maintenance.harep.plugin import Plugin as Harep
from ganeti_steward.plugins.maintenance.queue.disk_checks import Plugin as DiskChecks
from ganeti_steward.plugins.maintenance.rebalance.plugin import Rebalancing
from ganeti_steward.plugins.maintenance.repairs.planner import PluginPlanner
from ganeti_steward.plugins.model.disks import DiskHealth
from ganeti_steward.plugins.model.incident import DEAD, MAINTENANCE, Incident, Maintenance
from ganeti_steward.plugins.model.operations import SET_NODE_PARAMS
from ganeti_steward.plugins.model.storage import NodeStorage
from ganeti_steward.plugins.model.task import RoutinePlan, Task
from ganeti_steward.plugins.model.world import Observation, Reported, Silent, World
from ganeti_steward.plugins.simulation.jobs import JobFailed

OFF: Final = "maintd:off"
AUTOREPAIR: Final = "ganeti:watcher:autorepair:reinstall"
#: A person confirms that n1 is off.
STOPPED: Final = f"maintd:stopped:{incident('n1', DEAD).uuid}"
SETTINGS: Final = Maintd(mode=ACT, hold_time=0, repair_storage=True)


def example(hook: str) -> Callable[..., Any]:
    """The function on the page of a hook."""
    text = (DOCS / "reference" / "hooks" / f"{hook}.md").read_text()
    (source,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(source, names)
    found: Callable[..., Any] = names[hook]
    return found


class Source(NamedTuple):
    """Who plans tasks."""

    original: bytes = b""
    """what n1 reports; empty: it is fine, and routine work is done"""
    storage: NodeStorage | None = None
    routine: str = ""
    tags: tuple[str, ...] = ()
    """of n1"""
    roles: Mapping[str, bool] = MappingProxyType({})
    """of n1"""
    status: str = "running"
    """of its instances"""


SOURCES: Final = {
    "evacuate": Source(incident("n1", "evacuate").original),
    "evacuate-failover": Source(incident("n1", "evacuate-failover").original),
    "live-repair": Source(incident("n1", "live-repair", command="fix").original),
    "storage": Source(report("/dev/sda"), lvm({"a": "/dev/sda"}, closed=(), sides={})),
    "storage, missing": Source(report("/dev/sda"), lvm(closed=("/dev/sda",), volumes=[MISSING])),
    "example of steward_plan": Source(incident("n1").original, tags=("drain-only",)),
    "maintenance": Source(canonical({"status": MAINTENANCE})),
    "dead": Source(canonical({"status": DEAD}), tags=(STOPPED,), status="ERROR_nodedown"),
    "harep": Source(routine="harep", roles={"drained": True}),
    "harep, lost": Source(routine="harep", roles={"offline": True}, status="ERROR_nodeoffline"),
    "check-disks": Source(routine="check-disks"),
    "rebalance": Source(routine="rebalance"),
    "example of steward_routine": Source(routine="start_again", status="ERROR_down"),
}
SITUATIONS: Final = (
    "nothing special",
    "master",
    "last candidate",
    "silent",
    "off",
    "group off",
    "instances off",
    "offline",
)


def begin(source: Source, situation: str) -> World:
    """n1 has the instances; n4 is the master unless n1 is."""
    ill = {
        "tags": (*source.tags, *([OFF] if situation == "off" else [])),
        **source.roles,
        **({"offline": True, "drained": False} if situation == "offline" else {}),
        "master": situation == "master",
        "master_candidate": situation in ("master", "last candidate"),
    }
    others = {"master_capable": situation != "last candidate"}
    nodes = [
        node("n1", **ill),
        node("n2", **others),
        node("n3", **others),
        node("n4", master=situation != "master", master_candidate=True),
    ]
    tags = [AUTOREPAIR, "start-again", *([OFF] if situation == "instances off" else [])]
    about = {"tags": tags, "status": source.status}
    instances = [instance(name, "n1", "n2", **about) for name in ("a", "b", "c")]
    instances.append(instance("x", "n1", template="ext", **about))
    seen: dict[str, Observation] = dict.fromkeys(("n1", "n2", "n3", "n4"), OK)
    known = []
    if source.original:
        action = re.findall(rb'"status":"([a-z-]+)"', source.original)[-1].decode()
        seen["n1"] = Reported(source.original, action, "fix", 0)
        known = [incident("n1", action)._replace(original=source.original)]
        if action == MAINTENANCE:
            seen["n1"], request = OK, Maintenance("refuse")
            known = [incident("n1", action, maintenance=request)]
        if action == DEAD:
            seen["n1"] = Silent(0, "the connection timed out", gone=True)
            nodes[0] = changed(nodes[0], missing=HYPERVISOR_FIGURES)
    if situation == "silent":
        seen["n1"] = Silent(0, "no connection")
    made = worlds.world(
        nodes,
        instances,
        known,
        seen,
        group_tags={"g1": [OFF] if situation == "group off" else []},
        storage={"n1": source.storage} if source.storage else {},
    )
    sides = {one: {"n1": "good", "n2": "good"} for one in "abc"}
    if source.storage:
        made = made._replace(storage={"n1": source.storage._replace(sides=sides)})
    return made


#: Calls the built-in repairs as the daemon does, in the order of the table of built-in plugins.
BUILT_IN: Final = PluginPlanner(parse_config("steward.toml", b"[maintd]\nrepair-storage = true\n"))


def planner(name: str) -> Callable[[Incident, World], list[PluginPlan]]:
    mine = example("steward_plan") if name.startswith("example") else None

    def plan(about: Incident, world: World) -> list[PluginPlan]:
        found = mine(about, world) if mine else None
        return BUILT_IN(about, world) if found is None else [PluginPlan("", one) for one in found]

    return plan


def routine_planner(plugin: str) -> Callable[[str, World], Sequence[RoutinePlan]]:
    rebalance = Rebalancing()
    rebalance.configure(Rebalance(hold_time=0, threshold=0.01, min_gain=0.001))
    plans: dict[str, Callable[[World], Iterable[RoutinePlan]]] = {
        "check-disks": DiskChecks().steward_routine,
        "harep": Harep().steward_routine,
        "rebalance": lambda world: rebalance.steward_routine(world, Context()),
        "start_again": example("steward_routine"),
    }
    return lambda name, world: list(plans[name](world)) if plugin else ()


def applied(before: World, jobs: Iterable[Job]) -> World:
    """The world when these jobs have succeeded: moves, roles and tags; raises JobFailed."""
    operations = [one for job in jobs for one in job]
    known = [one for one in operations if one["OP_ID"] in {*MOVES, SET_NODE_PARAMS}]
    found = worlds.after(before, [[one for one in known if "iallocator" not in one]])
    for one in operations:
        if one["OP_ID"] == "OP_TAGS_SET" and one["kind"] == "node":
            tags = (*found.nodes[uuid_of(one["name"])].tags, *one["tags"])
            found = worlds.with_node(found, one["name"], tags=tags)
    return found


_NOTHING: Final = Recent()


def started(
    source: Source, name: str, situation: str, recent: Recent = _NOTHING
) -> list[tuple[World, Task]]:
    """What is started in some rounds of an hour in all, each with the world of that moment."""
    now, found, since = begin(source, situation), list[tuple[World, Task]](), {}
    results: dict[str, CommandResult] = {}
    config = SETTINGS._replace(routine=(source.routine,) if source.routine else ())
    for _ in range(12):
        at = now.now + 300 * SECOND
        seen = {
            uuid: one._replace(at=at) if isinstance(one, Reported) else one
            for uuid, one in now.observations.items()
        }
        now = now._replace(now=at, observations=seen)
        jobs = {
            number: JobState(number, SUCCESS)
            for one in now.incidents.values()
            for each in one.open
            for number in each.jobs
        }
        inputs = Inputs(now, jobs, results, since=since, recent=recent)
        decision = step(inputs, config, planner(name), routine_planner(source.routine))
        since, recent = dict(decision.since), decision.recent
        records = dict(now.incidents) | {one.uuid: one for one in decision.records}
        for uuid in decision.removed:
            del records[uuid]
        given = [one.task for one in (*decision.started, *decision.routine)]
        found += [(now, one) for one in given]
        for number, each in enumerate(decision.started, len(found) + 1):
            results[each.submission] = CommandResult(True, "exit status 0")
            record = records[each.incident]
            opened = [
                one._replace(jobs=(number,))
                if one.id == each.submission and not one.command
                else one
                for one in record.open
            ]
            records[each.incident] = record._replace(open=tuple(opened))
        for task in given:
            # `forbidden` names what Ganeti refuses.
            with suppress(JobFailed):
                now = applied(now, task.jobs)
        now = now._replace(incidents=records)
    return found


def forbidden(now: World, task: Task) -> list[str]:
    """What of a task must not be, in words; judged here without the brakes."""
    effects = effects_of(task.jobs, effect_brakes.facts_of(now))
    nodes = {one.name: one for one in now.nodes.values()}
    faults = [f"touches the whole cluster: {one}" for one in effects.whole]
    for name in effects.out:
        one = nodes[name]
        begun = STOPPED in one.tags or any(
            i.node_name == name and (i.open or i.maintenance) for i in now.incidents.values()
        )
        if one.master:
            faults.append(f"the master {name} leaves")
        if OFF in one.tags + now.groups[one.group].tags:
            faults.append(f"{name} is excluded")
        if not isinstance(now.observations.get(one.uuid), Reported) and not begun:
            faults.append(f"{name} is silent")
        rest = [
            other
            for other in nodes.values()
            if other.name != name and not (other.offline or other.drained)
        ]
        if one.master_candidate and not any(
            (other.master_candidate or other.master_capable) and not other.master for other in rest
        ):
            faults.append(f"{name} is the last candidate")
    for name in effects.touched:
        one = now.instances[name]
        if OFF in one.tags:
            faults.append(f"instance {name} is excluded")
        primary = nodes[one.primary]
        if name in effects.moved and primary.offline and STOPPED not in primary.tags:
            faults.append(f"instance {name} may run twice")
    if effects.unchecked:
        faults.append(f"old data: {effects.unchecked}")
    try:
        applied(now, task.jobs)
    except JobFailed as err:
        faults.append(f"Ganeti refuses it: {err}")
    return faults


@pytest.mark.parametrize("name", [one.name for one in BUILT_INS if "steward_plan" in one.hooks])
def test_every_repair_has_a_source(name: str) -> None:
    worlds_now = [begin(one, "nothing special") for one in SOURCES.values() if one.original]
    found = {
        planned.plugin
        for now in worlds_now
        for about in now.incidents.values()
        for planned in BUILT_IN(about, now)
        if isinstance(planned.plan, Task)
    }
    assert name in found, (
        f"{name} plans no task: add what it repairs to SOURCES of this test, and see whether "
        "another repair comes before it in BUILT_INS of core/builtins.py"
    )


@pytest.mark.parametrize("name", [one.name for one in BUILT_INS if one.key == "maintd.routine"])
def test_all_routine_work_has_a_source(name: str) -> None:
    assert name in {one.routine for one in SOURCES.values()}, "add it to SOURCES of this test"


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("name", SOURCES)
def test_nothing_forbidden_is_started(name: str, situation: str) -> None:
    found = started(SOURCES[name], name, situation)
    if situation == "nothing special" and name != "harep, lost":
        assert found, "the other situations would show nothing"
    assert [fault for now, task in found for fault in forbidden(now, task)] == []


def test_a_lost_node_that_is_confirmed_to_be_off() -> None:
    """Its instances are started elsewhere where both copies of their disks were in sync last."""
    source = SOURCES["harep, lost"]._replace(tags=(f"maintd:stopped:{uuid_of('n1')}",))
    assert not started(source, "harep, lost", "nothing special")
    now = begin(source, "nothing special").now
    seen = LastSeen(disks={name: DiskHealth(now) for name in "abc"})
    assert started(source, "harep, lost", "nothing special", Recent(seen=seen))


def test_the_brakes_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them much of it is started: plugins themselves do not look at all of this."""
    monkeypatch.setattr(tasks, "_AFTER_PLAN", ())
    monkeypatch.setattr(routine, "AFTER_PLAN", ())
    monkeypatch.setattr(tasks, "BEFORE_PLAN", ())
    faults = {
        fault.rsplit(" ", maxsplit=1)[-1]
        for name in ("evacuate", "example of steward_plan", "harep, lost", "rebalance")
        for situation in SITUATIONS
        for now, task in started(SOURCES[name], name, situation)
        for fault in forbidden(now, task)
    }
    assert {"leaves", "excluded", "silent", "candidate", "twice"} <= faults
