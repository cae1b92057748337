"""Ganeti's harep and the daemon do the same about equal instances (``--thorough`` only)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import pytest

from ganeti_steward.core.ganeti.filter_rules import PAUSE, FilterRule, FilterRules

from ..cluster import op, tagged, until
from .harep_runs import (
    A,
    Story,
    disks,
    dry_run,
    jobs_after,
    last_job,
    planned,
    set_tags,
    tags_of,
    wait_for_jobs,
)
from .maintained_lab import MaintainedLab

_OFFLINE: Final = ("node2.lab", "node4.lab", "node5.lab")
#: s; an end of a suspension in the past, and one in the future.
_PAST, _FUTURE = 1000, 4000000000

#: Instances that are created at the same time.
_AT_ONCE: Final = 8


class Scenario(NamedTuple):
    """Where an instance is, and its tags; ``GOOD`` and so on stand for numbers of jobs."""

    template: str
    nodes: str
    tags: tuple[str, ...] = ()


#: node2, node4 and node5 are offline; the cluster allows failover, the group of node5 is suspended.
SCENARIOS: Final = (
    Scenario("drbd", "node2.lab:node3.lab"),
    Scenario("drbd", "node2.lab:node3.lab", ("fix-storage",)),
    Scenario("drbd", "node2.lab:node3.lab", (f"suspend:{_FUTURE}",)),
    Scenario("drbd", "node2.lab:node3.lab", ("pending:teleport:u:1:2",)),
    Scenario("drbd", "node2.lab:node3.lab", ("pending:failover:u:1500:QUEUED",)),
    Scenario("drbd", "node2.lab:node3.lab", ("pending:failover:u:1500:CANCELED",)),
    Scenario("drbd", "node5.lab:node6.lab"),
    Scenario("drbd", "node5.lab:node6.lab", ("failover",)),
    Scenario("drbd", "node3.lab:node2.lab", ("failover", "fix-storage")),
    Scenario("drbd", "node3.lab:node2.lab", ("pending:failover:u:1500:GOOD",)),
    Scenario("drbd", "node2.lab:node4.lab", ("reinstall",)),
    Scenario("drbd", "node2.lab:node4.lab", ("reinstall", "result:failover:u:1500:failure:7")),
    Scenario("plain", "node2.lab"),
    Scenario("plain", "node2.lab", (f"suspend:{_PAST}", "suspend:abc", "reinstall")),
    Scenario("plain", "node2.lab", ("reinstall", "result:reinstall:u:1500:enoperm:")),
    Scenario("plain", "node2.lab", ("reinstall", "failover")),
)

_DAEMON: Final = """
routine = ["harep"]
[harep]
job-delay = 1
disk-check-interval = 0
"""

#: Degraded disks are checked all the time, and replaced as soon as activating did not help.
_DISKS: Final = """
routine = ["harep"]
[harep]
job-delay = 0
disk-check-interval = 1
replace-after = 0
"""
_FIXED: Final = "result:fix-storage:ID:TIME:success:JOBS"


def _name(at: int, turn: int) -> str:
    return f"inst{at + 1 + 20 * turn}.lab"


def _by_scenario(story: Story, turn: int) -> Story:
    """The same without the instances' names."""
    names = {_name(at, turn): str(one) for at, one in enumerate(SCENARIOS)}
    return {names[name]: found for name, found in story.items() if name in names}


@pytest.fixture
def jobs(maintained: MaintainedLab) -> Iterator[Mapping[str, str]]:
    """Numbers of a job that has succeeded, one that was canceled and one that is held."""
    lab, chosen = maintained, ["opcode", ["=", "OP_ID", "OP_CLUSTER_REDIST_CONF"]]
    delay = op("TEST_DELAY", duration=0.1, on_master=False, on_nodes=[], repeat=0)
    lab.do(delay)
    good = last_job(lab)
    rule = FilterRules(lab.luxi).write(FilterRule("", predicates=(chosen,), action=PAUSE))
    canceled, queued = (
        int(lab.luxi.call("SubmitJob", [op("CLUSTER_REDIST_CONF")])) for _ in range(2)
    )
    lab.luxi.cancel(canceled)
    yield {"GOOD": str(good), "CANCELED": str(canceled), "QUEUED": str(queued)}
    lab.luxi.cancel(queued)
    FilterRules(lab.luxi).delete(rule)


@pytest.fixture
def both(maintained: MaintainedLab) -> Iterator[None]:
    """Each scenario twice, the nodes offline, and the tags of cluster and group."""
    lab = maintained
    lab.do(
        op("GROUP_ASSIGN_NODES", group_name="default", nodes=["node4.lab"], force=True),
        op("GROUP_SET_PARAMS", group_name="rack2", alloc_policy="unallocable"),
        # Two nodes for all instances are enough only for an allocator that keeps none in reserve.
        op("CLUSTER_SET_PARAMS", default_iallocator_params={"no-capacity-checks": None}),
    )
    made = [
        (_name(at, turn), one.template, one.nodes)
        for turn in (0, 1)
        for at, one in enumerate(SCENARIOS)
    ]
    for start in range(0, len(made), _AT_ONCE):
        lab.place(*made[start : start + _AT_ONCE])
    tags = [("cluster", "", f"{A}failover"), ("nodegroup", "rack2", f"{A}suspend")]
    lab.do(*(tagged(kind, name, tag) for kind, name, tag in tags))
    with lab.without_power(*_OFFLINE):
        yield
    lab.do(*(op("TAGS_DEL", kind=kind, name=name, tags=[tag]) for kind, name, tag in tags))
    lab.remove(*lab.instances())
    lab.do(
        op("CLUSTER_SET_PARAMS", default_iallocator_params={}),
        op("GROUP_ASSIGN_NODES", group_name="rack2", nodes=["node4.lab"], force=True),
        op("GROUP_SET_PARAMS", group_name="rack2", alloc_policy="preferred"),
    )


def _turn(lab: MaintainedLab, turn: int, jobs: Mapping[str, str]) -> None:
    """Have the instances of one turn their tags; those of the other are suspended."""
    wanted: dict[str, list[str]] = {}
    for at, one in enumerate(SCENARIOS):
        wanted[_name(at, turn)] = [
            next((end.replace(word, to) for word, to in jobs.items() if word in end), end)
            for end in one.tags
        ]
        wanted[_name(at, 1 - turn)] = ["suspend"]
    set_tags(lab, wanted)


def _tags(lab: MaintainedLab, turn: int) -> Story:
    return {str(one): tags_of(lab, _name(at, turn)) for at, one in enumerate(SCENARIOS)}


@pytest.mark.usefixtures("both")
def test_the_same_is_planned_and_done(maintained: MaintainedLab, jobs: Mapping[str, str]) -> None:
    lab = maintained
    _turn(lab, 0, jobs)
    expected = dry_run(lab.ok("harep -L --dry-run --job-delay=1").text)
    lab.configure_daemon(_DAEMON)
    plan = planned(lab.steward("maintd", "plan").stdout)
    first = last_job(lab)
    for _ in range(2):
        lab.ok("harep -L --job-delay=1")
        wait_for_jobs(lab)
    # harep only notices the ends.
    lab.ok("harep -L --job-delay=1")
    wait_for_jobs(lab)
    theirs = _by_scenario(jobs_after(lab, first), 0), _tags(lab, 0)

    _turn(lab, 1, jobs)
    first = last_job(lab)
    with lab.daemon(_DAEMON):
        until(lambda: _tags(lab, 1) == theirs[1])
    wait_for_jobs(lab)
    ours = _by_scenario(jobs_after(lab, first), 1), _tags(lab, 1)

    assert ours == theirs
    assert plan == expected


def test_a_drained_node_and_a_contradiction(maintained: MaintainedLab) -> None:
    """Where harep ends, or treats a drained node as one that is lost."""
    lab = maintained
    lab.place(
        ("inst1.lab", "drbd", "node2.lab:node3.lab"),
        ("inst2.lab", "drbd", "node2.lab:node3.lab"),
        ("inst3.lab", "plain", "node2.lab"),
    )
    wrong = ("failover", "pending:migrate:u:1:7", "pending:migrate:v:2:8")
    set_tags(lab, {"inst1.lab": ["migrate"], "inst2.lab": wrong, "inst3.lab": ["reinstall"]})
    lab.do(op("NODE_SET_PARAMS", node_name="node2.lab", drained=True, auto_promote=True))
    assert lab.run("harep -L --dry-run").status == 1
    first = last_job(lab)
    with lab.daemon(_DAEMON):
        until(lambda: "result:migrate:ID:TIME:success:JOBS" in tags_of(lab, "inst1.lab"))
    done = jobs_after(lab, first)
    assert any("OP_INSTANCE_MIGRATE" in one for one in done["inst1.lab"])
    assert "inst2.lab" not in done
    assert "inst3.lab" not in done, "its data is there"


def test_degraded_disks(maintained: MaintainedLab) -> None:
    lab, names = maintained, ("inst1.lab", "inst2.lab", "inst3.lab")
    lab.place(*((name, "drbd", "node2.lab:node3.lab") for name in names))
    set_tags(lab, {name: ["fix-storage"] for name in names[:2]})
    lab.storage("detach", "inst1.lab", node="node3.lab")
    lab.storage("cut", "inst2.lab", node="node3.lab")
    lab.storage("detach", "inst3.lab", node="node3.lab")
    assert all(one.faults for one in disks(lab, *names).values())
    assert dry_run(lab.ok("harep -L --dry-run").text) == {}, "it does not see them"
    first = last_job(lab)
    with lab.daemon(_DISKS):
        until(lambda: not any(one.faults for one in disks(lab, *names[:2]).values()))
        until(lambda: all(tags_of(lab, name) == ["fix-storage", _FIXED] for name in names[:2]))
    assert disks(lab, names[2])[names[2]].faults, "its tags allow nothing"
    done = {name: " ".join(found) for name, found in jobs_after(lab, first).items()}
    assert "OP_INSTANCE_ACTIVATE_DISKS" in done["inst1.lab"]
    assert "OP_INSTANCE_REPLACE_DISKS" not in done["inst1.lab"]
    assert "OP_INSTANCE_REPLACE_DISKS" in done["inst2.lab"]
    assert "inst3.lab" not in done
