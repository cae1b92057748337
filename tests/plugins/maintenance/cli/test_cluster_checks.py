"""What ``check`` reports of a live cluster in addition: disks, and the reports of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import clusters
import pytest
from records import signing_store
from standin import StandIn
from standin_server import serving
from worlds import NOW, incident, instance, node, uuid_of, with_instance, with_node, world

from ganeti_steward.allocators.health.troubles import Item
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.sources import Source
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.cli import cluster_checks
from ganeti_steward.plugins.maintenance.edges.poll import Poll
from ganeti_steward.plugins.maintenance.edges.status import Status
from ganeti_steward.plugins.maintenance.page.http import StatusApplication, StatusServer
from ganeti_steward.plugins.model.incident import FAILED, PENDING
from ganeti_steward.plugins.model.world import Reported, Silent

if TYPE_CHECKING:
    from front import Front

_LUXID: Final = Luxi("/nowhere")
_CLUSTER: Final = world(
    [node("n1"), node("n2"), node("n3"), node("off", offline=True)],
    [
        instance("good", "n1", "n2"),
        instance("half", "n1", "n2"),
        instance("bad", "n2", "n1"),
        instance("stopped", "n1", "n2", up=False),
        instance("single", "n3", "off"),
    ],
).cluster


def live(jobs: Luxi | None = _LUXID) -> Source:
    return Source(_CLUSTER, "luxid", jobs)


@pytest.fixture(autouse=True)
def no_configuration(front: Front) -> None:
    front.configure('[maintd]\naddress = "127.0.0.1"\nport = 1\n')


def _disk(primary: int, secondary: int) -> dict[str, Any]:
    def side(own: int) -> list[Any]:
        return ["/dev/drbd0", 147, 0, None, None, own != 1, own]

    sides = {"pstatus": side(primary), "sstatus": side(secondary)}
    return {"iv_name": "disk/0", "dev_type": "drbd", **sides}


def test_what_a_maintenance_has_left() -> None:
    uuid = uuid_of("n1")
    made = with_node(
        with_instance(
            world([node("n1"), node("n2")], [instance("a", "n1", up=False)]),
            "a",
            tags=(f"maintd:shutdown:{uuid}",),
        ),
        "n1",
        drained=True,
        tags=(f"maintd:drained:{uuid}",),
    )
    found = cluster_checks.look(Source(made.cluster, "luxid", None), disks=False)
    ((item,),) = (one.items for one in found.troubles)
    assert item == Item("n1", detail="n1 is drained; a shut down; gnt-steward maintenance done n1")


def test_what_a_shutdown_has_left() -> None:
    """The instances of a node that is still away are not named one by one."""
    tagged = ("maintd:bring-up:10",)
    start = world(
        [node("n1"), node("n2", tags=("maintd:bring-up",))],
        [instance("a", "n1", up=False), instance("b", "n2", up=False)],
    )
    made = with_instance(with_instance(start, "a", tags=tagged), "b", tags=tagged)
    found = cluster_checks.look(Source(made.cluster, "luxid", None), disks=False)
    (items,) = (one.items for one in found.troubles)
    assert items == (
        Item("n2", detail="it was shut down; gnt-steward maintenance bring-up"),
        Item("n1", detail="a was shut down; gnt-steward maintenance bring-up"),
    )


def test_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those of running instances are queried both nodes of which can answer."""
    queried = list[Job]()

    def run(luxi: Luxi, jobs: Sequence[Job], *_: object) -> list[JobState]:
        queried.extend(jobs)
        result = {
            "good": {"pnode": "n1", "snodes": ["n2"], "run_state": "up", "disks": [_disk(1, 1)]},
            "half": {"pnode": "n1", "snodes": ["n2"], "run_state": "up", "disks": [_disk(1, 4)]},
            "bad": {"pnode": "n2", "snodes": ["n1"], "run_state": "up", "disks": [_disk(4, 1)]},
        }
        return [JobState(7, "success", results=[result])]

    monkeypatch.setattr(cluster_checks, "run_short", run)
    found = cluster_checks.look(live(), disks=True)
    ((operation,),) = queried
    assert operation["instances"] == ["bad", "good", "half"]
    assert operation["static"] is False
    items = {one.kind: one.items for one in found.troubles if one.items}
    assert {kind: [item.name for item in mine] for kind, mine in items.items()} == {
        "bad-disks": ["bad"],
        "degraded-disks": ["half"],
    }
    assert items["degraded-disks"][0].detail == "disk/0 is faulty on n2"


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (JobState(7, "running"), "job 7 did not end in time"),
        (JobState(7, "error", "no such node"), "job 7 ended with error: no such node"),
        (JobState(0, "error", "the queue is drained"), "the queue is drained"),
    ],
)
def test_disks_that_are_not_known(
    monkeypatch: pytest.MonkeyPatch, state: JobState, why: str
) -> None:
    monkeypatch.setattr(cluster_checks, "run_short", lambda *_: [state])
    found = cluster_checks.look(live(), disks=True)
    assert found.skipped[0] == f"the disks of instances of group g1 ({why})"


def test_what_is_not_looked_at() -> None:
    assert cluster_checks.look(live(None), disks=False) == (
        (),
        ("the disks of instances (--disks)", "the reports of nodes (on the master only)"),
    )
    with pytest.raises(StewardError, match="--disks needs luxid"):
        cluster_checks.look(live(None), disks=True)


def test_no_daemon_answers() -> None:
    found = cluster_checks.look(live(), disks=False)
    assert found.troubles == ()
    assert found.skipped[1] == (
        "the reports of nodes (the maintenance daemon at 127.0.0.1 port 1 does not answer: "
        "Connection refused)"
    )


def test_rules_of_the_daemon_that_others_have_changed(tmp_path: Path) -> None:
    """A record that holds all jobs, and a rule that held the new instances of one node."""
    pending, stand_in = incident("n1", status=PENDING), StandIn(clusters.generate("--nodes=2"))
    with serving(tmp_path, stand_in) as luxi:
        signing_store(luxi, holds_creations=lambda: True).write(pending)
        look = cluster_checks.look(live(luxi), disks=False)
        assert (look.troubles[0].items, look.skipped[2:]) == ((), ())
        for row in stand_in.filters.values():
            row.update(action="PAUSE", predicates=[])
        (found,) = cluster_checks.look(live(luxi), disks=False).troubles
    assert (found.kind, found.severity, len(found.items)) == ("altered-rules", "error", 3)
    (record,) = (one for one in found.items if pending.uuid in one.name)
    assert record.detail == (
        "it is the record of an incident, and its action is PAUSE; the maintenance daemon on the "
        "master corrects its own rules, any other can be deleted: gnt-filter delete "
        f"{pending.uuid}"
    )


def test_a_machine_that_knows_no_master(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint of other commands, an option with the address, would not help here."""
    front.configure("")
    monkeypatch.setattr(cluster_checks, "master_name", lambda _: "")
    found = cluster_checks.look(live(), disks=False)
    assert found.skipped[1] == "the reports of nodes (the master is not known on this machine)"


@pytest.fixture
def server(front: Front) -> Iterator[StatusServer]:
    server = StatusServer(StatusApplication(Status(NOW), lambda: 60, lambda: NOW), "127.0.0.1", 0)
    server.start()
    front.configure(f'[maintd]\naddress = "127.0.0.1"\nport = {server.port}\n')
    yield server
    server.stop()


def test_reports_of_nodes(server: StatusServer) -> None:
    psu = (
        b'{"details":[{"details":"psu 2 failed","source":"command:psu","status":"evacuate"}],'
        b'"status":"evacuate"}'
    )
    observed = {
        uuid_of("n1"): Reported(psu, "evacuate", "", NOW),
        uuid_of("n2"): Reported(b"{}", "Ok", "", NOW),
        uuid_of("n3"): Silent(NOW, "connection refused"),
        uuid_of("off"): Silent(NOW, "no route"),
    }
    ill = incident("n1")._replace(original=psu)
    failed = incident("n2", note="1 of 2 instances cannot be moved", status=FAILED)
    names = {uuid_of(name): name for name in ("n1", "n2", "n3", "off")}
    server.publish(
        Status(NOW, incidents=(ill, failed), nodes=names, poll=Poll(observed, polls=1, ended=NOW))
    )
    found = cluster_checks.look(live(), disks=False)
    assert found.skipped[0] == "the disks of instances (--disks)"
    assert "the reports of nodes" not in str(found.skipped)
    items = {one.kind: [(i.name, i.detail) for i in one.items] for one in found.troubles}
    assert items == {
        "reports": [("n1", "command:psu: psu 2 failed")],
        # One that is offline cannot report.
        "silent-agents": [("n3", "connection refused")],
        "failed-incidents": [("n2", "1 of 2 instances cannot be moved")],
    }
