"""``gnt-steward maintenance start``, ``roll``, ``list``, ``show``, ``done`` and ``cancel``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confd_servers import KEY
from live import Ganeti
from messages import body, message
from recorded import Recorded

from ganeti_steward.plugins.maintenance.edges.record import Stamp, open_record, sign_record
from ganeti_steward.plugins.model.incident import Incident, Maintenance

if TYPE_CHECKING:
    from front import Front
    from workspace import Done

LIST = ("list", "--no-headers", "--separator", "|", "-o")


class Cluster(Recorded):
    """Four nodes, n1 is the master; nodes and instances as luxid has them, and records."""

    def __init__(self) -> None:
        super().__init__()
        made = message()
        made["instances"]["d2.test"] = {**body("drbd"), "nodes": ["n2.test", "n3.test"]}
        self.ganeti = Ganeti(made)

    def luxi(self, method: str, arguments: list[Any]) -> Any:
        own = method == "Query" and arguments[0] in ("filter", "job")
        if method == "QueryClusterInfo" or (method == "Query" and not own):
            return self.ganeti.luxi(method, arguments)
        return super().luxi(method, arguments)

    @property
    def incidents(self) -> list[Incident]:
        """What the daemon would read, in the order of the requests."""
        found = (
            open_record(row["uuid"], row["reason_trail"][0][1], KEY).incident for row in self.rows
        )
        return sorted(found, key=lambda one: one.first_seen)

    def change(self, incident: Incident, **fields: Any) -> None:
        """What the daemon writes."""
        (row,) = (row for row in self.rows if row["uuid"] == incident.uuid)
        row["reason_trail"][0][1] = sign_record(incident._replace(**fields), Stamp(2, 0), KEY).text


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


class Caller:
    def __init__(self, front: Front, options: list[str]) -> None:
        self._front, self._options = front, options

    def __call__(self, *words: str) -> Done:
        return self._front("maintenance", *words, *self._options)


@pytest.fixture
def call(cluster: Cluster, front: Front, tmp_path: Path) -> Iterator[Caller]:
    (tmp_path / "hmac.key").write_bytes(KEY)
    front.configure(f'[maintd]\nkey-file = "{tmp_path / "hmac.key"}"')
    with ExitStack() as stack:
        yield Caller(front, stack.enter_context(cluster.reached(tmp_path, "luxi")))


def test_start_writes_a_signed_record(call: Caller, cluster: Cluster) -> None:
    done = call("start", "n2")
    assert done.status == 0, done.err
    (found,) = cluster.incidents
    assert done.out == f"Requested maintenance of n2.test: incident {found.uuid}.\n"
    assert (found.node_name, found.action, found.status) == ("n2.test", "maintenance", "noted")
    assert found.maintenance == Maintenance("refuse")
    assert call(*LIST, "node,state,status").out == "n2.test|requested|noted\n"
    assert call("start", "n2").err == "gnt-steward maintenance: n2.test has an active maintenance\n"


def test_what_does_the_work(call: Caller, cluster: Cluster) -> None:
    assert call("start", "n2", "--work", "command:reboot-node").status == 0
    assert call(*LIST, "work").out == "command:reboot-node\n"
    assert call("start", "n2", "--at-once", "0").status == 2
    for wrong in ("command:", "command:../sh", "reboot"):
        done = call("start", "n4", "--work", wrong)
        assert (done.status, f"{wrong!a} is not one of none" in done.err) == (2, True)
    assert len(cluster.rows) == 1
    assert call("start", "n4", "--at-once", "2").status == 0
    assert cluster.incidents[1].maintenance == Maintenance("refuse", at_once=2)


def test_the_commands_around_it(call: Caller, cluster: Cluster) -> None:
    done = call("start", "n2", "--before", "silence", "--after", "burn-in")
    assert done.status == 0, done.err
    (found,) = cluster.incidents
    assert found.maintenance == Maintenance("refuse", before="silence", after="burn-in")
    assert call(*LIST, "before,after").out == "silence|burn-in\n"
    shown = call("show", "n2").out
    assert "Before: silence\nAfter: burn-in\n" in shown
    assert '"before": "silence"' in shown
    hooks = "--master-before", "--master-after"
    assert call("start", "n4", hooks[0], "silence", hooks[1], "sound").status == 0
    hooked = cluster.incidents[1].maintenance
    assert hooked == Maintenance("refuse", master_before="silence", master_after="sound")
    assert call(*LIST, "master_before,master_after").out.split() == ["-|-", "silence|sound"]
    for option in ("--before", "--after", *hooks):
        for wrong in ("", "../sh", "a b"):
            done = call("start", "n4", option, wrong)
            assert (done.status, f"{wrong!a} is not a command name" in done.err) == (2, True)


def test_power_needs_an_out_of_band_program(call: Caller, cluster: Cluster) -> None:
    """Of each node, or nothing is requested."""
    params = cluster.ganeti.node("n2.test")["ndparams"]
    cluster.ganeti.node("n4.test")["ndparams"]["oob_program"] = "/usr/local/sbin/oob"
    for without in ({}, {"oob_program": ""}):
        params |= without
        done = call("start", "n2", "n4", "--work", "power")
        assert done.status == 1
        assert "n2.test has no out-of-band program, which --work power needs" in done.err
        assert "n4.test" not in done.err
    assert call("start", "n2", "n4", "--work", "power", "--dry-run").status == 1
    assert cluster.rows == []
    params["oob_program"] = "/usr/local/sbin/oob"
    assert call("start", "n2", "n4", "--work", "power").status == 0
    assert {one.maintenance and one.maintenance.work for one in cluster.incidents} == {"power"}


def test_what_cannot_be_away_is_not_requested(call: Caller, cluster: Cluster) -> None:
    done = call("start", "n2", "n3")
    assert done.status == 1
    assert "n3.test: p1.test has disks of the template plain" in done.err
    done = call("start", "n1")
    assert (done.status, "n1.test is the master" in done.err) == (1, True)
    assert cluster.rows == []


def test_a_roll_leaves_out_the_master_and_dry_run_writes_nothing(
    call: Caller, cluster: Cluster
) -> None:
    done = call("roll", "--all", "--stop", "--dry-run")
    assert done.status == 0, done.err
    assert "n1.test is left out: it is the master" in done.err
    assert "n2.test move           0.0 d2.test:migrate:n3.test\n" in done.out
    assert "n3.test move           0.0 d2.test:migrate:n2.test\n" not in done.out
    assert "n3.test stop           0.0 p1.test:shutdown\n" in done.out
    assert "\n3 nodes: 3 completed\n" in done.out
    assert "\nassumed: 10 min for the work on a node, 400 MiB of memory a second " in done.out
    assert cluster.rows == []
    assert call("roll", "--all", "--stop", "--no-return").status == 0
    assert sorted(one.node_name for one in cluster.incidents) == ["n2.test", "n3.test", "n4.test"]
    requests = [one.maintenance for one in cluster.incidents if one.maintenance]
    (roll,) = {one.roll for one in requests}
    assert {*requests} == {Maintenance("stop", returns=False, roll=roll, roll_nodes=3)}
    assert len({one.first_seen for one in cluster.incidents}) == 3


def test_a_deadline(call: Caller, cluster: Cluster, front: Front, tmp_path: Path) -> None:
    """As few nodes are away at once as are in time; nothing is requested where none are."""
    front.configure(f'[maintd]\nkey-file = "{tmp_path / "hmac.key"}"\nmost-nodes = 3\n')
    soon = datetime.fromtimestamp(time.time() + 300)
    done = call("roll", "--all", "--stop", "--by", f"{soon:%Y-%m-%d %H:%M}")
    assert (done.status, cluster.rows) == (1, [])
    assert "not all of 3 nodes can be back by " in done.err
    assert "the earliest end is " in done.err
    late = call("roll", "--all", "--stop", "--by", "2099-01-01 06:00", "--dry-run")
    assert "with 1 at once all nodes are back at " in late.err
    tight = datetime.fromtimestamp(time.time() + 1800)
    words = ("--by", f"{tight:%Y-%m-%d %H:%M}", "--reboot-minutes", "10")
    assert call("roll", "--all", "--stop", *words).status == 0
    requests = [one.maintenance for one in cluster.incidents if one.maintenance]
    assert {one.at_once for one in requests} == {2}
    assert {one.deadline // 10**9 for one in requests} == {int(tight.timestamp()) // 60 * 60}
    # The assumed work takes 600 s of each, and moves take the rest.
    assert [600 < one.expected < 900 for one in requests] == [True, True, True]
    assert call("roll", "--all", "--by", "2020-01-01 06:00").status == 2


def test_a_request_that_would_be_late(
    call: Caller, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list and ``wait`` name it, and requests of other nodes do not wait for it."""
    soon = datetime.fromtimestamp(time.time() + 3600)
    by = f"{soon:%Y-%m-%d %H:%M}"
    assert call("start", "n2", "--by", by).status == 0
    (found,) = cluster.incidents
    assert found.maintenance
    minutes = f"{found.maintenance.expected / 60:.1f}"
    deadline, shown, state = call(*LIST, "deadline,minutes,state").out.rstrip("\n").split("|")
    assert (deadline[:16], shown, state) == (by, minutes, "requested")
    late = found.maintenance._replace(deadline=time.time_ns() + 60 * 10**9)
    cluster.change(found, maintenance=late)
    assert call(*LIST, "state").out == "late\n"
    done = call("wait", "n2")
    assert (done.status, done.out) == (5, "n2: late: requested\n")
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", lambda seconds: pytest.fail("it waits"))
        assert "0 of 1 are over" in call("list", "--watch").out
    assert '"deadline"' in call("list", "--json", "-o", "node,deadline").out
    done = call("start", "n4", "--by", by)
    assert done.status == 0, done.err
    assert "includes maintenance that is requested already: n2.test" in done.err
    cluster.change(found, maintenance=late, status="pending")
    assert call(*LIST, "node,state").out.startswith("n2.test|emptying\n")


def test_a_roll_of_the_nodes_with_a_tag(call: Caller, cluster: Cluster) -> None:
    """The master and offline nodes are left out of those with the tag, and refused by name."""
    for name in ("n1.test", "n2.test", "n4.test"):
        cluster.ganeti.node(name)["tags"] = ["needsreboot"]
    cluster.ganeti.node("n4.test")["offline"] = True
    done = call("roll", "needsreboot")
    assert done.status == 0, done.err
    assert "n1.test is left out: it is the master" in done.err
    assert "n4.test is left out: it is offline" in done.err
    assert [one.node_name for one in cluster.incidents] == ["n2.test"]
    again = call("roll", "needsreboot")
    assert (again.status, again.out, len(cluster.rows)) == (0, "No node is left.\n", 1)
    assert "n2.test is left out: it has an active maintenance" in again.err
    assert "n2.test has an active maintenance" in call("roll", "n2").err
    refused = call("roll", "needsreboot,n1")
    assert (refused.status, "n1.test is the master" in refused.err) == (1, True)
    assert "no node is named 'rack:b'" in call("start", "rack:b").err
    plan = call("plan", "needsreboot", "-o", "nodes", "--no-headers")
    assert sorted(plan.out.split("\n")[:2]) == ["n1.test", "n2.test"]


def test_the_tag_that_is_removed_at_the_end(call: Caller, cluster: Cluster) -> None:
    """Once no node has it any more, the same roll requests nothing, and succeeds."""
    words = ("roll", "needsreboot", "--remove-tag", "needsreboot")
    done = call(*words)
    assert (done.status, done.out) == (0, "No node has the tag needsreboot.\n")
    assert call("roll", "needsreboot", "--remove-tag", "other").status == 1
    cluster.ganeti.node("n2.test")["tags"] = ["needsreboot"]
    assert call(*words).status == 0
    assert [one.maintenance and one.maintenance.tag for one in cluster.incidents] == ["needsreboot"]
    for tag in ("maintd:off", "", "a b", "ä"):
        done = call("roll", "needsreboot", "--remove-tag", tag)
        assert (done.status, "is not a tag that people set on nodes" in done.err) == (2, True)


def test_the_master_is_requested_last(call: Caller, cluster: Cluster) -> None:
    """And waits; the note has the command that an admin runs."""
    done = call("roll", "--all", "--stop", "--with-master")
    assert done.status == 0, done.err
    assert "n1.test is the master and comes last: " in done.err
    assert "(gnt-cluster master-failover there)" in done.err
    assert "is left out" not in done.err
    names = [one.node_name for one in cluster.incidents]
    assert (sorted(names[:3]), names[3]) == (["n2.test", "n3.test", "n4.test"], "n1.test")


def test_the_master_alone(call: Caller, cluster: Cluster) -> None:
    assert "with --with-master the maintenance waits for that" in call("start", "n1").err
    done = call("start", "n1", "--stop", "--with-master")
    assert (done.status, len(cluster.rows)) == (0, 1)
    assert "n1.test is the master and comes last: " in done.err


def test_full(call: Caller, cluster: Cluster) -> None:
    """One node after the other, and only where each copy has another place."""
    for name in ("n1.test", "n4.test"):
        cluster.ganeti.node(name)["drained"] = True
    done = call("start", "n2", "--full")
    assert done.status == 1
    assert "no other node of the group may take the copy of the disks of d2.test" in done.err
    assert cluster.rows == []
    cluster.ganeti.node("n4.test")["drained"] = False
    done = call("start", "n2", "--full", "--dry-run")
    assert done.status == 0, done.err
    assert "d2.test:replace-disks:n4.test\n" in done.out
    assert call("start", "n2", "--full").status == 0
    assert call(*LIST, "node,full").out == "n2.test|Y\n"
    assert {one.maintenance for one in cluster.incidents} == {
        Maintenance("refuse", at_once=1, full=True)
    }


def test_states(call: Caller, cluster: Cluster) -> None:
    call("start", "n2")
    (found,) = cluster.incidents
    assert found.maintenance
    states = []
    cluster.change(found, status="pending")
    states.append(call(*LIST, "state").out)
    cluster.ganeti.node("n2.test")["drained"] = True
    # Ganeti has another primary already while a migration still needs the node.
    cluster.ganeti.instance("d2.test").update(pnode="n3.test", snodes=["n2.test"])
    states.append(call(*LIST, "state").out)
    cluster.change(found, status="pending", maintenance=found.maintenance._replace(ready=True))
    states.append(call(*LIST, "state").out)
    cluster.change(found, status="pending", maintenance=found.maintenance._replace(worked=1))
    states.append(call(*LIST, "state").out)
    cluster.ganeti.node("n2.test")["drained"] = False
    states.append(call(*LIST, "state").out)
    cluster.change(found, status="completed", acknowledged=True)
    states.append(call(*LIST, "state").out)
    words = ("emptying", "emptying", "ready", "returning", "home", "done")
    assert states == [f"{word}\n" for word in words]
    assert f"Incident {found.uuid}\n" in call("show", "n2").out


def test_pause_and_resume(call: Caller, cluster: Cluster) -> None:
    assert call("pause", "--reason", "until Monday").out == (
        "Set maintd:pause-maintenance:until-Monday on the cluster; nothing more is started until "
        "it is removed.\n"
    )
    assert call("pause", "n2").status == 0
    assert cluster.done == [
        ("OP_TAGS_SET", "", ["maintd:pause-maintenance:until-Monday"]),
        ("OP_TAGS_SET", "n2.test", ["maintd:pause-maintenance:by-an-admin"]),
    ]
    assert call("resume").out.startswith("Nothing to do: the cluster has no tag")
    cluster.ganeti.node("n2.test")["tags"] = ["other", "maintd:pause-maintenance:by-an-admin"]
    assert call("resume", "n2").status == 0
    assert cluster.done[2] == (
        "OP_TAGS_DEL",
        "n2.test",
        ["maintd:pause-maintenance:by-an-admin"],
    )
    assert call("pause", "n9").status == 1


def test_words(call: Caller, cluster: Cluster) -> None:
    call("start", "n2")
    (found,) = cluster.incidents
    assert call("done", "n2").err.endswith(
        "the maintenance of n2.test has not begun. To end it: gnt-steward maintenance cancel "
        "n2.test\n"
    )
    assert call("cancel", "n2").status == 0
    cluster.change(found, status="pending")
    assert call("done", "n2").out == f"Set {found.done_tag} on n2.test.\n"
    assert cluster.done == [
        ("OP_TAGS_SET", "n2.test", [found.cancel_tag]),
        ("OP_TAGS_SET", "n2.test", [found.done_tag]),
    ]
    cluster.change(found, status="canceled")
    assert call("cancel", found.uuid[:8]).out.startswith("Nothing to do")
    assert call("show", "n4").status == 1


def test_what_a_canceled_maintenance_has_left_is_shown_and_undone(
    call: Caller, cluster: Cluster
) -> None:
    node, one = cluster.ganeti.node("n2.test"), cluster.ganeti.instance("d2.test")
    call("start", "n2", "--stop")
    (found,) = cluster.incidents
    cluster.change(found, status="pending")
    node |= {"drained": True, "tags": [f"maintd:drained:{node['uuid']}"]}
    one |= {"admin_state": "down", "tags": [f"maintd:shutdown:{node['uuid']}"]}
    assert call("cancel", "n2").out.splitlines() == [
        f"Set {found.cancel_tag} on n2.test.",
        "It stays as it is: n2.test is drained; d2.test shut down.",
        "    gnt-node modify -D no n2.test",
        f"    gnt-node remove-tags n2.test maintd:drained:{node['uuid']}",
        "    gnt-instance startup d2.test",
        f"    gnt-instance remove-tags d2.test maintd:shutdown:{node['uuid']}",
        "gnt-steward maintenance done n2.test undoes all of it.",
    ]
    node["tags"].append(found.cancel_tag)
    assert call(*LIST, "state").out == "canceling\n", "the daemon has not read it"
    cluster.change(found, status="canceled")
    assert call(*LIST, "node,state,ran,note").out.splitlines()[1:] == [
        "n2.test|unfinished|d2.test|n2.test is drained; d2.test shut down; gnt-steward maintenance "
        "done n2.test undoes it"
    ]
    done = call("done", "n2")
    latest = cluster.incidents[-1]
    assert done.out == f"Requested the return of n2.test: incident {latest.uuid}.\n"
    request = latest.maintenance
    assert request is not None
    assert (request.ran, request.drained, request.worked > 0) == (("d2.test",), False, True)
    assert call("done", "n2").out == "Nothing to do: n2.test is being taken back.\n"


def test_what_is_left_by_an_unknown_maintenance(call: Caller, cluster: Cluster) -> None:
    """Its record was folded long ago."""
    node, one = cluster.ganeti.node("n2.test"), cluster.ganeti.instance("d2.test")
    one |= {"pnode": "n3.test", "snodes": ["n2.test"], "tags": [f"maintd:home:{node['uuid']}"]}
    assert call(*LIST, "node,note").out == (
        "n2.test|d2.test not back; gnt-steward maintenance done n2.test undoes it\n"
    )
    assert call("done", "n2").status == 0
    assert [one.node_name for one in cluster.incidents] == ["n2.test"]


def test_waiting_for_a_node(call: Caller, cluster: Cluster) -> None:
    """As the list has it; one that has none is refused."""
    assert call("wait", "n2").status == 1
    call("start", "n2")
    done = call("wait", "n2", "--timeout", "0")
    assert done.status == 3
    assert done.out.startswith("n2: requested")
    (found,) = cluster.incidents
    assert found.maintenance
    cluster.change(found, status="pending", maintenance=found.maintenance._replace(ready=True))
    done = call("wait", "n2", "--timeout", "0")
    assert (done.status, done.out.split(":")[:2]) == (0, ["n2", " ready"])
    cluster.change(found, status="failed")
    assert call("wait", found.uuid, "--for", "done").status == 4
