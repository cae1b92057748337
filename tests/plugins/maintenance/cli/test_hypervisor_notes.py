"""What a plan says of migrations for which QEMU or the CPU of the target is not right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from worlds import changed, instance, node, world

from ganeti_steward.allocators.rolling.hypervisors import (
    NOT_REPORTED,
    Hypervisor,
    Hypervisors,
    Running,
)
from ganeti_steward.allocators.rolling.roll import RollOptions, plan_roll
from ganeti_steward.allocators.rolling.rounds import RoundLimits
from ganeti_steward.core.errors import StewardError
from ganeti_steward.plugins.maintenance.cli.planned import hypervisors

if TYPE_CHECKING:
    import pytest

NAMES: Final = ("node1", "node2")
CLUSTER: Final = world(
    [node(name) for name in NAMES],
    [
        changed(instance(name, here, there), hypervisor="kvm")
        for name, here, there in (
            ("web1", "node1", "node2"),
            ("web2", "node1", "node2"),
            ("db", "node2", "node1"),
        )
    ],
).cluster
NEW: Final = Hypervisor(
    "10.0.7",
    {"pc-i440fx-10.0": "", "pc-i440fx-7.2": ""},
    "CPU",
    ("avx", "fpu"),
    {name: Running("pc-i440fx-10.0", host_cpu=False) for name in ("web1", "web2")},
)
OLD: Final = Hypervisor(
    "7.2.22",
    {"pc-i440fx-7.2": ""},
    "CPU",
    ("avx", "fpu"),
    {"db": Running("pc-i440fx-7.2", host_cpu=True)},
)


def notes(*names: str, **nodes: Hypervisor) -> list[str]:
    reported, options = Hypervisors(nodes), RollOptions(limits=RoundLimits(at_once=1))
    roll = plan_roll(CLUSTER, names or NAMES, options, hypervisors=reported)
    return list(hypervisors.notes(roll, CLUSTER, reported))


def test_no_trouble_and_nothing_reported() -> None:
    assert notes() == []
    assert notes(node1=OLD._replace(running=NEW.running), node2=NEW._replace(running={})) != []
    assert notes(node1=NEW, node2=NEW._replace(running=OLD.running)) == []


def test_an_older_qemu() -> None:
    fails = (
        "QEMU 7.2.22 on node2 does not have the machine type pc-i440fx-10.0: the migration fails"
    )
    assert notes("node1", node1=NEW, node2=OLD) == [
        f"round 1: web1, web2 from node1 to node2: {fails}"
    ]
    assert notes(node1=NEW, node2=OLD) == [
        f"round 2: web1, web2 from node1 to node2: {fails}; the work on node2 in round 1 may "
        "change that"
    ]


def test_a_smaller_cpu() -> None:
    lacking = NEW._replace(flags=("fpu",))
    assert notes("node2", node1=lacking, node2=OLD) == [
        "round 1: db from node2 to node1: the CPU of node1 lacks avx, which that of node2 has, "
        "and cpu_type is host: it may crash"
    ]


def test_what_is_not_known_is_one_note() -> None:
    unknown = "it is not known whether QEMU and the CPU of the target are right"
    assert notes(node1=NEW) == [
        f"of 3 migrations {unknown}; nothing is reported by node2",
    ]
    without = OLD._replace(running={})
    assert notes("node2", node1=NEW, node2=without) == [f"of 1 migration {unknown}"]


def test_what_the_daemon_serves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def served(address: str, port: int) -> dict[str, Any]:
        return {"node1": {"qemu": "7.2.22"}, "node2": {"qemu": "newest"}}

    def silent(address: str, port: int) -> dict[str, Any]:
        raise StewardError("the maintenance daemon does not answer")

    monkeypatch.setattr(hypervisors, "fetch_hypervisors", served)
    # This machine is not a node of a cluster.
    assert hypervisors.reported_now() is NOT_REPORTED
    monkeypatch.setattr(hypervisors, "master_name", lambda _: "node1")
    monkeypatch.setattr(hypervisors, "daemon_address", lambda *_: "127.0.0.1")
    assert hypervisors.reported_now().nodes == {"node1": Hypervisor("7.2.22")}
    monkeypatch.setattr(hypervisors, "fetch_hypervisors", silent)
    assert hypervisors.reported_now() is NOT_REPORTED
    assert "are right: the maintenance daemon does not answer" in capsys.readouterr().err
