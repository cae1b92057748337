"""ZFS pools, as OpenZFS 2.1 and 2.3 print them."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from asserting import some
from collected import RECORDED, collect, faults, fine, recorded, survives, unknown

from ganeti_steward.core.model.finding import Finding, NotApplicable, Unknown
from ganeti_steward.diagnose.testing import RecordedMachine

CASES = tuple(sorted(one.name for one in (RECORDED / "zfs").iterdir() if one.is_dir()))
STATUS = "zpool status -pP"
DISK = "/dev/disk/by-id/ata-ST8000NM0055-1RM112_ZA1{}-part1"
KSTAT = "/proc/spl/kstat/zfs/{}/state"
UPTIME = "/proc/uptime"


def text_of(case: str) -> str:
    return (RECORDED / "zfs" / case / "status.txt").read_text()


def printing(case: str, text: str, **ended: Any) -> RecordedMachine:
    return recorded("zfs", case, commands={STATUS: {"output": text, **ended}})


@pytest.mark.parametrize(
    ("case", "pools"),
    [("healthy", ["zfs:tank", "zfs:vm.pool"]), ("healthy23", ["zfs:tank"])],
)
def test_healthy(case: str, pools: list[str]) -> None:
    """With a scrub, spares, cache and log, features that are not enabled, and few errors."""
    assert collect("zfs", recorded("zfs", case)) == [Finding(one, "Ok") for one in pools]


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (
            "broken",
            {
                "zfs:tank": [
                    "degraded",
                    f"more than 10 checksum errors: {DISK.format('C')}",
                    f"removed: {DISK.format('S')}",
                    f"unavailable: {DISK.format('B')}",
                ],
                "zfs:vm.pool": ["data errors", "more than 10 checksum errors: /dev/nvme1n1p1"],
            },
        ),
        ("resilvering21", {"zfs:tank": ["degraded", f"removed: {DISK.format('B')}"]}),
        (
            "rebuilding23",
            {
                "zfs:tank": [
                    "degraded",
                    "spare in use: draid1-0-0",
                    f"unavailable: {DISK.format('B')}",
                ]
            },
        ),
        (
            "spare23",
            {
                "zfs:tank": [
                    "degraded",
                    f"faulted: {DISK.format('B')}",
                    f"more than 10 write errors: {DISK.format('B')}",
                    f"offline: {DISK.format('D')}",
                    f"spare in use: {DISK.format('S')}",
                ]
            },
        ),
        (
            "suspended",
            {
                "zfs:tank": [
                    "data errors",
                    f"faulted: {DISK.format('A')}",
                    f"removed: {DISK.format('B')}",
                    "suspended",
                ]
            },
        ),
    ],
)
def test_broken(case: str, expected: dict[str, list[str]]) -> None:
    results = collect("zfs", recorded("zfs", case), repair="replace")
    assert faults(results) == expected
    assert not unknown(results)
    assert {one.command for one in results if isinstance(one, Finding)} == {"replace"}


def test_a_status_for_each_kind() -> None:
    def changed(case: str, **settings: str) -> dict[str, list[str]]:
        return faults(collect("zfs", recorded("zfs", case), **settings))

    # A pool that is being resilvered is one kind as a whole.
    assert changed("resilvering21", recovering_status="Ok") == {}
    assert changed("rebuilding23", recovering_status="Ok", spare_status="Ok") == {}
    assert changed("spare23", recovering_status="Ok", spare_status="Ok", errors_status="Ok") == {}
    assert len(changed("broken", recovering_status="Ok")["zfs:tank"]) == 4
    assert changed("broken", degraded_status="Ok", errors_status="Ok") == {
        "zfs:vm.pool": ["data errors"]
    }
    assert "zfs:vm.pool" not in changed("broken", data_errors_status="Ok", errors_above=12)
    assert changed("suspended", suspended_status="Ok")["zfs:tank"][0] == "data errors"
    assert changed("broken", ignore=["t*", "vm.pool"]) == {}


@pytest.mark.parametrize("state", ["FAULTED", "UNAVAIL"])
def test_a_pool_that_serves_nothing(state: str) -> None:
    """It has no line about errors."""
    text = text_of("healthy23").replace("ONLINE", state, 1).partition("\nerrors")[0]
    results = collect("zfs", printing("healthy23", text))
    word = {"FAULTED": "faulted", "UNAVAIL": "unavailable"}[state]
    assert faults(results) == {"zfs:tank": [word]}
    assert not unknown(results)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("SUSPENDED", {"zfs:tank": ["suspended"]}),
        ("DEGRADED", {"zfs:tank": ["degraded"]}),
        ("FAULTED", {"zfs:tank": ["faulted"]}),
        ("ONLINE", {}),
        ("SUNNY", {}),
    ],
)
@pytest.mark.parametrize(
    "ended", [{"fault": "killed after 60 s"}, {"status": 1}, {"status": -9}], ids=str
)
def test_where_zpool_hangs_the_kernel_knows(
    state: str, expected: dict[str, list[str]], ended: dict[str, Any]
) -> None:
    machine = printing("healthy23", "", **ended)
    machine.recorded["files"][KSTAT.format("tank")] = f"{state}\n"
    results = collect("zfs", machine)
    assert faults(results) == expected
    assert set(unknown(results)) == {"zfs:tank"}


def test_nothing_there(tmp_path: Path) -> None:
    """Without the module zpool is not run: it would load it; without a pool it has no use."""
    none = [NotApplicable("zfs", "there is no ZFS pool")]
    for files in ({}, {"/sys/module/zfs/version": "2", "/proc/spl/kstat/zfs/arcstats": "1"}):
        machine = RecordedMachine(tmp_path, files=files, commands={STATUS: {"output": ""}})
        assert collect("zfs", machine) == none
        assert STATUS not in machine.requests
        results = collect("zfs", machine, required=["tank"])
        assert faults(results) == {"zfs:tank": ["pool missing"]}


def test_required_pools() -> None:
    results = collect("zfs", recorded("zfs", "healthy23"), required=["tank", "big"], ignore=["*"])
    assert faults(results) == {"zfs:big": ["pool missing"]}
    assert fine(results) == ["zfs:tank"]


def test_without_the_program() -> None:
    machine = recorded("zfs", "healthy23", commands={})
    (result,) = collect("zfs", machine)
    assert result == Unknown("zfs:tank", "zpool cannot be run: No such file or directory")


@pytest.mark.parametrize(
    ("pattern", "new"),
    [
        ("state: ONLINE", "state: SUNNY"),
        ("state: .*\n", ""),
        ("(?s)config:.*?\n\n\t", "\t"),
        ("(?s)config:.*?errors", "errors"),
        ("raidz2-0 .*\n", "raidz2-0\n"),
        ("errors: .*\n", ""),
        ("No known data errors", "List of errors unavailable: permission denied"),
        ("  pool: tank", "  pool: other"),
    ],
)
def test_what_is_not_understood_is_unknown(pattern: str, new: str) -> None:
    text, count = re.subn(pattern, new, text_of("healthy23"), count=1)
    assert count == 1
    results = collect("zfs", printing("healthy23", text))
    assert "zfs:tank" in unknown(results)
    assert "zfs:tank" not in fine(results)


@pytest.mark.parametrize("case", CASES)
def test_damage(case: str) -> None:
    survives("zfs", case)


def test_every_line_that_is_lost_is_noticed_or_harmless() -> None:
    """A pool is never called broken because of a line that is missing."""
    lines = text_of("healthy").splitlines(keepends=True)
    for at in some(range(len(lines))):
        text = "".join(lines[:at] + lines[at + 1 :])
        assert faults(collect("zfs", printing("healthy", text))) == {}, lines[at]


def test_a_kernel_file_that_cannot_be_read() -> None:
    machine = recorded("zfs", "healthy23", refused={KSTAT.format("tank"): "EIO"})
    assert fine(collect("zfs", machine)) == ["zfs:tank"]
    machine = recorded("zfs", "healthy23", refused={"/proc/spl/kstat/zfs": "EIO"})
    assert set(unknown(collect("zfs", machine))) == {"zfs"}
    machine = recorded("zfs", "resilvering21", refused={UPTIME: "EIO"})
    results = collect("zfs", machine)
    assert set(unknown(results)) == {"zfs:tank"}
    assert faults(results)["zfs:tank"][0] == "degraded"


class Node:
    """A node whose pool is resilvered, looked at again and again."""

    def __init__(self, case: str) -> None:
        self.case, self.uptime, self.kept = case, 1000.0, dict[str, bytes]()

    def look(self, done: str, *, rate: str = "310M", seconds: float = 300) -> list[str]:
        """The faults beside those of the device that is replaced; ``done``: percent."""
        self.uptime += seconds
        text = re.sub(r"[0-9.]+% done", f"{done}% done", text_of(self.case))
        machine = printing(self.case, re.sub("(?<=at )[0-9]+M", rate, text))
        machine.recorded["files"][UPTIME] = f"{self.uptime:.2f} 1.00\n"
        machine.kept = self.kept
        results = collect("zfs", machine, recovering_status="Ok", spare_status="Ok")
        assert not unknown(results)
        return faults(results).get("zfs:tank", [])


@pytest.mark.parametrize("case", ["resilvering21", "rebuilding23"])
def test_resilvering_that_stalls(case: str) -> None:
    node, rates = Node(case), Random(3)
    found = [node.look("26.04", rate=f"{rates.randrange(900)}M") for _ in range(20)]
    assert found == [[]] * 12 + [["resilvering stalled"]] * 8
    assert node.look("26.05") == []


def test_a_run_in_which_zpool_hangs_changes_nothing() -> None:
    node = Node("resilvering21")
    found = [node.look("26.04") for _ in range(14)]
    machine = printing("resilvering21", "", fault="killed after 60 s")
    machine.recorded["files"][UPTIME] = "6000.00 1.00\n"
    machine.kept = node.kept
    assert set(unknown(collect("zfs", machine))) == {"zfs:tank"}
    assert node.look("26.04") == found[-1] == ["resilvering stalled"]


@pytest.mark.parametrize("case", ["resilvering21", "rebuilding23"])
@pytest.mark.parametrize("seed", range(50))
def test_noisy_pools_are_healthy(case: str, seed: int) -> None:
    """Progress at random, runs that are late, errors below the limit."""
    chance, node = Random(seed), Node(case)
    done, same = 0.0, 0.0
    for _ in range(60):
        seconds = chance.choice((60.0, 300.0, 900.0))
        same += seconds
        if same > 3000 or chance.random() < 0.4:
            done, same = (done + 0.01 + chance.random()) % 100, 0.0
        assert node.look(f"{done:.2f}", seconds=seconds) == []
        few = re.sub("    3(?=\n)", f"{chance.randrange(11):5}", text_of("healthy"))
        assert fine(collect("zfs", printing("healthy", few))) == ["zfs:tank", "zfs:vm.pool"]
