"""``gnt-steward filter`` with actions that Ganeti does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ganeti_steward.plugins.lock_file import lock_file

if TYPE_CHECKING:
    from front import Front
    from ruled import Call, Ruled

NIGHTS = "WINDOW Mon-Fri 22:00-06:00"
A = "11111111-1111-4111-8111-111111111111"


def noted(rule: dict[str, object]) -> list[list[object]]:
    """The entries of the reason trail but luxid's, without times."""
    trail = rule["reason_trail"]
    assert isinstance(trail, list)
    return [entry[:2] for entry in trail if entry[0] != "luxid"]


def test_it_is_stored_as_a_pause(call: Call, cluster: Ruled) -> None:
    done = call("add", f"--action={NIGHTS}", "--reason=pony", '--predicates=[["jobid", null]]')
    (rule,) = cluster.rules
    assert done.out == f"{rule['uuid']}\n"
    assert done.err.startswith("Note: luxid holds the jobs of WINDOW; only the maintenance daemon")
    assert (rule["action"], rule["priority"]) == ("PAUSE", 50)
    assert noted(rule) == [["gnt:user", "pony"], ["steward:filter-action", NIGHTS]]


def test_it_is_shown_by_its_name(call: Call) -> None:
    call("add", f"--action={NIGHTS}")
    done = call("list", "--no-headers", "-o", "action,priority")
    assert done.out.split("\n")[0].split() == [*NIGHTS.split(), "50"]
    assert "only the maintenance daemon on the master releases them" in done.err
    assert f"  Action: {NIGHTS} (stored as PAUSE)\n" in call("info").out
    assert '"PAUSE"' in call("list", "--json", "-o", "action").out


def test_without_such_a_rule_there_is_no_note(call: Call) -> None:
    assert call("add", "--action=PAUSE").err == call("list").err == ""


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--action=WINDOW"], "WINDOW takes days and times, like 'Mon-Fri 22:00-06:00', several"),
        (["--action=WINDOW 22:00-6:00"], "not '22:00-6:00'"),
        (["--action=AFTER_INCIDENT"], "AFTER_INCIDENT takes the name or the uuid of one node"),
        (["--action=APPROVE me"], "APPROVE takes nothing, not 'me'"),
        (["--action=WINDOW caf\xe9"], "action: '\\xe9' is not ASCII"),
        (["--action=APROVE"], "action: 'APROVE' is none of ACCEPT, CONTINUE, PAUSE, REJECT, RATE_"),
        (["--action=APPROVE", "--priority=0"], "priority: the action APPROVE requires 1 or more"),
    ],
)
def test_what_is_wrong_is_refused(call: Call, cluster: Ruled, words: list[str], error: str) -> None:
    done = call("add", *words)
    assert done.status != 0
    assert error in done.err
    assert cluster.rules == []


def test_replace(call: Call, cluster: Ruled) -> None:
    trail = [["gnt:user", "pony", 1], ["steward:filter-action", NIGHTS, 2]]
    cluster.put(A, priority=7, reason_trail=trail)
    call("replace", A, "--reason=cat")
    assert noted(cluster.rules[0]) == [["gnt:user", "cat"], ["steward:filter-action", NIGHTS]]
    assert cluster.rules[0]["priority"] == 7
    call("replace", A, "--action=APPROVE")
    assert noted(cluster.rules[0]) == [["gnt:user", "cat"], ["steward:filter-action", "APPROVE"]]
    call("replace", A, "--action=PAUSE")
    assert noted(cluster.rules[0]) == [["gnt:user", "cat"]]
    assert call("list").err == ""


def test_an_action_of_a_plugin(call: Call, cluster: Ruled, front: Front) -> None:
    """Where a loaded plugin may know it; what has no action is no such plugin."""
    for name, hook in (("rules", "steward_filter_action"), ("other", "steward_commands")):
        front.plugin(
            name, f"from ganeti_steward.core import hookimpl\n@hookimpl\ndef {hook}(): pass\n"
        )
        front.configure(f'[plugins]\nload = ["{name}"]')
        assert call("add", "--action=FULL_MOON 3").status == (0 if name == "rules" else 1)
    (rule,) = cluster.rules
    assert noted(rule) == [["steward:filter-action", "FULL_MOON 3"]]


def test_whether_the_daemon_is_missing(cluster: Ruled, front: Front) -> None:
    """Known on the master only; the lock is that of its configuration."""
    lock = front.path / "lock"
    front.configure(f'[maintd]\nlock-file = "{lock}"')
    cluster.put(A, reason_trail=[["steward:filter-action", NIGHTS, 2]])
    missing = "; no maintenance daemon is running here, so they stay held\n"
    with cluster.reached(front.path, "luxi") as options:
        assert front("filter", "list", *options).err.endswith(missing)
        with lock_file(str(lock)):
            assert front("filter", "list", *options).err.endswith("maintd status')\n")
    with cluster.reached(front.path, "rapi") as options:
        assert front("filter", "list", *options).err.endswith("maintd status')\n")
