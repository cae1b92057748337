"""LVM, judged on reports of lvm 2.03.16, some of them of volume groups on real devices."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from asserting import some
from collected import RECORDED, collect, faults, fine, recorded, survives, unknown
from json_damage import damaged, shuffled

from ganeti_steward.core.model.finding import Finding, NotApplicable, Unknown
from ganeti_steward.diagnose.collectors.lvm import COMMAND
from ganeti_steward.diagnose.run.local_machine import LocalMachine
from ganeti_steward.diagnose.testing import RecordedMachine

LINE = " ".join(COMMAND)
MISSING = {"faults": ["physical volume missing"], "physical_volumes": ["[unknown]"]}


def report(case: str) -> Any:
    return json.loads((RECORDED / "lvm" / case / "fullreport.json").read_text())


def answering(tmp_path: Path, document: Any, **ended: Any) -> RecordedMachine:
    return RecordedMachine(tmp_path, commands={LINE: {"output": json.dumps(document)} | ended})


def test_healthy() -> None:
    """A physical volume without a group is not checked."""
    results = collect("lvm", recorded("lvm", "healthy"))
    assert results == [
        Finding("lvm:emptyvg", "Ok"),
        Finding("lvm:sysvg", "Ok"),
        Finding("lvm:xenvg", "Ok"),
    ]


def test_a_physical_volume_is_missing() -> None:
    results = collect("lvm", recorded("lvm", "broken"), repair="rebuild-vg")
    assert results == [
        Finding("lvm:sysvg", "Ok"),
        Finding("lvm:xenvg", "live-repair", "rebuild-vg", MISSING),
    ]


def test_the_finding_stays_while_instances_are_moved_away(tmp_path: Path) -> None:
    document = report("broken")
    expected = collect("lvm", answering(tmp_path, document))
    group = next(one for one in document["report"] if one["vg"][0]["vg_name"] == "xenvg")
    while group["lv"]:
        group["lv"].pop()
        assert collect("lvm", answering(tmp_path, document)) == expected


def test_incomplete_logical_volumes_may_be_worse() -> None:
    results = collect("lvm", recorded("lvm", "broken"), partial_status="evacuate")
    assert {one.status for one in results if isinstance(one, Finding)} == {
        "Ok",
        "live-repair",
        "evacuate",
    }
    assert faults(results) == {
        "lvm:xenvg": ["logical volume incomplete", "physical volume missing"]
    }


def test_a_required_group_is_missing() -> None:
    results = collect("lvm", recorded("lvm", "healthy"), required=["xenvg", "othervg"])
    assert faults(results) == {"lvm:othervg": ["volume group missing"]}
    results = collect("lvm", recorded("lvm", "none"), required=["xenvg"])
    assert faults(results) == {"lvm:xenvg": ["volume group missing"]}


def test_groups_of_instances() -> None:
    """LVM finds them where no filter keeps it from looking into the instances' disks."""
    machine = recorded("lvm", "instances")
    assert faults(collect("lvm", machine)) == {"lvm:db-vg": ["physical volume missing"]}
    assert collect("lvm", machine, ignore=["db-*"]) == [Finding("lvm:xenvg", "Ok")]
    assert collect("lvm", machine, ignore=["*"]) == [
        NotApplicable("lvm", "there is no volume group")
    ]
    # What has to be there cannot be ignored.
    results = collect("lvm", machine, ignore=["*"], required=["xenvg"])
    assert results == [Finding("lvm:xenvg", "Ok")]


def spaces(machine: RecordedMachine) -> Any:
    """What a run keeps for its report."""
    return json.loads(machine.recalled("volume-groups") or b"null")


def test_the_room_of_the_groups(tmp_path: Path) -> None:
    machine = recorded("lvm", "healthy")
    collect("lvm", machine)
    assert spaces(machine) == {
        "sysvg": [30716, 12284],
        "xenvg": [953860, 412036],
        "emptyvg": [476936, 476936],
    }
    machine = recorded("lvm", "instances")
    collect("lvm", machine)
    assert spaces(machine) == {"db-vg": [40952, 0], "xenvg": [953860, 412036]}
    # Those of instances are not the node's, also where one of that name has to be there.
    collect("lvm", machine, ignore=["db-*"], required=["db-vg"])
    assert spaces(machine) == {"xenvg": [953860, 412036]}
    machine = recorded("lvm", "none")
    collect("lvm", machine)
    assert spaces(machine) == {}
    nothing = RecordedMachine(tmp_path)
    collect("lvm", nothing)
    assert spaces(nothing) is None


@pytest.mark.parametrize("key", ["vg_size", "vg_free"])
@pytest.mark.parametrize("value", [None, "", "1g", "1,5", "-4.00", "9" * 13, 7, []])
def test_room_that_cannot_be_read_changes_no_finding(
    tmp_path: Path, key: str, value: object
) -> None:
    document = report("healthy")
    document["report"][1]["vg"][0][key] = value
    machine = answering(tmp_path, document)
    assert collect("lvm", machine) == collect("lvm", recorded("lvm", "healthy"))
    assert spaces(machine) is None


def test_room_of_too_many_groups_is_unknown(tmp_path: Path) -> None:
    """They are those of instances; what is ignored is not counted."""
    document = report("healthy")
    for number in range(256):
        one = json.loads(json.dumps(document["report"][2]))
        one["vg"][0]["vg_name"] = f"inner{number}"
        document["report"].append(one)
    machine = answering(tmp_path, document)
    assert len(fine(collect("lvm", machine))) == 259
    assert spaces(machine) is None
    collect("lvm", machine, ignore=["inner*"])
    assert len(spaces(machine)) == 3


def test_two_groups_of_one_name(tmp_path: Path) -> None:
    document = report("broken")
    document["report"][0]["vg"][0]["vg_name"] = "xenvg"
    results = collect("lvm", answering(tmp_path, document))
    assert faults(results) == {"lvm:xenvg": ["physical volume missing"]}
    assert not fine(results)
    machine = answering(tmp_path, document)
    collect("lvm", machine)
    assert spaces(machine) == {}


def test_nothing_there(tmp_path: Path) -> None:
    assert collect("lvm", RecordedMachine(tmp_path)) == [
        NotApplicable("lvm", "lvm is not installed")
    ]
    none = [NotApplicable("lvm", "there is no volume group")]
    assert collect("lvm", recorded("lvm", "none")) == none
    # The error of LVM when a filter leaves no device.
    assert collect("lvm", answering(tmp_path, {"report": [{"vg": []}]})) == none


@pytest.mark.parametrize(
    "ended",
    [
        {"status": 5},
        {"status": -9},
        {"status": 0, "fault": "killed after 60 s"},
        {"output": ""},
        {"output": "  {"},
        {"output": "[" * 100000},
        {"output": '"xenvg"'},
        {"output": '{"log": []}'},
    ],
    ids=lambda ended: str(ended)[:40],
)
def test_a_failing_program_is_not_fine(tmp_path: Path, ended: dict[str, Any]) -> None:
    (result,) = collect("lvm", answering(tmp_path, report("healthy"), **ended), required=["xenvg"])
    assert isinstance(result, Unknown)
    assert result.source == "lvm"


#: What is read of a report; without it, or with nonsense in it, it is unknown.
ESSENTIAL = {"report", "vg", "pv", "lv", "vg_name", "vg_missing_pv_count", "pv_missing"}
ESSENTIAL |= {"lv_health_status"}


def test_every_damage_to_a_healthy_report(tmp_path: Path) -> None:
    document = report("healthy")
    for path, changed in some(damaged(document)):
        results = collect("lvm", answering(tmp_path, changed))
        assert not faults(results), path
        last, orphan = path[-1], path[:2] == ("report", 3)
        if last in ESSENTIAL and not orphan:
            assert unknown(results), (path, results)
            # The group itself is not fine, nor are all when it is not known which it is.
            assert len(fine(results)) <= 2, (path, results)


def test_every_damage_to_a_broken_report(tmp_path: Path) -> None:
    for path, changed in some(damaged(report("broken"))):
        results = collect("lvm", answering(tmp_path, changed))
        if path in (("report",), ("report", 1)):
            # The group itself is no longer reported.
            continue
        assert faults(results) or unknown(results), path
        assert "lvm:xenvg" not in fine(results), path


def test_damage() -> None:
    survives("lvm", "healthy")
    survives("lvm", "broken")


def test_order_means_nothing(tmp_path: Path) -> None:
    document = report("broken")
    expected = collect("lvm", answering(tmp_path, document))
    for seed in range(50):
        changed = shuffled(document, Random(seed), lists=True)
        assert collect("lvm", answering(tmp_path, changed)) == expected


@pytest.mark.skipif(shutil.which("lvm") is None, reason="lvm is not installed")
@pytest.mark.skipif(os.geteuid() != 0, reason="lvm wants root")
def test_the_real_program_takes_the_question() -> None:
    results = collect("lvm", LocalMachine(time.monotonic() + 300))
    assert not unknown(results)


def active(group: str) -> dict[str, str]:
    """What the kernel has of a logical volume."""
    directory = "/sys/block/dm-3/dm"
    return {
        f"{directory}/uuid": "LVM-Yx1nPq7Gf2\n",
        f"{directory}/name": f"{group.replace('-', '--')}-disk0\n",
    }


def test_the_only_disk_of_a_group_is_gone() -> None:
    """LVM does not list the group any more; its logical volumes are still active."""
    machine = recorded("lvm", "none", files=active("xen-vg"))
    assert faults(collect("lvm", machine)) == {"lvm:xen-vg": ["volume group missing"]}
    assert collect("lvm", machine, ignore=["xen-*"]) == [
        NotApplicable("lvm", "there is no volume group")
    ]
    # The same after a restart: it may as well have been taken out on purpose.
    machine = recorded("lvm", "none", files={"/etc/lvm/backup/xen-vg": ""})
    (result,) = collect("lvm", machine)
    assert isinstance(result, Unknown)
    assert result.source == "lvm:xen-vg"
    results = collect("lvm", machine, required=["xen-vg"])
    assert faults(results) == {"lvm:xen-vg": ["volume group missing"]}
    healthy = recorded("lvm", "healthy", files=active("xenvg") | {"/etc/lvm/backup/xenvg": ""})
    assert collect("lvm", healthy) == collect("lvm", recorded("lvm", "healthy"))


def test_no_lvm_where_volume_groups_are(tmp_path: Path) -> None:
    missing = [Unknown("lvm", "lvm is not installed, but there are volume groups")]
    signed = {
        "/sys/class/block/sda3/dev": "8:3\n",
        "/run/udev/data/b8:3": "E:ID_FS_TYPE=LVM2_member\n",
    }
    assert collect("lvm", RecordedMachine(tmp_path, files=active("xenvg"))) == missing
    assert collect("lvm", RecordedMachine(tmp_path, files=signed)) == missing
    assert collect("lvm", RecordedMachine(tmp_path), required=["xenvg"]) == missing
    # A disk of an instance, with the instance's own volume group on it.
    inside = {path.replace("sda3", "drbd3"): text for path, text in signed.items()}
    assert collect("lvm", RecordedMachine(tmp_path, files=inside)) == [
        NotApplicable("lvm", "lvm is not installed")
    ]
