"""The commands before and after the work on a node: run once, and what their end means."""

from __future__ import annotations

import pytest
from maintained import CONFIG
from upkept import Upkept, waits

from ganeti_steward.plugins.maintenance.engine.decision import (
    NEVER_CAME,
    UNCERTAIN,
    CommandResult,
    PluginPlan,
)
from ganeti_steward.plugins.model.incident import Incident, Maintenance
from ganeti_steward.plugins.model.task import AFTER, BEFORE, WORK, Task
from ganeti_steward.plugins.model.works import command_object, requested
from ganeti_steward.plugins.model.world import World

GOOD = CommandResult(True, "exit status 0")


def run(cluster: Upkept, result: CommandResult = GOOD, *, crash: str = "") -> None:
    """Rounds in which all jobs succeed, and commands end so."""
    for _ in range(12):
        cluster.round(crash=crash)
        for submission in cluster.commands:
            cluster.results.setdefault(submission, result)
        for number in cluster.pending_jobs():
            cluster.end(number)


def steps(cluster: Upkept) -> list[str]:
    """The steps that were begun, each once while it goes on."""
    found = [one.task.step for decision in cluster.decisions for one in decision.started]
    return [one for at, one in enumerate(found) if one != found[at - 1] or at == 0]


def request_of(cluster: Upkept, incident: Incident) -> Maintenance:
    found = cluster.records[incident.uuid].maintenance
    assert found
    return found


@pytest.mark.parametrize("crash", ["", "submitted"])
def test_first_and_last(crash: str) -> None:
    """The same command before, as the work, and after: three commands, each run once."""
    cluster = Upkept(config=CONFIG._replace(command_again_after=3600))
    cluster.booted("node2", "b1")
    found = cluster.request("node2", work="command:do", before="do", after="do")
    run(cluster, crash=crash)
    assert steps(cluster) == ["before", "drain", "move", "work"]
    assert request_of(cluster, found).before_ended > 0
    cluster.booted("node2", "b2")
    run(cluster, crash=crash)
    assert steps(cluster) == ["before", "drain", "move", "work", "after", "take-back", "home"]
    assert cluster.records[found.uuid].state_name == "acknowledged"
    assert [*cluster.commands.values()] == [("node2", "do")] * 3
    assert cluster.running_on("node2") == ["drbd1", "shared"]


@pytest.mark.parametrize(
    "result",
    [CommandResult(False, "exit status 1: no"), CommandResult(False, "lost", UNCERTAIN)],
)
def test_a_failure_before(result: CommandResult) -> None:
    """Nothing was done; how it ended has to be known."""
    cluster = Upkept()
    found, second = cluster.request("node2", before="silence"), cluster.request("node4")
    run(cluster, result)
    record = cluster.records[found.uuid]
    assert (record.status, record.note) == (
        "failed",
        f"command silence: {result.text}; nothing has left node2, and it is as it was",
    )
    assert steps(cluster) == ["before", "tag"]
    assert not cluster.nodes["uuid-node2"].drained
    assert "(maintenance) is failed" in waits(cluster, second)


@pytest.mark.parametrize(
    "result",
    [CommandResult(False, "exit status 1: no"), CommandResult(False, "lost", UNCERTAIN)],
)
def test_a_failure_after(result: CommandResult) -> None:
    """The node stays drained and empty; what `done` requests then runs no command."""
    cluster = Upkept()
    found = cluster.request("node2", after="burn-in")
    run(cluster)
    cluster.done(found)
    run(cluster, result)
    record = cluster.records[found.uuid]
    assert record.status == "failed"
    assert record.note == (
        f"command burn-in: {result.text}; node2 is not taken back, and what has left it stays "
        "away; when it is in order: gnt-steward maintenance done node2"
    )
    assert (cluster.nodes["uuid-node2"].drained, cluster.running_on("node2")) == (True, [])
    undone = cluster.request("node2")
    request = Maintenance("refuse", worked=cluster.now)
    cluster.records[undone.uuid] = undone._replace(maintenance=request)
    run(cluster)
    assert cluster.records[undone.uuid].state_name == "acknowledged"
    assert (cluster.nodes["uuid-node2"].drained, len(cluster.commands)) == (False, 1)


def test_one_that_never_came_is_run() -> None:
    cluster = Upkept()
    found = cluster.request("node2", before="silence")
    cluster.round()
    (first,) = cluster.commands
    cluster.results[first] = CommandResult(False, "it never came", NEVER_CAME)
    run(cluster)
    assert len(cluster.commands) == 2
    assert request_of(cluster, found).before_ended
    assert request_of(cluster, found).ready


def test_a_cancel_while_it_runs() -> None:
    """No command follows, and nothing is done."""
    cluster = Upkept()
    found = cluster.request("node2", before="silence", after="sound")
    cluster.round()
    cluster.tag("node2", found.cancel_tag)
    run(cluster)
    record = cluster.records[found.uuid]
    assert record.status == "canceled"
    assert "the outcome of the command silence is unknown" in record.note
    assert (len(cluster.commands), cluster.nodes["uuid-node2"].drained) == (1, False)


def test_one_that_is_given_back() -> None:
    """The command before it is run once in all, and the one after it at its end only."""
    cluster = Upkept()
    found = cluster.request("node2", before="silence", after="sound")
    run(cluster)
    cluster.degraded["drbd1"] = "node2"
    run(cluster)
    cluster.wait(CONFIG.blocked_limit + 1)
    run(cluster)
    assert cluster.records[found.uuid].status == "noted"
    cluster.degraded.clear()
    run(cluster)
    assert request_of(cluster, found).ready
    cluster.done(found)
    run(cluster)
    assert cluster.records[found.uuid].state_name == "acknowledged"
    assert [command for _, command in cluster.commands.values()] == ["silence", "sound"]


@pytest.mark.parametrize(
    ("step", "command", "held"),
    [
        (BEFORE, "silence", False),
        (AFTER, "sound", False),
        (BEFORE, "reboot", True),
        (AFTER, "silence", True),
        (WORK, "silence", True),
    ],
)
def test_any_other_command_of_a_plugin_may_reboot_the_node(
    step: str, command: str, held: bool
) -> None:
    """Only those that were requested are run while something runs on the node."""
    cluster = Upkept()
    task = Task(step, frozenset({"node2"}), frozenset(), "careless", command=command)

    def planned(incident: Incident, world: World) -> list[PluginPlan]:
        return [PluginPlan("careless", task)]

    cluster.planner = planned
    found = cluster.request("node2", before="silence", after="sound")
    cluster.round()
    assert ("instances run on it: drbd1, shared" in waits(cluster, found)) == held
    assert bool(cluster.commands) != held


def test_what_holds_the_drain_holds_the_command_before_it() -> None:
    cluster = Upkept()
    for name in ("node1", "node2"):
        cluster.change(name, master_candidate=True)
    for name in ("node3", "node4", "node5"):
        cluster.change(name, master_capable=False)
    found = cluster.request("node2", before="silence")
    run(cluster)
    assert "1 of 2 master candidates would be left" in waits(cluster, found)
    assert "held: run silence on node2 before anything leaves it" in waits(cluster, found)
    assert cluster.commands == {}


def test_a_silent_agent_runs_none() -> None:
    cluster = Upkept()
    cluster.silence("node2")
    found = cluster.request("node2", before="silence")
    run(cluster)
    assert "gives no valid report" in waits(cluster, found)
    assert cluster.commands == {}


def test_objects_of_commands() -> None:
    """An agent runs none for the same object twice within a time."""
    cluster = Upkept()
    node = cluster.nodes["uuid-node2"]
    request = Maintenance("refuse", before="do", after="do")
    made = requested(node, request, cluster.now, "uuid", "")
    objects = {command_object(made, "do", step) for step in (BEFORE, WORK, AFTER)}
    assert len(objects) == 3
    assert b'"before":"do"' in made.original
