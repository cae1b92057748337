"""Software raid, judged on recorded trees of sysfs."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from collected import collect, faults, fine, recorded, survives, unknown

from ganeti_steward.core.errors import BadSettings
from ganeti_steward.core.model.finding import EVACUATE, Finding, NotApplicable, Unknown

MD0 = "/sys/block/md0/md"


def healthy_but(**files: str | None) -> Any:
    """The healthy machine with other texts in the files of md0; None takes one away."""
    changed = {f"{MD0}/{name}": text for name, text in files.items()}
    return recorded("md", "healthy", files=changed)


def test_healthy() -> None:
    """Resyncing, checking, read-auto and spares are no faults; containers are no arrays."""
    results = collect("md", recorded("md", "healthy"))
    assert fine(results) == [f"md:md{number}" for number in (0, 1, 126, 2, 3, 4, 5)]
    assert len(results) == 7


def test_broken() -> None:
    results = collect("md", recorded("md", "broken"))
    assert faults(results) == {
        "md:md0": ["1 of 2 members missing"],
        # It recovers, but is not whole yet.
        "md:md1": ["2 of 5 members missing"],
        "md:md2": ["broken"],
        "md:md3": ["failed member"],
        "md:md4": ["inactive"],
        # An older kernel, without a state of its own for that.
        "md:md5": ["broken"],
        # It grows from three members to four.
        "md:md6": ["1 of 4 members missing"],
    }
    assert {one.status for one in results if isinstance(one, Finding)} == {"live-repair"}
    assert len(results) == 7


def test_nothing_there() -> None:
    (result,) = collect("md", recorded("md", "none"))
    assert result == NotApplicable("md", "there is no md array")


def test_sysfs_is_not_there() -> None:
    (result,) = collect("md", recorded("md", "none", refused={"/sys/block": "EACCES"}))
    assert isinstance(result, Unknown)


def test_the_same_until_it_is_whole() -> None:
    """Failed, taken out, replaced and being filled: one and the same finding."""
    lost = {"degraded": "1\n", "dev-sdb1/state": "faulty\n"}
    steps = [
        lost,
        {"degraded": "1\n", "dev-sdb1/state": None},
        {"degraded": "1\n", "dev-sdb1/state": "spare\n", "sync_action": "recover\n"},
    ]
    found = {str(collect("md", healthy_but(**step))) for step in steps}
    assert len(found) == 1
    assert faults(collect("md", healthy_but(**lost))) == {"md:md0": ["1 of 2 members missing"]}


def test_a_status_for_each_kind() -> None:
    results = collect(
        "md",
        recorded("md", "broken"),
        degraded_status="evacuate",
        recovering_status="Ok",
        failed_member_status="Ok",
        inactive_status="evacuate-failover",
        broken_status="evacuate",
        repair="replace-disk",
    )
    status = {one.source: one.status for one in results if isinstance(one, Finding)}
    assert status == {
        "md:md0": "evacuate",
        "md:md1": "Ok",
        "md:md2": "evacuate",
        "md:md3": "Ok",
        "md:md4": "evacuate-failover",
        "md:md5": "evacuate",
        # Reshaping is no recovery.
        "md:md6": "evacuate",
    }
    assert {one.command for one in results if isinstance(one, Finding)} == {""}


def test_the_repair_command_belongs_to_live_repair() -> None:
    results = collect("md", recorded("md", "broken"), repair="replace-disk", broken_status=EVACUATE)
    commands = {one.source: one.command for one in results if isinstance(one, Finding)}
    assert commands["md:md0"] == "replace-disk"
    assert commands["md:md2"] == ""


@pytest.mark.parametrize(
    "files",
    [
        *(
            {name: text}
            for name in ("array_state", "level", "degraded", "metadata_version")
            for text in (None, "", "\n")
        ),
        {"dev-sdb1/state": "\n"},
        {"array_state": "suspended\n"},
        {"array_state": "\x00\n"},
        {"level": "raid7\n"},
        {"degraded": "some\n"},
        {"degraded": "3\n"},
        {"degraded": "1\n", "raid_disks": None},
        {"degraded": "1\n", "raid_disks": "two\n"},
        {"degraded": "1\n", "sync_action": None},
        {"degraded": "-1\n"},
        {"dev-sda1/state": None, "dev-sdb1/state": None},
    ],
    ids=str,
)
def test_missing_data_is_not_fine(files: dict[str, str | None]) -> None:
    results = collect("md", healthy_but(**files))
    assert "md:md0" in unknown(results)
    assert not faults(results)
    # The others are judged all the same.
    assert len(fine(results)) == 6


def test_damage() -> None:
    survives("md", "healthy")
    survives("md", "broken")


def test_the_order_of_files_means_nothing() -> None:
    machine = recorded("md", "broken")
    expected = collect("md", machine)
    for seed in range(20):
        files = list(machine.recorded["files"].items())
        Random(seed).shuffle(files)
        machine.recorded["files"] = dict(files)
        assert collect("md", machine) == expected


def test_bad_settings() -> None:
    with pytest.raises(BadSettings, match=r"collector\.md\.broken-status: one of Ok"):
        collect("md", recorded("md", "none"), broken_status="bad")


CONFIGURED = (
    "# arrays\nARRAY /dev/md/root metadata=1.2\n   UUID=3aaa0122:29827cfa:5331ad66:ca767371\n"
)
SIGNED = "E:ID_FS_TYPE=linux_raid_member\nE:ID_FS_UUID=3aaa0122-2982-7cfa-5331-ad66ca767371\n"


def member(name: str, number: str, holder: str = "") -> dict[str, str]:
    directory = f"/sys/class/block/{name}"
    held = {f"{directory}/holders/{holder}": ""} if holder else {}
    return {f"{directory}/dev": f"{number}\n", f"/run/udev/data/b{number}": SIGNED, **held}


def with_members(configured: str, *members: dict[str, str]) -> Any:
    """The machine without an array, with a configuration and members."""
    files = {"/etc/mdadm/mdadm.conf": configured} if configured else {}
    for one in members:
        files |= one
    return recorded("md", "none", files=files)


def test_an_array_that_was_never_assembled() -> None:
    free = member("sda1", "8:1"), member("sdb1", "8:17")
    machine = with_members(CONFIGURED, *free)
    assert faults(collect("md", machine)) == {"md:root": ["not assembled"]}
    assert collect("md", with_members("", *free)) == [
        Unknown(
            "md:3aaa012229827cfa5331ad66ca767371",
            "its members are there, but it is neither there nor configured",
        )
    ]
    assert set(unknown(collect("md", with_members(CONFIGURED)))) == {"md:root"}


@pytest.mark.parametrize(
    ("configured", "members"),
    [
        # One member was kicked out of an array that runs.
        (CONFIGURED, [member("sda1", "8:1", "md127"), member("sdb1", "8:17")]),
        (CONFIGURED.replace("/dev/md/root", "<ignore>"), [member("sda1", "8:1")]),
        # An instance's disk, with an array of the instance on it.
        ("", [member("dm-4", "253:4"), member("drbd0", "147:0")]),
    ],
)
def test_members_that_need_no_array(configured: str, members: list[dict[str, str]]) -> None:
    assert collect("md", with_members(configured, *members)) == [
        NotApplicable("md", "there is no md array")
    ]


def test_a_configuration_of_what_is_there() -> None:
    files = {"/etc/mdadm/mdadm.conf": CONFIGURED.replace("/dev/md/root", "/dev/md/0")}
    machine = recorded("md", "healthy", files=files)
    assert collect("md", machine) == collect("md", recorded("md", "healthy"))
    machine = recorded("md", "healthy", files={"/etc/mdadm/mdadm.conf": CONFIGURED})
    machine.recorded["links"] = {"/dev/md/root": "../md1"}
    assert collect("md", machine) == collect("md", recorded("md", "healthy"))
    machine.recorded["refused"] = {"/etc/mdadm/mdadm.conf": "EIO"}
    results = collect("md", machine)
    assert set(unknown(results)) == {"md"}
    assert len(fine(results)) == 7


def test_bad_blocks() -> None:
    machine = healthy_but(**{"dev-sda1/bad_blocks": "", "dev-sdb1/bad_blocks": "4096 8\n"})
    results = collect("md", machine)
    assert faults(results) == {"md:md0": ["bad blocks"]}
    more = healthy_but(**{"dev-sda1/bad_blocks": "2048 8\n", "dev-sdb1/bad_blocks": "4096 8\n"})
    assert collect("md", more) == results
    assert not faults(collect("md", healthy_but(**{"dev-sda1/bad_blocks": "\n"})))
    refused = recorded("md", "healthy", files={f"{MD0}/dev-sda1/bad_blocks": ""})
    refused.recorded["refused"] = {f"{MD0}/dev-sda1/bad_blocks": "EIO"}
    assert set(unknown(collect("md", refused))) == {"md:md0"}


def test_an_array_of_a_container_is_one_when_it_is_read_only() -> None:
    """The kernel writes external:-md127/0 then."""
    path = "/sys/block/md126/md/metadata_version"
    machine = recorded("md", "healthy", files={path: "external:-md127/0\n"})
    assert "md:md126" in fine(collect("md", machine))
