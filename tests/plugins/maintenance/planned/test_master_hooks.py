"""The hooks of the master around the maintenance of another node."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asserting import some
from maintained import CONFIG
from test_commands_around import GOOD, run, steps
from upkept import Upkept, waits

from ganeti_steward.core.node_agent.protocol import HOOK
from ganeti_steward.plugins.maintenance.edges.commands import commands_of
from ganeti_steward.plugins.maintenance.edges.poll import Target
from ganeti_steward.plugins.maintenance.engine.decision import (
    NEVER_CAME,
    UNCERTAIN,
    CommandResult,
    PluginPlan,
)
from ganeti_steward.plugins.maintenance.engine.reservations import Reservations
from ganeti_steward.plugins.model.incident import Incident, Maintenance
from ganeti_steward.plugins.model.task import BEFORE, MASTER_AFTER, MASTER_BEFORE, Task
from ganeti_steward.plugins.model.waits import step_of
from ganeti_steward.plugins.model.works import command_object, requested
from ganeti_steward.plugins.model.world import World

HOOKS: Any = {"master_before": "silence", "master_after": "sound"}


def hooked(name: str = "node2") -> tuple[Upkept, Incident]:
    """The first hook of a maintenance has been handed over."""
    cluster = Upkept()
    found = cluster.request(name, **HOOKS)
    cluster.round()
    return cluster, found


@pytest.mark.parametrize("crash", ["", "records", "submitted"])
def test_first_and_last_of_all(crash: str) -> None:
    """Each is run once, on the master, wherever the daemon is killed."""
    cluster = Upkept(config=CONFIG._replace(command_again_after=3600))
    found = cluster.request("node2", before="stop", after="burn-in", **HOOKS)
    cluster.round(crash=crash)
    run(cluster)
    assert steps(cluster) == ["master-before", "before", "drain", "move"]
    cluster.done(found)
    cluster.round(crash=crash)
    run(cluster)
    assert cluster.records[found.uuid].state_name == "acknowledged"
    assert steps(cluster)[-5:-1] == ["after", "take-back", "home", "master-after"]
    assert [*cluster.commands.values()] == [
        *(("node1", "silence"), ("node2", "stop")),
        *(("node2", "burn-in"), ("node1", "sound")),
    ]


@pytest.mark.parametrize(
    "result",
    [CommandResult(False, "exit status 1: no"), CommandResult(False, "lost", UNCERTAIN)],
)
def test_a_failure_before(result: CommandResult) -> None:
    """Nothing was done, and no other maintenance begins."""
    cluster, found = hooked()
    second = cluster.request("node4")
    run(cluster, result)
    record = cluster.records[found.uuid]
    assert (record.status, record.note) == (
        "failed",
        f"command silence on node1: {result.text}; nothing has left node2, and it is as it was",
    )
    assert steps(cluster) == ["master-before", "tag"]
    assert "(maintenance) is failed" in waits(cluster, second)


def test_a_failure_after() -> None:
    """The node is in service; a person does by hand what the hook has not done."""
    cluster, found = hooked()
    run(cluster)
    cluster.done(found)
    (first,) = cluster.commands
    for _ in range(2):
        run(cluster, CommandResult(False, "exit status 1: no"))
    record = cluster.records[found.uuid]
    assert (record.status, cluster.nodes["uuid-node2"].drained) == ("failed", False)
    assert cluster.running_on("node2") == ["drbd1", "shared"]
    assert record.note == (
        "command sound on node1: exit status 1: no; node2 is in service again: do by hand what the "
        "command should have done, then acknowledge the incident"
    )
    assert len(cluster.commands) == 2
    assert cluster.results[first] == GOOD


def test_the_wait_for_one() -> None:
    """It has the command, the node, since when, until when, and what a person can do."""
    cluster, found = hooked()
    begun = cluster.now
    cluster.round()
    (held,) = (one for one in cluster.decisions[-1].held if one.brake == "hook")
    assert held.sentence == "the command silence on node1 has not ended"
    limit = int(2 * CONFIG.command_time_limit) * 10**9
    assert (held.since, held.until) == (begun, begun + limit)
    assert step_of(held).endswith(f"gnt-steward incident cancel {found.uuid} ends it")


def test_another_master_does_not_run_it_again() -> None:
    """The record names the master of then, whose agent knows how it ended."""
    cluster, found = hooked()
    cluster.change("node1", master=False)
    cluster.change("node3", master=True)
    (submission,) = cluster.records[found.uuid].open
    known = [Target(f"uuid-{name}", name, f"192.0.2.{name[-1]}") for name in cluster.names]
    incidents = [*cluster.records.values()]
    assert [*commands_of(incidents, known)] == [(submission, known[0])]
    # Where it has left the cluster, nothing answers for it.
    assert [*commands_of(incidents, known[1:])] == [(submission, Target("node1", "node1", ""))]
    cluster.results[submission.id] = GOOD
    run(cluster)
    cluster.done(found)
    run(cluster)
    assert [*cluster.commands.values()] == [("node1", "silence"), ("node3", "sound")]


def test_one_that_never_came_is_run_by_the_new_master() -> None:
    cluster, found = hooked()
    cluster.change("node1", master=False)
    cluster.change("node3", master=True)
    (first,) = cluster.commands
    cluster.results[first] = CommandResult(False, "it never came", NEVER_CAME)
    run(cluster)
    assert [*cluster.commands.values()] == [("node1", "silence"), ("node3", "silence")]
    assert cluster.records[found.uuid].active


def test_what_holds_the_drain_holds_the_hook_before_it() -> None:
    cluster = Upkept()
    for name in ("node1", "node2"):
        cluster.change(name, master_candidate=True)
    for name in ("node3", "node4", "node5"):
        cluster.change(name, master_capable=False)
    found = cluster.request("node2", **HOOKS)
    run(cluster)
    held = "held: run silence on the master node1 before the maintenance of node2 begins"
    assert held in waits(cluster, found)
    assert cluster.commands == {}


def test_a_silent_agent_of_the_master_runs_none() -> None:
    cluster = Upkept()
    cluster.silence("node1")
    found = cluster.request("node2", **HOOKS)
    # Nothing begins while a node is silent; what has begun waits.
    cluster.records[found.uuid] = found._replace(status="pending")
    cluster.round()
    assert "the agent of node1 gives no valid report" in waits(cluster, found)
    assert cluster.commands == {}


def test_no_master_is_known() -> None:
    cluster = Upkept()
    cluster.change("node1", master=False)
    found = cluster.request("node2", **HOOKS)
    cluster.round()
    assert "the master that must run silence is not known" in waits(cluster, found)


def test_one_hook_at_a_time() -> None:
    """The node of the agent itself stays free: no repair waits for a hook."""
    cluster, _ = hooked()
    reserved = Reservations(cluster.records.values(), cluster.world(), CONFIG)
    hook = Task(MASTER_BEFORE, frozenset({"node4"}), frozenset(), "", agent="node1", command="do")
    assert reserved.conflict(hook) == "the agent of node1"
    assert reserved.conflict(hook._replace(agent="node3")) == ""
    assert reserved.conflict(hook._replace(agent="", nodes=frozenset({"node1"}))) == ""


@pytest.mark.parametrize(
    ("step", "command", "held"),
    [
        (MASTER_BEFORE, "silence", False),
        (MASTER_AFTER, "sound", False),
        (MASTER_BEFORE, "sound", True),
        (BEFORE, "silence", True),
    ],
)
def test_other_commands_of_a_plugin_may_reboot_the_node(
    step: str, command: str, held: bool
) -> None:
    cluster = Upkept()
    task = Task(step, frozenset({"node2"}), frozenset(), "careless", command=command)

    def planned(incident: Incident, world: World) -> list[PluginPlan]:
        return [PluginPlan("careless", task)]

    cluster.planner = planned
    found = cluster.request("node2", **HOOKS)
    cluster.round()
    assert ("instances run on it: drbd1, shared" in waits(cluster, found)) == held
    assert bool(cluster.commands) != held


def test_objects_of_hooks() -> None:
    """No agent takes one for a repair command, nor for a hook of another maintenance."""
    cluster = Upkept()
    made = requested(
        cluster.nodes["uuid-node2"], Maintenance("refuse", **HOOKS), cluster.now, "uuid", ""
    )
    for step in some((MASTER_BEFORE, MASTER_AFTER)):
        assert json.loads(command_object(made, "do", step)) == {
            "status": HOOK,
            "command": "do",
            "maintenance": "uuid",
            "step": step,
            "node": "node2",
        }
    assert b'"master-after":"sound","master-before":"silence"' in made.original
