"""QEMU, the CPU and running instances of a node, as Debian's QEMU 7.2.22 showed them."""

from __future__ import annotations

import json
import time
from typing import Any, Final

import pytest
from collected import RECORDED, collect, recorded

from ganeti_steward.diagnose.collectors.shared.hypervisor import hypervisor
from ganeti_steward.diagnose.run.local_machine import LocalMachine
from ganeti_steward.diagnose.testing import RecordedMachine

PIDS: Final = "/var/run/ganeti/kvm-hypervisor/pid"
MADE: Final = json.loads((RECORDED / "hypervisor" / "machine.json").read_text())
NOTHING: Final = dict.fromkeys(("qemu", "machines", "cpu", "flags", "running"))


def found(files: dict[str, Any] | None = None, **changed: Any) -> dict[str, Any]:
    """``files``: those that differ; None: it is not there."""
    if files:
        changed["files"] = {
            path: text for path, text in (MADE["files"] | files).items() if text is not None
        }
    return hypervisor(RecordedMachine(RECORDED / "hypervisor", **changed))


def pid(name: str) -> str:
    return str(MADE["files"][f"{PIDS}/{name}"]).strip()


def test_all_that_is_known() -> None:
    seen = found()
    assert (seen["qemu"], seen["cpu"]) == ("7.2.22", "Intel(R) Xeon(R) Processor")
    assert len(seen["machines"]) == 61
    aliases = {name: of for name, of in seen["machines"].items() if of}
    assert aliases == {"pc": "pc-i440fx-7.2", "q35": "pc-q35-7.2"}
    assert {"pc-i440fx-7.2", "pc-i440fx-1.4", "x-remote"} <= seen["machines"].keys()
    assert {"avx512f", "fpu", "lm"} <= set(seen["flags"])
    assert seen["flags"] == sorted(set(seen["flags"]))
    assert seen["running"] == {
        "db.example.org": {"machine": "pc-i440fx-2.8", "host_cpu": False},
        "web1.example.org": {"machine": "pc-i440fx-7.2", "host_cpu": True},
        "web2.example.org": {"machine": "pc", "host_cpu": False},
    }


@pytest.mark.parametrize(
    ("files", "left"),
    [
        (
            {f"/proc/{pid('db.example.org')}/cmdline": None},
            {"web1.example.org", "web2.example.org"},
        ),
        # It has ended, and its number is another program's, or another instance's.
        ({f"/proc/{pid('db.example.org')}/cmdline": ""}, {"web1.example.org", "web2.example.org"}),
        (
            {f"{PIDS}/db.example.org": pid("web1.example.org")},
            {"web1.example.org", "web2.example.org"},
        ),
        # A program of the site: what /usr/bin/kvm knows is not what that knows.
        (
            {
                f"/proc/{pid('db.example.org')}/cmdline": MADE["files"][
                    f"/proc/{pid('db.example.org')}/cmdline"
                ].replace("/usr/bin/kvm", "/opt/qemu/bin/kvm")
            },
            {"web1.example.org", "web2.example.org"},
        ),
    ],
)
def test_what_does_not_run(files: dict[str, Any], left: set[str]) -> None:
    assert found(files)["running"].keys() == left


def test_a_node_without_instances() -> None:
    gone = {path: None for path in MADE["files"] if path.startswith((PIDS, "/proc/7"))}
    assert found(gone)["running"] == {}


@pytest.mark.parametrize(
    ("changed", "unknown"),
    [
        ({"commands": {}}, {"qemu", "machines"}),
        (
            {"commands": MADE["commands"] | {"kvm --version": {"status": 127, "output": ""}}},
            {"qemu", "machines"},
        ),
        ({"refused": {"/proc/cpuinfo": "EIO"}}, {"cpu", "flags"}),
        ({"files": {"/proc/cpuinfo": ""}}, {"cpu", "flags"}),
        ({"refused": {PIDS: "EIO"}}, {"running"}),
        ({"files": {f"{PIDS}/db.example.org": "soon"}}, {"running"}),
    ],
)
def test_what_cannot_be_read_is_not_known(changed: dict[str, Any], unknown: set[str]) -> None:
    seen = found(**changed)
    assert {name for name, one in seen.items() if one is None} == unknown


def test_the_collector_keeps_it_for_the_report() -> None:
    machine = recorded("ganeti", "healthy")
    collect("ganeti", machine)
    assert json.loads(machine.kept["hypervisor"]) == NOTHING | {"running": {}}
    machine.recorded["files"] |= MADE["files"]
    machine.recorded["commands"] |= MADE["commands"]
    collect("ganeti", machine)
    assert json.loads(machine.kept["hypervisor"]) == found()
    # A node on which no instances of KVM are started.
    machine = recorded("ganeti", "healthy-node")
    collect("ganeti", machine)
    assert "hypervisor" not in machine.kept


def test_of_this_machine() -> None:
    """Whether or not it has QEMU."""
    seen = hypervisor(LocalMachine(time.monotonic() + 20))
    assert seen.keys() == NOTHING.keys()
    assert (seen["qemu"] is None) == (seen["machines"] is None)
