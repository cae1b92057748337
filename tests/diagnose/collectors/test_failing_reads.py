"""Files that cannot be read: what they would have shown is unknown, neither fine nor not there."""

from __future__ import annotations

from typing import Any

import pytest
from collected import RECORDED, collect, faults, fine, recorded, survives, unknown

from ganeti_steward.core.builtins import COLLECTORS

MEMBER = {
    "/sys/class/block/sda3/dev": "8:3\n",
    "/run/udev/data/b8:3": "E:ID_FS_TYPE=LVM2_member\n",
}
ACTIVE = {"/sys/block/dm-3/dm/uuid": "LVM-Yx1n\n", "/sys/block/dm-3/dm/name": "xenvg-disk0\n"}
COUNTED = {
    "/proc/sys/kernel/random/boot_id": "b1\n",
    "/proc/uptime": "5000.00 1.00\n",
    "/sys/class/net/eno3/carrier_changes": "4\n",
}


@pytest.mark.parametrize(
    ("name", "case", "files", "refused", "expected"),
    [
        ("lvm", "none", MEMBER, "/run/udev/data/b8:3", {"lvm"}),
        ("lvm", "none", ACTIVE, "/sys/block/dm-3/dm/uuid", {"lvm"}),
        ("lvm", "none", {}, "/etc/lvm/backup", {"lvm"}),
        ("edac", "healthy", COUNTED, "/proc/uptime", {"edac:mc0", "edac:mc1"}),
        ("edac", "healthy", COUNTED, "/proc/sys/kernel/random/boot_id", {"edac:mc0", "edac:mc1"}),
        ("network", "healthy", COUNTED, "/proc/uptime", {"network:eno3"}),
    ],
)
def test_what_cannot_be_read_is_unknown(
    name: str, case: str, files: dict[str, str], refused: str, expected: set[str]
) -> None:
    machine = recorded(name, case, files=files, refused={refused: "EIO"})
    if name == "lvm" and files is MEMBER:
        machine.recorded["commands"] = {}
    results = collect(name, machine)
    assert set(unknown(results)) == expected
    assert not faults(results)
    assert not set(fine(results)) & expected
    # What is gone meanwhile is no failure.
    machine.recorded["refused"] = {}
    if name == "lvm":
        machine.recorded["files"].pop(refused, None)
    assert not unknown(collect(name, machine))


COUNTERS = {
    "edac": ("/sys/devices/system/edac/mc/mc0/ce_count", "edac:mc0"),
    "sensors": ("/sys/class/hwmon/hwmon0/temp1_input", "sensors:"),
}


@pytest.mark.parametrize("number", ["18446744073709551616", "9" * 400, "9" * 5000, "1e999", "nan"])
@pytest.mark.parametrize("name", COUNTERS)
def test_a_number_that_no_counter_has(name: str, number: str) -> None:
    path, source = COUNTERS[name]
    machine = recorded(name, "healthy")
    assert path in machine.recorded["files"]
    results = collect(name, recorded(name, "healthy", files={path: f"{number}\n"}))
    (reason,) = (why for what, why in unknown(results).items() if what.startswith(source))
    assert reason in (f"{path} holds no number", "a sensor cannot be read")
    assert not faults(results)


@pytest.mark.parametrize("name", COLLECTORS)
def test_no_damage_ends_a_collector(name: str) -> None:
    cases = sorted(path.parent.name for path in (RECORDED / name).glob("*/machine.json"))
    for beginning in ("healthy", "broken"):
        assert [case for case in cases if case.startswith(beginning)], (
            f"tests/data/diagnose/{name}: record a {beginning} machine"
        )
    for case in cases:
        survives(name, case)


@pytest.mark.parametrize(
    "samples", ["[[1" + "0" * 400 + ", {}]]", "[[5, {%s: -1" + "0" * 400 + "}]]", "[[1e999, {}]]"]
)
def test_a_number_that_no_earlier_run_kept(monkeypatch: pytest.MonkeyPatch, samples: str) -> None:
    """It is as if nothing was kept."""
    machine = recorded("edac", "healthy", files=COUNTED)
    names = ", ".join(f'"mc{mc} dimm{dimm}": -1{"0" * 400}' for mc in (0, 1) for dimm in range(8))
    kept = '{"boot": "b1", "samples": ' + samples.replace("%s: -1" + "0" * 400, names) + "}"
    expected = collect("edac", machine)
    monkeypatch.setattr(machine, "recalled", lambda name: kept.encode())
    assert collect("edac", machine) == expected


def test_what_an_earlier_run_kept_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that got worse is not fine because of a quiet year."""
    machine = recorded("edac", "healthy", files=COUNTED)

    def recalled(name: str) -> Any:
        raise OSError(5, "Input/output error", name)

    monkeypatch.setattr(machine, "recalled", recalled)
    assert set(unknown(collect("edac", machine))) == {"edac:mc0", "edac:mc1"}
