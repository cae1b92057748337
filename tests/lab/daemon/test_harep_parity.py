"""Ganeti's harep and the daemon do the same about equal instances (``--thorough`` only)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from ganeti_steward.core.ganeti.filter_rules import PAUSE, FilterRule, FilterRules

from ..cluster import op, tagged, until
from .harep_runs import (
    A,
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

#: s; an end of a suspension in the past, and one in the future.
_PAST, _FUTURE = 1000, 4000000000

#: The instances for each turn: template and nodes, with node2 offline.
_PLACES: Final = (
    ("drbd", "node2.lab:node3.lab"),
    ("drbd", "node3.lab:node2.lab"),
    ("plain", "node2.lab"),
)

#: Tags of the three instances; ``GOOD`` and so on stand for numbers of jobs.
SCENARIOS: Final[tuple[tuple[tuple[str, ...], ...], ...]] = (
    ((), (), ()),
    (("fix-storage",), ("failover", "fix-storage"), ("reinstall", "failover")),
    (
        ("suspend", "failover"),
        (f"suspend:{_FUTURE}",),
        (f"suspend:{_PAST}", "suspend:abc", "reinstall"),
    ),
    (
        ("pending:teleport:u:1:2",),
        ("result:failover:u:1500:failure:7",),
        ("reinstall", "result:reinstall:u:1500:failure:7"),
    ),
    (
        ("pending:failover:u:1500:QUEUED",),
        ("pending:failover:u:1500:CANCELED",),
        ("reinstall", "result:reinstall:u:1500:success:7"),
    ),
    # The last ones are done, too.
    (
        ("result:migrate:u:1500:success:7",),
        ("pending:failover:u:1500:GOOD",),
        ("reinstall", "result:reinstall:u:1500:enoperm:"),
    ),
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
    return f"inst{at + 1 + 10 * turn}.lab"


def _names(turn: int) -> list[str]:
    return [_name(at, turn) for at in range(len(_PLACES))]


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
    """The instances of both turns, node2 offline, and a cluster that allows failover."""
    lab = maintained
    places = [(_name(at, turn), *one) for turn in (0, 1) for at, one in enumerate(_PLACES)]
    lab.place(*places, up=False)
    lab.do(
        tagged("cluster", "", f"{A}failover"),
        # The few nodes are enough only for an allocator that keeps none in reserve.
        op("CLUSTER_SET_PARAMS", default_iallocator_params={"no-capacity-checks": None}),
    )
    with lab.without_power("node2.lab"):
        yield
    lab.do(
        op("TAGS_DEL", kind="cluster", tags=[f"{A}failover"]),
        op("CLUSTER_SET_PARAMS", default_iallocator_params={}),
    )


def _turn(
    lab: MaintainedLab, turn: int, scenario: tuple[tuple[str, ...], ...], jobs: Mapping[str, str]
) -> None:
    """Have the instances of one turn their tags; those of the other are suspended."""
    wanted = {name: ["suspend"] for name in _names(1 - turn)}
    for name, tags in zip(_names(turn), scenario, strict=True):
        wanted[name] = [
            next((tag.replace(word, to) for word, to in jobs.items() if word in tag), tag)
            for tag in tags
        ]
    set_tags(lab, wanted)


def _tags(lab: MaintainedLab, turn: int) -> list[list[str]]:
    return [tags_of(lab, name) for name in _names(turn)]


@pytest.mark.usefixtures("both")
def test_the_same_is_planned_and_done(maintained: MaintainedLab, jobs: Mapping[str, str]) -> None:
    lab = maintained
    lab.configure_daemon(_DAEMON)
    for scenario in SCENARIOS:
        _turn(lab, 0, scenario, jobs)
        text = lab.ok("harep -L --dry-run --job-delay=1").text
        # After a result harep goes on in the same run, the daemon in the next round.
        expected = {
            name: found[:1] if ":success:" in found[0] else found
            for name, found in dry_run(text).items()
        }
        assert planned(lab.steward("maintd", "plan").stdout) == expected, scenario

    first, before = last_job(lab), list[list[str]]()
    while before != (before := _tags(lab, 0)):
        lab.ok("harep -L --job-delay=1")
        wait_for_jobs(lab, jobs["QUEUED"])
    theirs = jobs_after(lab, first)

    _turn(lab, 1, SCENARIOS[-1], jobs)
    first = last_job(lab)
    with lab.daemon(_DAEMON):
        until(lambda: _tags(lab, 1) == before)
    wait_for_jobs(lab, jobs["QUEUED"])
    ours = jobs_after(lab, first)
    for at in range(len(_PLACES)):
        assert ours[_name(at, 1)] == theirs[_name(at, 0)]
    done = " ".join(one for name in _names(0) for one in theirs[name])
    for operation in ("FAILOVER", "REPLACE_DISKS", "RECREATE_DISKS", "REINSTALL"):
        assert f"OP_INSTANCE_{operation}" in done


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
