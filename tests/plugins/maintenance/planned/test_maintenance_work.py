"""The work on a node under maintenance: begun by the daemon, once, and over when it is back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from maintained import CONFIG, EVACUATE, REPAIR
from upkept import INSTANCES, Upkept

from ganeti_steward.plugins.maintenance.cli.planned.requests import state_of
from ganeti_steward.plugins.maintenance.engine.decision import (
    NEVER_CAME,
    NOT_KNOWN,
    UNCERTAIN,
    CommandResult,
    PluginPlan,
)
from ganeti_steward.plugins.model.incident import Incident, Maintenance
from ganeti_steward.plugins.model.operations import out_of_band
from ganeti_steward.plugins.model.task import WORK, Task
from ganeti_steward.plugins.model.world import World

HOMES = {one.name: one.nodes for one in INSTANCES}
ALONE = frozenset({"node2"})


def held(cluster: Upkept, incident: Incident) -> dict[str, str]:
    """Brake -> sentence, of the last round."""
    return {
        one.brake: one.sentence
        for one in cluster.decisions[-1].held
        if one.subject == incident.uuid
    }


def state(cluster: Upkept, incident: Incident) -> str:
    """How far it is, as ``gnt-steward maintenance list`` prints it."""
    found = cluster.records[incident.uuid]
    assert found.maintenance
    return state_of(found, found.maintenance, cluster.world().cluster, cluster.now)


def request_of(cluster: Upkept, incident: Incident) -> Maintenance:
    found = cluster.records[incident.uuid].maintenance
    assert found
    return found


def emptied(cluster: Upkept, incident: Incident) -> None:
    """Rounds in which all jobs succeed, until the work is handed over."""
    for _ in range(20):
        cluster.round()
        if any(one.step == WORK for one in cluster.records[incident.uuid].open):
            return
        for number in cluster.pending_jobs():
            cluster.end(number)
    raise AssertionError(held(cluster, incident))


def works(cluster: Upkept) -> list[str]:
    """The reasons of all work that was begun."""
    return [
        one.task.reason
        for decision in cluster.decisions
        for one in decision.started
        if one.task.step == WORK
    ]


def test_power() -> None:
    """Switched off and on once; another boot id is what ends it."""
    cluster = Upkept()
    cluster.booted("node2", "b1")
    found = cluster.request("node2", work="power")
    assert state(cluster, found) == "requested"
    emptied(cluster, found)
    assert state(cluster, found) == "working"
    (number,) = cluster.pending_jobs()
    assert cluster.queue[number].job == [out_of_band("node2", "power-cycle")]
    cluster.run()
    assert "it does not answer" in held(cluster, found)["wait"]
    cluster.come_back("node2", "b1")
    cluster.run()
    assert "its boot id is the same as before" in held(cluster, found)["wait"]
    assert state(cluster, found) == "working"
    cluster.booted("node2", "b2")
    cluster.round()
    assert state(cluster, found) == "returning"
    cluster.run()
    cluster.syncing.clear()
    cluster.run()
    assert {one.name: one.nodes for one in cluster.instances.values()} == HOMES
    assert state(cluster, found) == "done"
    assert works(cluster) == [
        "switch node2 off and on: nothing runs on node2, and all copies are in sync"
    ]


def test_a_report_that_is_not_healthy_is_no_return() -> None:
    cluster = Upkept()
    cluster.booted("node2", "b1")
    found = cluster.request("node2", work="power")
    emptied(cluster, found)
    cluster.run()
    cluster.come_back("node2", "b2")
    cluster.report("node2", EVACUATE)
    cluster.round()
    assert request_of(cluster, found).worked == 0
    cluster.booted("node2", "b2")
    cluster.round()
    assert request_of(cluster, found).worked


@pytest.mark.parametrize(
    ("result", "begun"),
    [
        (CommandResult(True, "exit status 0"), True),
        (CommandResult(False, "the agent or the node was restarted", UNCERTAIN), True),
        (CommandResult(False, "exit status 1: no kernel"), False),
    ],
)
def test_a_command(result: CommandResult, begun: bool) -> None:
    """Its end, or that this is not known, is no return of the node; a refusal is a failure."""
    cluster = Upkept()
    cluster.booted("node2", "b1")
    found = cluster.request("node2", work="command:reboot-node")
    emptied(cluster, found)
    ((submission, command),) = cluster.commands.items()
    assert command == ("node2", "reboot-node")
    cluster.results[submission] = CommandResult(False, "no answer", NOT_KNOWN)
    cluster.round()
    assert held(cluster, found)["lookup"] == "no answer"
    cluster.results[submission] = result
    cluster.run()
    assert len(works(cluster)) == 1
    assert cluster.nodes["uuid-node2"].drained
    if begun:
        assert state(cluster, found) == "working"
        return
    note = cluster.records[found.uuid].note
    assert state(cluster, found) == "failed"
    assert note.startswith("command reboot-node: exit status 1: no kernel; all instances stay")


def test_a_command_that_never_came_is_begun_again() -> None:
    cluster = Upkept()
    found = cluster.request("node2", work="command:reboot-node")
    emptied(cluster, found)
    (first,) = cluster.commands
    cluster.results[first] = CommandResult(False, "it never came", NEVER_CAME)
    cluster.round()
    assert len(works(cluster)) == 2
    assert request_of(cluster, found).begun == 0


@pytest.mark.parametrize(("boot", "begun"), [("b1", 2), ("b2", 1), ("", 1)])
def test_an_agent_that_has_lost_its_memory(boot: str, begun: int) -> None:
    """The boot id decides whether the node was rebooted; without a report that is waited for."""
    cluster = Upkept()
    cluster.booted("node2", "b1")
    found = cluster.request("node2", work="command:reboot-node")
    emptied(cluster, found)
    (first,) = cluster.commands
    if boot:
        cluster.booted("node2", boot)
    else:
        cluster.silence("node2")
    cluster.results[first] = CommandResult(False, "it never came", NEVER_CAME)
    cluster.round()
    assert len(works(cluster)) == begun
    if not boot:
        assert "is known after its next report" in held(cluster, found)["lookup"]


def test_work_is_not_begun_again_after_a_restart() -> None:
    """The record announces it before it is handed over."""
    cluster = Upkept()
    found = cluster.request("node2", work="power")
    for _ in range(20):
        cluster.round(crash="submitted")
        for number in cluster.pending_jobs():
            cluster.end(number)
    assert len(works(cluster)) == 1
    assert state(cluster, found) == "working"


@pytest.mark.parametrize("work", ["power", "command:reboot-node"])
def test_a_daemon_that_was_just_started_waits_for_its_first_poll(work: str) -> None:
    """Without the boot id from before, a fast reboot would not be noticed."""
    cluster = Upkept()
    cluster.booted("node2", "b1")
    found = cluster.request("node2", work=work)
    for _ in range(20):
        cluster.round()
        for number in cluster.pending_jobs():
            cluster.end(number)
        if not cluster.running_on("node2"):
            cluster.observations.pop("uuid-node2", None)
    assert (works(cluster), state(cluster, found)) == ([], "ready")
    assert (
        "the agent of node2 was not polled since the daemon began"
        in (held(cluster, found)["not-reported"])
    )
    cluster.booted("node2", "b1")
    cluster.round()
    assert (len(works(cluster)), request_of(cluster, found).boot) == (1, "b1")


@pytest.mark.parametrize(("work", "begun"), [("power", 1), ("command:reboot-node", 0)])
def test_a_silent_agent_runs_no_command(work: str, begun: int) -> None:
    """It could not be handed over; Ganeti's program needs no agent."""
    cluster = Upkept()
    cluster.silence("node2")
    found = cluster.request("node2", work=work)
    cluster.run()
    assert len(works(cluster)) == begun
    assert ("not-reported" in held(cluster, found)) == (not begun)


def test_without_a_boot_id_it_has_to_be_silent_once() -> None:
    """As with no agent, or an older one."""
    cluster = Upkept()
    cluster.silence("node2")
    found = cluster.request("node2", work="power")
    emptied(cluster, found)
    (number,) = cluster.pending_jobs()
    cluster.queue[number].status = "success"
    cluster.run()
    assert (
        "which boot it had before the work is not known, and it has answered all the time"
        in held(cluster, found)["wait"]
    )
    cluster.reboot("node2")
    cluster.round()
    cluster.change("node2", missing=())
    cluster.round()
    assert request_of(cluster, found).worked


def test_done_is_enough() -> None:
    """The word of an admin, whatever the boot id."""
    cluster = Upkept()
    cluster.booted("node2", "b1")
    found = cluster.request("node2", work="power")
    emptied(cluster, found)
    cluster.run()
    cluster.come_back("node2", "b1")
    cluster.done(found)
    cluster.run()
    cluster.syncing.clear()
    cluster.run()
    assert state(cluster, found) == "done"


@pytest.mark.parametrize("work", ["power", "command:reboot-node", "none"])
def test_a_node_that_does_not_come_back(work: str) -> None:
    """It fails, and so nothing else is begun."""
    cluster = Upkept()
    cluster.booted("node2", "b1")
    found, second = cluster.request("node2", work=work), cluster.request("node4", work=work)
    if work == "none":
        cluster.run()
        cluster.done(found)
    else:
        emptied(cluster, found)
    for number in cluster.pending_jobs():
        cluster.end(number)
    cluster.reboot("node2")
    cluster.round()
    cluster.wait(CONFIG.return_limit - 10)
    cluster.round()
    assert cluster.records[found.uuid].status == "pending"
    cluster.wait(20)
    cluster.run()
    note = cluster.records[found.uuid].note
    assert state(cluster, found) == "failed"
    assert note.startswith("node2 has not come back within 1800 s: it does not answer; look at its")
    assert "gnt-node modify -D no node2" in note
    assert (
        f"incident {found.uuid} of node2 (maintenance) is failed" in held(cluster, second)["gate"]
    )
    assert not cluster.nodes["uuid-node4"].drained


def test_a_short_silence_while_disks_are_synchronized_is_none() -> None:
    cluster = Upkept()
    found = cluster.request("node2")
    cluster.run()
    cluster.done(found)
    cluster.syncing.add("drbd1")
    cluster.run()
    cluster.wait(CONFIG.return_limit + 1)
    cluster.change("node2", missing=("total_memory",))
    cluster.round()
    cluster.change("node2", missing=())
    cluster.run()
    assert cluster.records[found.uuid].status == "pending"


def _rebooting(task: Task) -> Callable[[Incident, World], list[PluginPlan]]:
    """A plugin that has a node rebooted without a look at it."""

    def planned(incident: Incident, world: World) -> list[PluginPlan]:
        return [PluginPlan("careless", task)]

    return planned


_COMMAND = Task(WORK, ALONE, frozenset(), "reboot", command="reboot-node")
_POWER = Task(WORK, ALONE, frozenset(), "reboot", ([out_of_band("node2", "power-cycle")],))


@pytest.mark.parametrize("task", [_COMMAND, _POWER])
@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        ("runs", "instances run on it: drbd1, shared"),
        ("syncing", "the disks of drbd1 are not known to be in sync"),
        ("excluded", "a copy of drbd2 is on it, which has the tag maintd:off"),
        ("undrained", "it is not drained"),
        ("master", "node node2 is the master"),
        ("", ""),
    ],
)
def test_no_plugin_reboots_a_node_that_is_used(task: Task, spoil: str, why: str) -> None:
    """Judged for what would be handed over now, whatever plugin planned it."""
    cluster = Upkept()
    found = cluster.request("node2")
    cluster.run()
    assert state(cluster, found) == "ready"
    cluster.planner = _rebooting(task)
    if spoil == "runs":
        for name, nodes in (("drbd1", ("node2", "node3")), ("shared", ("node2",))):
            cluster.instances[name] = cluster.instances[name]._replace(nodes=nodes)
    elif spoil == "syncing":
        cluster.syncing.add("drbd1")
    elif spoil == "excluded":
        cluster.instances["drbd2"] = cluster.instances["drbd2"]._replace(tags=("maintd:off",))
    elif spoil == "undrained":
        cluster.change("node2", drained=False)
    elif spoil == "master":
        cluster.change("node1", master=False)
        cluster.change("node2", master=True)
    cluster.round()
    assert works(cluster) == ([] if spoil else ["reboot"])
    assert why in "; ".join(held(cluster, found).values())


@pytest.mark.parametrize("where", ["cluster", "node2", "node4"])
def test_a_pause_of_maintenance(where: str) -> None:
    """Of all, of this node, or of another one; repairs go on."""
    cluster = Upkept()
    tag = "maintd:pause-maintenance:until-Monday"
    if where == "cluster":
        cluster.cluster_tags.add(tag)
    else:
        cluster.tag(where, tag)
    found = cluster.request("node2")
    cluster.run()
    whose = "planned maintenance" if where == "cluster" else "the maintenance of node2"
    paused = {"pause": f"{whose} is paused: until Monday"} if where != "node4" else {}
    assert {key: held(cluster, found)[key] for key in paused} == paused
    assert cluster.nodes["uuid-node2"].drained == (not paused)
    cluster.report("node5", REPAIR)
    cluster.round()
    repair = held(cluster, cluster.incident("node5"))
    assert ("pause" in repair, bool(repair)) == (False, True)


def test_a_brake_leaves_it_ready() -> None:
    """A pause, or a window that has closed meanwhile."""
    cluster = Upkept()
    found = cluster.request("node2", work="power")
    for _ in range(20):
        cluster.round()
        for number in cluster.pending_jobs():
            cluster.end(number)
        if not cluster.running_on("node2"):
            cluster.cluster_tags.add("maintd:pause:works")
    assert (works(cluster), request_of(cluster, found).ready) == ([], True)
    assert state(cluster, found) == "paused"
    assert held(cluster, found)["pause"] == "maintenance is paused: works"
