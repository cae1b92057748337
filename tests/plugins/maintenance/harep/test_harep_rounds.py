"""The plugin from round to round: tags follow jobs, and no instance stops another."""

from __future__ import annotations

from typing import Any

import pytest
from harep_worlds import (
    AT,
    DRAINED,
    OFF,
    at,
    done,
    job_of,
    one_instance,
    plans,
    reason,
    routine,
    tagged,
)
from worlds import SECOND, instance, node, with_instance, world

from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.plugins.maintenance.config import ACT, Harep, Maintd
from ganeti_steward.plugins.maintenance.engine.copies import LastSeen
from ganeti_steward.plugins.maintenance.engine.decision import Decision, Inputs, Recent
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.model.disks import DiskHealth
from ganeti_steward.plugins.model.task import Task, Wait

_WITHOUT_DISKS = Harep(disk_check_interval=0)


def test_a_repair_reserves_its_nodes_and_waits_for_its_tag() -> None:
    (plan,) = plans(one_instance(("failover",), primary=OFF), _WITHOUT_DISKS)
    assert isinstance(plan, Task)
    assert (plan.nodes, plan.instances, plan.subject) == ({"n1", "n2"}, {"i1"}, "i1")
    assert plan.shares_nodes
    first, second = job_of(plan)
    assert (first["OP_ID"], first["duration"]) == ("OP_TEST_DELAY", 10)
    assert (second["OP_ID"], second["ignore_consistency"]) == ("OP_INSTANCE_FAILOVER", False)


@pytest.mark.parametrize(("allowed", "fails_over"), [("migrate", False), ("failover", True)])
def test_a_migration_becomes_a_failover_only_where_that_is_allowed(
    allowed: str, fails_over: bool
) -> None:
    (plan,) = plans(one_instance((allowed,), primary=DRAINED))
    (operation,) = job_of(plan)
    assert (operation["OP_ID"], operation["allow_failover"]) == ("OP_INSTANCE_MIGRATE", fails_over)


def test_a_submitted_repair_gets_its_tag_and_the_older_one_goes() -> None:
    own = ("failover", "result:failover:u:1500:success:3")
    (plan,) = plans(one_instance(own, primary=OFF, routine=(routine(7, "failover"),)))
    assert isinstance(plan, Task)
    (set_it,), (remove,) = plan.jobs
    (tag,) = set_it["tags"]
    assert tag.startswith("ganeti:watcher:autorepair:pending:failover:")
    assert tag.endswith(":1995:7")
    assert remove["tags"] == list(tagged(own[1]))
    assert remove["depends"] == [[-1, ["success"]]]
    # It may be set while the repair holds the instance.
    assert not plan.nodes
    assert not plan.instances


@pytest.mark.parametrize("status", ["running", "success"])
def test_a_tag_is_set_only_once(status: str) -> None:
    jobs = routine(7, "failover"), routine(8, "tag", status=status)
    own = ("failover", "pending:failover:u:1995:7")
    found = plans(one_instance(own, primary=OFF, routine=jobs, jobs={7: "running"}))
    assert all(isinstance(one, Wait) for one in found)


def test_a_failure_whose_tag_was_removed_is_not_set_again() -> None:
    jobs = (
        routine(7, "failover", status="error"),
        routine(8, "tag", status="success"),
        routine(9, "tag", status="success"),
    )
    assert done(plans(one_instance(("failover",), primary=OFF, routine=jobs))[0]) == "FAILOVER"


def test_a_tag_that_could_not_be_set_is_tried_again_later() -> None:
    failed = routine(8, "tag", status="error", error="no such tag", ended=AT * SECOND)
    jobs = routine(7, "failover"), failed
    seen = one_instance(("failover",), primary=OFF, routine=jobs)
    assert "could not be set (no such tag); tried again in 300 s" in reason(seen)
    later = seen._replace(now=(AT + 301) * SECOND)
    (plan,) = plans(later)
    assert isinstance(plan, Task)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({7: "success", 8: "success"}, "success"),
        ({7: "success", 8: "error"}, "failure"),
        ({7: "success", 8: "canceled"}, "failure"),
        ({7: "lost", 8: "success"}, "success"),
        ({7: "lost", 8: "lost"}, "failure"),
    ],
)
def test_all_jobs_of_a_repair_decide(states: dict[int, str], expected: str) -> None:
    own = ("failover", "pending:failover:u:1500:7+8")
    (plan,) = plans(one_instance(own, primary=OFF, jobs=states))
    assert f"+ result:failover:u:2000:{expected}:7+8" in done(plan)


def test_archived_jobs_of_a_repair_count_as_good_where_nothing_is_wrong() -> None:
    own = ("failover", "pending:failover:u:1500:7")
    (plan,) = plans(one_instance(own, jobs={7: "lost"}))
    assert "result:failover:u:2000:success:7" in done(plan)


@pytest.mark.parametrize("states", [{}, {7: "success"}, {7: "success", 8: "waiting"}])
def test_a_repair_in_progress_is_left_alone(states: dict[int, str]) -> None:
    own = ("failover", "pending:failover:u:1500:7+8")
    (plan,) = plans(one_instance(own, primary=OFF, jobs=states))
    assert isinstance(plan, Wait)


def test_what_is_not_allowed_is_tagged_once_for_each_type() -> None:
    own = ("fix-storage", "result:failover:u:1500:enoperm:")
    assert done(plans(one_instance(own, primary=OFF))[0]) == "nothing"
    found = done(plans(one_instance(own, primary=OFF, secondary=OFF))[0])
    assert ":2000:enoperm:, - result:failover:u:1500:enoperm:" in found
    assert found.startswith("+ result:reinstall:")


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ((), "no repair is enabled"),
        (("suspend",), "suspended without an end by instance i1"),
        (("suspend:3000",), "suspended until 3000"),
        (("failover", "result:failover:u:5:failure:7"), "remove its tag ganeti:watcher:autorepair"),
    ],
)
def test_what_is_left_has_a_reason(own: tuple[str, ...], words: str) -> None:
    assert words in reason(one_instance(own, primary=OFF))


def test_one_bad_instance_stops_no_other() -> None:
    bad = tagged("failover", "pending:failover:u:1:7", "pending:failover:v:2:8")
    seen = world(
        [node("n1", offline=True), node("n2"), node("n3")],
        [
            instance("bad", "n1", "n2", tags=bad),
            instance("good", "n1", "n3", tags=tagged("failover")),
            instance("lost", "n1", "n3", tags=tagged("failover", "pending:failover:w:1:99")),
            instance("odd", "n1", "n9", tags=tagged("failover")),
        ],
        tagged_jobs={7: JobState(7, "success"), 99: JobState.lost(99)},
        **at(),
    )
    found = {plan.subject: plan for plan in plans(seen)}
    assert "is of a later repair" in found["bad"].reason
    assert done(found["good"]) == "FAILOVER"
    assert ":failure:99" in done(found["lost"])
    assert "n9 is not known" in found["odd"].reason


def test_an_instance_that_is_opted_out_gets_no_tag() -> None:
    seen = one_instance(("fix-storage",), primary=OFF)
    (one,) = seen.instances.values()
    seen = with_instance(seen, "i1", tags=(*one.tags, "maintd:off"))
    assert "has the tag maintd:off" in reason(seen)


@pytest.mark.parametrize(
    ("own", "primary", "secondary", "operations"),
    [
        (("failover",), OFF, {}, ["OP_INSTANCE_FAILOVER"]),
        (("reinstall",), OFF, OFF, ["OP_INSTANCE_RECREATE_DISKS", "OP_INSTANCE_REINSTALL"]),
    ],
)
def test_what_may_still_run_is_held_once_and_the_same(
    own: tuple[str, ...],
    primary: dict[str, Any],
    secondary: dict[str, Any],
    operations: list[str],
) -> None:
    """harep starts it elsewhere at once; here an admin says that its primary is off."""
    config = Maintd(mode=ACT, routine=("harep",))

    def decided(tags: frozenset[str] = frozenset(), seconds: int = AT) -> Decision:
        seen = one_instance(
            own, primary={**primary, "tags": tags}, secondary=secondary, **at(seconds)
        )
        disks = LastSeen(disks={"i1": DiskHealth(seen.now - 60 * SECOND)})
        inputs = Inputs(seen, recent=Recent(seen=disks))
        return step(inputs, config, lambda *_: (), lambda _, now: plans(now, _WITHOUT_DISKS))

    first, later = decided(), decided(seconds=AT + 60)
    assert first.routine == later.routine == ()
    (held,) = first.held
    assert later.held == (held,), "nothing new in the log"
    assert (held.subject, held.brake) == ("harep i1", "stopped")
    uuid = next(one.uuid for one in one_instance(own).nodes.values() if one.name == "n1")
    tag = f"maintd:stopped:{uuid}"
    assert held.sentence == (
        "n1 is offline, and whether i1 still runs there is not known: nothing is started elsewhere "
        f"before it is confirmed to be off; gnt-node add-tags n1 {tag}"
    )
    (started,) = decided(frozenset({tag})).routine
    assert [one["OP_ID"] for job in started.task.jobs for one in job][1:] == operations
