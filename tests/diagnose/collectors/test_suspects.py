"""The soft grade: what each collector finds suspect, over many runs of noisy machines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from asserting import some
from collected import RECORDED, collect, fine, recorded

from ganeti_steward.core.model.finding import SUSPECT, Finding
from ganeti_steward.diagnose.model.diagnosis import Several, diagnosis
from ganeti_steward.diagnose.model.hysteresis import RunCounts, RunState, update
from ganeti_steward.diagnose.testing import RecordedMachine

RUNS: Final = 50
#: By default a finding takes effect in the second run in which it is seen.
IN_EFFECT: Final = 2

#: A healthy and a broken machine in one run; the clock goes on half an hour from run to run.
Made = Callable[[Random, int, bool, Path], RecordedMachine]

MC: Final = "/sys/devices/system/edac/mc/mc0"
NET: Final = "/sys/class/net/eno3"
DAYS: Final = 365.0


def clock(run: int) -> dict[str, str]:
    days = DAYS + (run > 0) + run / 48
    return {
        "/proc/sys/kernel/random/boot_id": "b1\n",
        "/proc/uptime": f"{days * 86400:.2f} 1.00\n",
    }


def disk(number: int) -> Made:
    """A SATA disk: of most attributes a healthy disk has any count; of four it has none."""

    def made(chance: Random, run: int, broken: bool, path: Path) -> RecordedMachine:
        answer = json.loads((RECORDED / "smart" / "healthy" / "sda.json").read_text())
        counts = {1: chance.randrange(2**31), 7: chance.randrange(2**31), 9: 20000 + run}
        counts |= {188: chance.randrange(100), 194: 25 + chance.randrange(20), 5: 0, 187: 0}
        counts |= {197: 0, 198: 0, 10: chance.randrange(6), 199: chance.randrange(5000)}
        if broken:
            counts[number] = chance.randint(1, 9)
        for row in answer["ata_smart_attributes"]["table"]:
            if row["id"] in counts:
                row["raw"] = {"value": counts[row["id"]], "string": str(counts[row["id"]])}
        scan = {
            "smartctl": {"exit_status": 0},
            "devices": [{"name": "/dev/sda", "type": "sat"}],
        }
        options = "-j -n standby,3 -i -H -A -l error -l selftest -l ssd -d sat /dev/sda"
        ended = {"output": json.dumps(answer), "status": answer["smartctl"]["exit_status"]}
        programs = {
            "smartctl --scan-open -j": {"output": json.dumps(scan)},
            f"smartctl {options}": ended,
        }
        return RecordedMachine(path, files={"/sys/block/sda/size": "1\n"}, commands=programs)

    return made


def memory(chance: Random, run: int, broken: bool, _: Path) -> RecordedMachine:
    """A module with a few corrected errors now and then, or a burst on the first day."""
    healthy = 3 + run + chance.randrange(3) + 20 * (run > 0)
    errors = (300 if broken and run else 0) + healthy
    files = {
        **clock(run),
        f"{MC}/seconds_since_reset": f"{(DAYS + (run > 0) + run / 48) * 86400:.0f}\n",
        f"{MC}/dimm2/dimm_ce_count": f"{errors}\n",
        f"{MC}/ce_count": f"{errors}\n",
    }
    return recorded("edac", "healthy", files=files)


def link(chance: Random, run: int, broken: bool, _: Path) -> RecordedMachine:
    """A link that was lost once or twice, such as with its switch; or five times a day."""
    changes = 400 + (run > 0) * (8 if broken else 2) + (run // 48) * 2
    errors = 90000 + run * chance.randrange(15)
    files = {
        **clock(run),
        f"{NET}/carrier_changes": f"{changes}\n",
        f"{NET}/statistics/rx_crc_errors": f"{errors}\n",
    }
    refused = {"/sys/class/net/bonding_masters/flags": "ENOTDIR"}
    return recorded("network", "healthy", files=files, refused=refused)


def copy(chance: Random, run: int, broken: bool, path: Path) -> RecordedMachine:
    """Devices in any state that is no fault; one that synchronizes goes on, or stalls."""
    states = ("Connected", "WFConnection", "StandAlone", "PausedSyncS", "VerifyS")
    lines = ["version: 8.4.11 (api:1/proto:86-101)", "srcversion: FC3433D849E3B88C1E7B55C"]
    counters = (
        f"    ns:{run} nr:0 dw:0 dr:{chance.randrange(9)} al:0 bm:0 lo:0 pe:0 ua:0 ap:0 oos:4"
    )
    for number in range(4):
        state = chance.choice(states)
        lines += [f" {number}: cs:{state} ro:Primary/Secondary ds:UpToDate/UpToDate C r-----"]
        lines += [counters]
    percent = 99.0 if broken else chance.uniform(1, 99)
    end = " (stalled)" if broken else ""
    lines += [
        " 4: cs:SyncSource ro:Primary/Secondary ds:UpToDate/Inconsistent C r-----",
        counters,
        f"\t[===>................] sync'ed: {percent:.1f}% (4/1048576)K",
        f"\tfinish: 0:00:01 speed: {chance.randrange(1, 9000)} (9,328) K/sec{end}",
    ]
    files = {"/proc/drbd": "\n".join(lines) + "\n", "/proc/uptime": f"{1000 + 60 * run}.00 1.00\n"}
    return RecordedMachine(path, files=files, kernel_log=[])


def logs(chance: Random, run: int, broken: bool, path: Path) -> RecordedMachine:
    """A filesystem of its own for logs, that fills up and is emptied again, or stays full."""
    mounts = "28 1 253:0 / / rw - ext4 /dev/a rw\n29 28 253:1 / /var/log rw - ext4 /dev/b rw\n"
    free = chance.randint(0, 20) if broken else chance.randint(31 + run % 2, 900)
    space = {
        "/": {"size": 1000, "available": 500, "files": 1000, "files_free": 500},
        "/var/log": {"size": 1000, "available": free, "files": 1000, "files_free": 500},
    }
    return RecordedMachine(path, files={"/proc/self/mountinfo": mounts}, space=space)


#: Name -> collector, machine, and the fault of the broken one.
GRADES: Final[dict[str, tuple[str, Made, str]]] = {
    "5": ("smart", disk(5), "more than 0 reallocated sectors"),
    "187": ("smart", disk(187), "more than 0 reported errors"),
    "197": ("smart", disk(197), "more than 0 pending sectors"),
    "198": ("smart", disk(198), "more than 0 uncorrectable sectors"),
    "burst": (
        "edac",
        memory,
        "burst of corrected errors: dimm2 CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
    ),
    "link": ("network", link, "link flaps"),
    "stalled": ("drbd", copy, "synchronization stalled: minor 4"),
    "logs": ("filesystems", logs, "full: blocks"),
}


def observed(name: str, seed: int, path: Path, *, broken: bool) -> list[dict[str, Any] | None]:
    """The object of each run."""
    collector, made, _ = GRADES[name]
    chance, state, kept = Random(f"{name} {seed}"), RunState(), dict[str, bytes]()
    objects = []
    for run in range(RUNS):
        machine = made(chance, run, broken, path)
        machine.kept = kept
        found = collect(collector, machine)
        outcome = update(state, found, RunCounts(2, 2), [collector])
        state = outcome.state
        objects.append(diagnosis(found, outcome, Several()).object)
    return objects


@pytest.mark.parametrize("name", GRADES)
def test_noise_is_no_finding(name: str, tmp_path: Path) -> None:
    assert [
        one for one in observed(name, 1, tmp_path, broken=False) if one != {"status": "Ok"}
    ] == []


@pytest.mark.parametrize("name", GRADES)
def test_each_is_found_in_every_run_as_the_same_object(name: str, tmp_path: Path) -> None:
    seen = observed(name, 2, tmp_path, broken=True)[IN_EFFECT:]
    assert len({str(one) for one in seen}) == 1
    (found,) = {str(one): one for one in seen}.values()
    assert found is not None
    assert found["status"] == SUSPECT
    assert "command" not in found
    (one,) = found["details"]
    assert (one["status"], one["details"]) == (SUSPECT, {"faults": [GRADES[name][2]]})


@pytest.mark.parametrize("name", GRADES)
def test_ok_turns_it_off(name: str, tmp_path: Path) -> None:
    collector, made, _ = GRADES[name]
    key = {"drbd": "stalled_status", "filesystems": "logs_full_status"}
    kept: dict[str, bytes] = {}
    for run in some(range(3)):
        machine = made(Random(run), run, True, tmp_path)
        machine.kept = kept
        results = collect(collector, machine, **{key.get(collector, "suspect_status"): "Ok"})
        assert [one for one in results if isinstance(one, Finding) and one.status != "Ok"] == []
        assert fine(results)


def test_the_worse_grade_alone_is_reported(tmp_path: Path) -> None:
    """A disk with hundreds of bad sectors has some, too."""
    results = collect("smart", disk(5)(Random(1), 0, True, tmp_path), reallocated_above=0)
    assert [one.status for one in results if isinstance(one, Finding)] == ["live-repair"]
    off = disk(5)(Random(1), 0, True, tmp_path)
    assert fine(collect("smart", off, reallocated_status="Ok"))
