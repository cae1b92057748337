"""The tags of harep: what is read, which counts, and what is written."""

from __future__ import annotations

import pytest
from harep_worlds import A, tagged

from ganeti_steward.plugins.maintenance.harep.tags import (
    FAILED,
    FOR_EVER,
    HEALTHY,
    PENDING,
    Contradiction,
    Mark,
    own_policy,
    policy_of,
    read_mark,
    repair_state_of,
)


@pytest.mark.parametrize(
    ("end", "mark"),
    [
        ("pending:failover:u:1500:7", Mark("failover", "u", 1500, (7,))),
        ("pending:failover:u:1500:7+8", Mark("failover", "u", 1500, (7, 8))),
        ("pending:reinstall:u:1500:", Mark("reinstall", "u", 1500)),
        ("result:migrate:u:1500:enoperm:", Mark("migrate", "u", 1500, (), "enoperm")),
        ("result:fix-storage:u:1500:failure:7", Mark("fix-storage", "u", 1500, (7,), "failure")),
    ],
)
def test_a_tag_is_read_and_written(end: str, mark: Mark) -> None:
    assert read_mark(f"{A}{end}") == mark
    assert mark.tag == f"{A}{end}"


@pytest.mark.parametrize(
    "end",
    [
        "pending",
        "pending:",
        "pending:failover:u:1500",
        "pending:failover:u:1500:7:",
        "pending:teleport:u:1500:7",
        "pending:failover:u:soon:7",
        "pending:failover:u:1500:x",
        "pending:failover:u:1500:-7",
        "pending:failover:u:1500:7+",
        "result:failover:u:1500:7",
        "result:failover:u:1500:good:7",
        "result:failover:u:1500::7",
        "result:failover:u:1500:success:7:",
        "failover",
        "suspend:1500",
    ],
)
def test_what_is_no_such_tag_is_ignored(end: str) -> None:
    assert read_mark(f"{A}{end}") is None


@pytest.mark.parametrize(
    ("ends", "allowed", "until"),
    [
        (("suspend", "suspend:3000", "failover"), "", FOR_EVER),
        (("suspend:",), "", FOR_EVER),
        (("suspend:3000", "suspend:2001", "failover"), "", 3000),
        (("suspend:2000", "failover"), "failover", 0),
        (("suspend:abc", "reinstall", "migrate"), "migrate", 0),
        (("reinstall", "pending:failover:u:1:", "failoverx"), "reinstall", 0),
    ],
)
def test_the_policy_of_an_object(ends: tuple[str, ...], allowed: str, until: int) -> None:
    found = own_policy(tagged(*ends), 2000)
    assert found is not None
    assert (found.allowed, found.until) == (allowed, until)


def test_an_object_without_a_statement_leaves_it_to_the_next_one() -> None:
    silent = tagged("suspend:1999", "suspend:x", "result:failover:u:1:success:")
    assert own_policy(silent, 2000) is None
    found = policy_of((("i", silent), ("g", tagged("migrate")), ("c", tagged("suspend"))), 2000)
    assert found is not None
    assert (found.allowed, found.where) == ("migrate", "g")
    assert policy_of((("i", silent), ("g", ()), ("c", ())), 2000) is None


@pytest.mark.parametrize(
    ("ends", "status", "outdated"),
    [
        ((), HEALTHY, ()),
        (("pending:migrate:u:5:7",), PENDING, ("pending:migrate:u:5:7",)),
        (
            ("result:migrate:u:5:success:7", "pending:failover:v:6:9"),
            PENDING,
            ("pending:failover:v:6:9", "result:migrate:u:5:success:7"),
        ),
        # A result counts for more than a pending tag of the same repair, a failure for more still.
        (
            ("pending:migrate:u:9:7", "result:migrate:u:5:success:7"),
            HEALTHY,
            ("result:migrate:u:5:success:7",),
        ),
        (
            ("result:migrate:u:9:success:7", "result:migrate:u:5:failure:7"),
            FAILED,
            ("result:migrate:u:5:failure:7",),
        ),
        (
            (
                "result:migrate:u:5:failure:7",
                "pending:migrate:v:6:8",
                "result:migrate:w:7:success:",
            ),
            FAILED,
            ("result:migrate:u:5:failure:7",),
        ),
    ],
)
def test_how_the_repairs_of_an_instance_stand(
    ends: tuple[str, ...], status: str, outdated: tuple[str, ...]
) -> None:
    found = repair_state_of(tagged(*ends))
    assert (found.status, found.outdated) == (status, tagged(*outdated))


def test_a_repair_after_one_in_progress_is_a_contradiction() -> None:
    with pytest.raises(Contradiction, match=r"is of a later repair than .*pending:migrate:u:5:7"):
        repair_state_of(tagged("pending:migrate:u:5:7", "result:failover:v:6:success:"))
