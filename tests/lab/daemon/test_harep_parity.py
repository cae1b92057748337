"""Ganeti's harep and the daemon do the same about equal instances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import pytest

from ganeti_steward.plugins.filters.filter_rules import PAUSE, FilterRule, FilterRules

from ..cluster import op, tagged, until
from .harep_runs import (
    A,
    Story,
    dry_run,
    jobs_after,
    last_job,
    planned,
    set_tags,
    tags_of_all,
    wait_for_jobs,
)
from .maintained_lab import MaintainedLab

pytestmark = pytest.mark.thorough

#: s; an end of a suspension in the past, and one in the future.
_PAST, _FUTURE = 1000, 4000000000


class Twin(NamedTuple):
    """One state of an instance; it exists twice, for harep and for the daemon."""

    about: str
    template: str
    nodes: str
    tags: tuple[str, ...] = ()
    """without prefix; ``GOOD`` and so on stand for numbers of jobs"""
    up: bool = False


#: node2 and node4 are offline, node6 is drained; the cluster allows failover, and node group rack2
#: (node5 and node6) fix-storage.
TWINS: Final = (
    Twin("primary lost", "drbd", "node2.lab:node3.lab"),
    Twin("primary lost, it should run", "drbd", "node2.lab:node3.lab", up=True),
    Twin("secondary lost", "drbd", "node3.lab:node2.lab"),
    Twin("secondary lost, it runs", "drbd", "node3.lab:node2.lab", up=True),
    Twin("both lost, not allowed", "drbd", "node2.lab:node4.lab"),
    Twin("both lost", "drbd", "node2.lab:node4.lab", ("reinstall",)),
    Twin("plain lost, not allowed", "plain", "node2.lab"),
    Twin("plain lost", "plain", "node2.lab", ("reinstall",)),
    Twin("nothing lost", "drbd", "node1.lab:node3.lab", ("reinstall",)),
    Twin("nothing to lose", "diskless", "node2.lab", ("reinstall",)),
    Twin("the least type counts", "drbd", "node2.lab:node3.lab", ("failover", "fix-storage")),
    Twin("suspended", "drbd", "node2.lab:node3.lab", ("suspend", "failover")),
    Twin("suspended for long", "drbd", "node3.lab:node2.lab", (f"suspend:{_FUTURE}", "failover")),
    Twin(
        "not suspended any more",
        "plain",
        "node2.lab",
        (f"suspend:{_PAST}", "suspend:abc", "reinstall"),
    ),
    Twin("pending", "drbd", "node2.lab:node3.lab", ("pending:failover:u:1500:QUEUED",)),
    Twin("its job succeeded", "drbd", "node3.lab:node2.lab", ("pending:failover:u:1500:GOOD",)),
    Twin("its job failed", "drbd", "node2.lab:node3.lab", ("pending:failover:u:1500:CANCELED",)),
    Twin("no tag of theirs", "drbd", "node2.lab:node3.lab", ("pending:teleport:u:1:2",)),
    Twin("failed", "plain", "node2.lab", ("reinstall", "result:reinstall:u:1500:failure:7")),
    Twin("repaired before", "drbd", "node2.lab:node3.lab", ("result:migrate:u:1500:success:7",)),
    Twin("allowed by now", "plain", "node2.lab", ("reinstall", "result:reinstall:u:1500:enoperm:")),
    Twin("its group allows less", "drbd", "node6.lab:node5.lab"),
    Twin("it allows more, then nothing fits", "drbd", "node6.lab:node5.lab", ("failover",)),
)

#: Tags of the cluster and of rack2, for plans; with the last ones the repairs are done, too.
POLICIES: Final = (
    ((), ()),
    (("suspend",), ("failover",)),
    (("fix-storage", "reinstall"), (f"suspend:{_PAST}",)),
    (("failover",), (f"suspend:{_FUTURE}",)),
    (("failover",), ("fix-storage",)),
)

#: harep starts copies of which nothing is known.
_DAEMON: Final = """
failover-unsynced = true
routine = ["harep"]
[harep]
iallocator = "hail"
job-delay = 1
disk-check-interval = 0
"""


def _name(at: int, turn: int) -> str:
    return f"inst{at + 1 + 30 * turn}.lab"


def _names(turn: int) -> list[str]:
    return [_name(at, turn) for at in range(len(TWINS))]


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
    """The instances of both turns, and nodes that are lost or drained."""
    lab = maintained
    lab.do(
        op("GROUP_ASSIGN_NODES", group_name="default", nodes=["node4.lab"]),
        # hail recreates disks in any group, and Ganeti fails where it is another one.
        op("GROUP_SET_PARAMS", group_name="rack2", alloc_policy="unallocable"),
        # The few nodes are enough only for an allocator that keeps none in reserve.
        op(
            "CLUSTER_SET_PARAMS",
            default_iallocator_params={"no-capacity-checks": None},
            ipolicy={"vcpu-ratio": 100, "spindle-ratio": 1000},
        ),
    )
    for up in (False, True):
        lab.place(
            *(
                (_name(at, turn), one.template, one.nodes)
                for turn in (0, 1)
                for at, one in enumerate(TWINS)
                if one.up == up
            ),
            up=up,
        )
    with lab.without_power("node2.lab", "node4.lab"):
        # harep fails over at once; here an admin has to say that the nodes are off.
        lab.confirm_off("node2.lab", "node4.lab")
        lab.do(op("NODE_SET_PARAMS", node_name="node6.lab", drained=True, auto_promote=True))
        yield
    lab.remove(*lab.instances())
    _allow(lab, (), ())
    lab.do(
        op("GROUP_ASSIGN_NODES", group_name="rack2", nodes=["node4.lab"]),
        op("GROUP_SET_PARAMS", group_name="rack2", alloc_policy="preferred"),
        op(
            "CLUSTER_SET_PARAMS",
            default_iallocator_params={},
            ipolicy={"vcpu-ratio": 4, "spindle-ratio": 32},
        ),
    )


def _allow(lab: MaintainedLab, cluster: tuple[str, ...], group: tuple[str, ...]) -> None:
    """Have the cluster and rack2 these tags of harep, and no others."""
    for kind, name, ends in (("cluster", "", cluster), ("nodegroup", "rack2", group)):
        old = lab.luxi.call("QueryTags", kind, name)
        if old:
            lab.do(op("TAGS_DEL", kind=kind, name=name, tags=old))
        if ends:
            lab.do(tagged(kind, name, *(f"{A}{end}" for end in ends)))


def _turn(lab: MaintainedLab, turn: int, jobs: Mapping[str, str]) -> None:
    """Have the instances of one turn their tags; those of the other are suspended."""
    wanted = {name: ["suspend"] for name in _names(1 - turn)}
    for name, one in zip(_names(turn), TWINS, strict=True):
        wanted[name] = [
            next((tag.replace(word, to) for word, to in jobs.items() if word in tag), tag)
            for tag in one.tags
        ]
    set_tags(lab, wanted)


def _tags(lab: MaintainedLab, turn: int) -> dict[str, list[str]]:
    """What a twin is about -> its tags."""
    found = tags_of_all(lab)
    return {one.about: found[name] for one, name in zip(TWINS, _names(turn), strict=True)}


def _done(story: Story, turn: int) -> dict[str, list[str]]:
    """What a twin is about -> what was done, in order."""
    return {one.about: story.get(name, []) for one, name in zip(TWINS, _names(turn), strict=True)}


@pytest.mark.usefixtures("both")
def test_the_same_is_planned_and_done(maintained: MaintainedLab, jobs: Mapping[str, str]) -> None:
    lab = maintained
    lab.configure_daemon(_DAEMON)
    _turn(lab, 0, jobs)
    for cluster, group in POLICIES:
        _allow(lab, cluster, group)
        text = lab.ok("harep -L --dry-run --job-delay=1").text
        # After a result harep goes on in the same run, the daemon in the next round.
        expected = {
            name: found[:1] if ":success:" in found[0] else found
            for name, found in dry_run(text).items()
        }
        assert planned(lab.steward("maintd", "plan").stdout) == expected, (cluster, group)

    first, before = last_job(lab), dict[str, list[str]]()
    while before != (before := _tags(lab, 0)):
        lab.ok("harep -L --job-delay=1")
        wait_for_jobs(lab, jobs["QUEUED"])
    theirs = _done(jobs_after(lab, first), 0)

    _turn(lab, 1, jobs)
    first = last_job(lab)
    with lab.daemon(_DAEMON):
        # What is different is shown below.
        with suppress(AssertionError):
            until(lambda: _tags(lab, 1) == before)
        wait_for_jobs(lab, jobs["QUEUED"])
    assert _tags(lab, 1) == before
    assert _done(jobs_after(lab, first), 1) == theirs
    assert planned(lab.steward("maintd", "plan").stdout) == {}, "the daemon is done, too"
    done = " ".join(one for found in theirs.values() for one in found)
    for operation in ("FAILOVER", "REPLACE_DISKS", "RECREATE_DISKS", "REINSTALL"):
        assert f"OP_INSTANCE_{operation}" in done
    assert before["plain lost"] == ["reinstall", "result:reinstall:ID:TIME:success:JOBS"]
    assert before["it allows more, then nothing fits"][-1].endswith(":failure:JOBS")
    assert sum(map(bool, theirs.values())) >= 12
