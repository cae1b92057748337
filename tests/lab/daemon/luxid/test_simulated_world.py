"""Random rules and jobs: the simulated world ends in the state in which the real Ganeti does."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any, Final

from fault_world.checks import Checks
from fault_world.clock import SECOND
from fault_world.ganeti import Ganeti
from fault_world.world import Given, World
from thorough import often

from ganeti_steward.core.config.values import Config
from ganeti_steward.plugins.filters.filter_rules import (
    CONTINUE,
    PAUSE,
    REJECT,
    FilterRule,
    FilterRules,
)
from ganeti_steward.plugins.maintenance.config import Maintd

from ...cluster import op, until
from ..faults.watched import Runs
from ..maintained_lab import MaintainedLab

if TYPE_CHECKING:
    import pytest

Job = list[dict[str, Any]]
State = dict[str, Any]

CASES: Final = often(3, 300)
#: Jobs of a case, each of which waits for the one before.
JOBS: Final = 7
PLACES: Final = (
    ("inst1.lab", "drbd", "node2.lab:node3.lab"),
    ("inst2.lab", "drbd", "node3.lab:node5.lab"),
    ("inst3.lab", "sharedfile", "node5.lab"),
    ("inst4.lab", "plain", "node6.lab"),
    ("inst5.lab", "diskless", "node2.lab"),
)
NAMES: Final = tuple(name for name, _, _ in PLACES)
ANYWHERE: Final = ("inst3.lab", "inst5.lab")
#: No master, which keeps its role.
NODES: Final = tuple(f"node{number}.lab" for number in (2, 3, 5, 6))
_ROLES: Final = ({"drained": True}, {"drained": False}, {"offline": True}, {"offline": False})


def test_random_rules_and_jobs(
    maintained: MaintainedLab, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The world ends where an invariant of the daemon is broken; these jobs are others'.
    monkeypatch.setattr(Checks, "require", lambda *_: None)
    lab = maintained
    lab.place(*PLACES)
    ends: Counter[str] = Counter()
    different = []
    for seed in range(CASES):
        random = Random(seed)
        _restore(lab)
        rules, jobs = list(_rules(random)), [_job(random, first=at == 0) for at in range(JOBS)]
        before = _state(lab)
        expected = _in_the_world(before, rules, jobs)
        found = _in_the_lab(lab, rules, jobs, expected["jobs"])
        ends.update(found["jobs"])
        if found != expected:
            different.append(
                f"seed {seed}: {found}\nnot {expected}\n{rules}\n{jobs}\n{_errors(lab)}"
            )
        # With -s it is seen while it runs, which takes more than an hour.
        print(f"{seed + 1} of {CASES} cases, {len(different)} different", flush=True)
    print(f"{CASES} cases, jobs: {dict(ends)}")
    # A failover off an offline node that runs is nothing that the daemon would do.
    runs.forget()
    assert not different, "\n\n".join(different)
    assert {"success", "canceled", "error"} <= {*ends}


def _errors(lab: MaintainedLab) -> list[str]:
    """Why the last jobs failed, in Ganeti's words."""
    rows = lab.luxi.rows("job", ("id", "opstatus", "opresult"))[-JOBS:]
    return [str(row["opresult"]) for row in rows]


def _rules(random: Random) -> Iterator[FilterRule]:
    conditions = (
        ["opcode", ["=", "OP_ID", "OP_TAGS_SET"]],
        ["opcode", ["=", "OP_ID", random.choice(("OP_INSTANCE_MIGRATE", "OP_NODE_SET_PARAMS"))]],
        ["opcode", ["=~", "instance_name", random.choice(("^inst[12]", "3"))]],
        ["reason", ["=", "source", "test"]],
        ["opcode", ["&", ["=", "kind", "node"], ["!", ["=", "name", "node2.lab"]]]],
    )
    for priority in range(random.randint(0, 3)):
        action = random.choice((REJECT, REJECT, PAUSE, CONTINUE, "ACCEPT"))
        yield FilterRule("", priority, (random.choice(conditions),), action)


def _job(random: Random, *, first: bool) -> Job:
    node, name = random.choice(NODES), random.choice(NAMES)
    # Without one the default allocator would be called, of which the world knows nothing.
    target = {"target_node": random.choice(NODES)} if name in ANYWHERE else {}
    operation = random.choice(
        (
            op("TAGS_SET", kind="node", name=node, tags=[random.choice("ab")]),
            op("TAGS_DEL", kind="node", name=node, tags=[random.choice("ab")]),
            op("TAGS_SET", kind="instance", name=name, tags=["x"]),
            op("NODE_SET_PARAMS", node_name=node, auto_promote=True, **random.choice(_ROLES)),
            op("INSTANCE_MIGRATE", instance_name=name, mode="live", **target),
            op("INSTANCE_FAILOVER", instance_name=name, **target),
            op("INSTANCE_SHUTDOWN", instance_name=name, timeout=1),
            op("INSTANCE_STARTUP", instance_name=name),
            op("INSTANCE_MIGRATE", instance_name="nosuch.lab", mode="live"),
        )
    )
    return [operation if first else {**operation, "depends": [[-1, []]]}]


def _restore(lab: MaintainedLab) -> None:
    """All nodes in service, all instances running."""
    nodes = [op("NODE_SET_PARAMS", node_name=one, drained=False, offline=False) for one in NODES]
    lab.do(*nodes)
    lab.do(*(op("INSTANCE_STARTUP", instance_name=one) for one in NAMES))


# What is compared


def _state(lab: MaintainedLab) -> State:
    fields = ("name", "pnode", "snodes", "admin_state", "tags", "disk_template", "status")
    return {
        "nodes": [
            dict(row) for row in lab.luxi.rows("node", ("name", "drained", "offline", "tags"))
        ],
        "instances": [dict(row) for row in lab.luxi.rows("instance", fields)],
    }


def _ends(nodes: Sequence[State], instances: Sequence[State], statuses: Sequence[str]) -> State:
    return {
        "nodes": sorted(
            (row["name"], row["drained"], row["offline"], sorted(row["tags"])) for row in nodes
        ),
        "instances": sorted(
            (row["name"], row["pnode"], row["snodes"], row["admin_state"], sorted(row["tags"]))
            for row in instances
        ),
        "jobs": list(statuses),
    }


def _in_the_lab(
    lab: MaintainedLab, rules: Sequence[FilterRule], jobs: Sequence[Job], expected: Sequence[str]
) -> State:
    """``expected``: what is waited for, for a while: luxid may start a job only after seconds."""
    written = [FilterRules(lab.luxi).write(rule) for rule in rules]
    answers = lab.luxi.call("SubmitManyJobs", jobs)
    numbers = [int(number) for _, number in answers]
    with suppress(AssertionError):
        until(lambda: _statuses(lab, numbers) == [*expected], 120, every=0.3)
    # What is to stay queued has had the time to start wrongly.
    time.sleep(0.3)
    statuses = _statuses(lab, numbers)
    for number in reversed(numbers):
        lab.luxi.call("CancelJob", number, False)
    for uuid in written:
        lab.luxi.delete_filter(uuid)
    state = _state(lab)
    return _ends(state["nodes"], state["instances"], statuses)


def _statuses(lab: MaintainedLab, numbers: Sequence[int]) -> list[str]:
    return [state.status for state in lab.luxi.states(numbers)]


def _in_the_world(before: State, rules: Sequence[FilterRule], jobs: Sequence[Job]) -> State:
    ganeti = Ganeti(sorted(row["name"] for row in before["nodes"]))
    for row in before["nodes"]:
        ganeti.node(row["name"]).update(
            drained=row["drained"], offline=row["offline"], tags=[*row["tags"]]
        )
    for row in before["instances"]:
        places = (row["pnode"], *row["snodes"])
        sizes = [] if row["disk_template"] == "diskless" else [512]
        up = row["status"] == "running"
        ganeti.add_instance(row["name"], row["disk_template"], places, sizes, memory=512, up=up)
        ganeti.instance(row["name"]).update(admin_state=row["admin_state"], tags=[*row["tags"]])
    world = World("agreement", given=Given(ganeti, Config(sections={"maintd": Maintd()})))
    try:
        for rule in rules:
            content = rule.content
            world.luxid.replace_filter(None, *content.values())
        answers = world.luxid.submit(jobs)
        world.luxid.advance()
        world.run_until(world.clock.now + 7200 * SECOND)
        statuses = [world.luxid.queue.rows[int(number)]["status"] for _, number in answers]
    finally:
        world.end()
    return _ends(ganeti.rows("node"), ganeti.rows("instance"), statuses)
