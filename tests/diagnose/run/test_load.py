"""How busy a node was: averages between totals of the kernel, and never a figure that is false."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from thorough import seeds

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.diagnose.run.load import WINDOW, load
from ganeti_steward.diagnose.run.local_machine import LocalMachine
from ganeti_steward.diagnose.run.report import boot_id
from ganeti_steward.diagnose.testing import RecordedMachine

BOOT = "0f2b8e0c-6a41-4b7c-8a3c-5d1f9e7b2c64"

#: As proc(5) and Documentation/admin-guide/iostats.rst have the fields.
STAT = """cpu  {user} 0 {system} {idle} {iowait} 0 {softirq} 0 {virtual} 0
cpu0 1 0 1 1 0 0 0 0 0 0
cpu1 1 0 1 1 0 0 0 0 0 0
intr 12 0 0
ctxt 1
"""
MEMINFO = "MemTotal:       1000 kB\nMemFree:         10 kB\nMemAvailable:    {free} kB\n"
DISKSTATS = """   7       0 loop0 1 0 1 1 0 0 0 0 0 999999 999999
   8       0 sda 9 9 9 9 9 9 9 9 0 {sda} 9 0 0 0 0
   8       1 sda1 9 9 9 9 9 9 9 9 0 777777 9 0 0 0 0
 259       0 nvme0n1 9 9 9 9 9 9 9 9 0 {nvme} 9 0 0 0 0
 253       0 dm-0 9 9 9 9 9 9 9 9 0 888888 9 0 0 0 0
"""
PRESSURE = """some avg10=1.00 avg60=2.00 avg300={avg} total={total}
full avg10=9.00 avg60=9.00 avg300=9.00 total=9
"""


class Node:
    """A node whose totals are advanced by hand."""

    def __init__(self, folder: Path) -> None:
        self.machine = RecordedMachine(folder)
        self.files: dict[str, str] = self.machine.recorded.setdefault("files", {})
        self.totals = {"user": 100, "system": 50, "idle": 800, "iowait": 40, "softirq": 10}
        self.disks, self.free, self.now, self.boot = {"sda": 5000, "nvme": 70}, 400, 1000.0, BOOT

    def passes(
        self, seconds: float, busy: float = 0.0, waiting: float = 0.0, **disks: float
    ) -> None:
        """Two CPUs of 100 ticks a second; shares of the time."""
        self.now += seconds
        ticks = round(200 * seconds)
        self.totals["user"] += round(ticks * busy)
        self.totals["iowait"] += round(ticks * waiting)
        self.totals["idle"] += ticks - round(ticks * busy) - round(ticks * waiting)
        for name, share in disks.items():
            self.disks[name] += round(1000 * seconds * share)

    @property
    def busy(self) -> int:
        return self.totals["user"] + self.totals["system"] + self.totals["softirq"]

    def reports(self) -> dict[str, Any]:
        # Time of virtual CPUs is part of the user's.
        self.files["/proc/stat"] = STAT.format(**self.totals, virtual=self.totals["user"] // 2)
        self.files["/proc/meminfo"] = MEMINFO.format(free=self.free)
        self.files["/proc/diskstats"] = DISKSTATS.format(**self.disks)
        return load(self.machine, self.boot, self.now)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


UNKNOWN = {"seconds": 0, "cpu": None, "memory": None, "disk": None}


def averages(found: dict[str, Any]) -> dict[str, Any]:
    return {key: found[key] for key in UNKNOWN}


def test_the_first_run_of_a_boot_knows_no_average(node: Node) -> None:
    assert averages(node.reports()) == UNKNOWN


def test_between_two_runs(node: Node) -> None:
    node.reports()
    node.free = 200
    node.passes(300, busy=0.25, waiting=0.5, sda=0.1, nvme=0.7)
    found = node.reports()
    # Waiting for disks is not being busy, and of the disks the busiest counts.
    expected = {"seconds": 300, "cpu": 0.25, "memory": 0.7, "disk": 0.7}
    assert averages(found) == expected
    assert found["cpus"] == 2


def test_an_average_covers_a_quarter_of_an_hour_at_most(node: Node) -> None:
    for busy in (1.0, *[0.0] * 20):
        node.reports()
        node.passes(60, busy=busy)
    found = node.reports()
    assert (found["seconds"], found["cpu"]) == (WINDOW, 0.0)
    kept = node.machine.kept["load"]
    assert kept.count(BOOT.encode()) == 1
    assert len(kept) < 2000


def test_runs_by_hand_are_not_kept_one_by_one(node: Node) -> None:
    for _ in range(200):
        node.reports()
        node.passes(1, busy=0.5)
    assert node.reports()["cpu"] == pytest.approx(0.5, abs=0.01)
    assert len(node.machine.kept["load"]) < 1500


def test_a_moment_is_no_average(node: Node) -> None:
    node.reports()
    node.passes(29, busy=1.0)
    assert averages(node.reports()) == UNKNOWN


def test_after_a_reboot_nothing_is_known(node: Node) -> None:
    node.reports()
    node.passes(300, busy=0.5)
    node.boot = "another"
    assert averages(node.reports()) == UNKNOWN
    node.passes(60, busy=0.5)
    assert node.reports()["cpu"] == 0.5


def test_without_the_id_of_the_boot_nothing_is_known(node: Node) -> None:
    node.boot = ""
    node.reports()
    node.passes(300, busy=0.5)
    assert averages(node.reports()) == UNKNOWN
    assert node.machine.kept == {}


def test_a_clock_that_went_back(node: Node) -> None:
    node.reports()
    node.now -= 500
    assert averages(node.reports()) == UNKNOWN
    node.passes(60, busy=0.5)
    assert (node.reports()["seconds"], node.reports()["cpu"]) == (60, 0.5)


def test_totals_that_went_back_are_unknown(node: Node) -> None:
    node.reports()
    node.passes(300, busy=0.5, sda=0.5)
    node.totals["user"] = 0
    node.disks["sda"] = 3
    found = node.reports()
    assert (found["cpu"], found["disk"], found["memory"]) == (None, None, 0.6)


def test_a_new_disk_and_one_that_is_gone(node: Node) -> None:
    node.reports()
    node.passes(300, sda=0.25)
    found = DISKSTATS.format(**node.disks).replace("nvme0n1", "nvme1n1")
    node.reports()
    node.passes(60)
    node.files["/proc/diskstats"] = found
    assert load(node.machine, BOOT, node.now)["disk"] == pytest.approx(0.25 * 300 / 360, abs=1e-3)


@pytest.mark.parametrize("path", ["/proc/stat", "/proc/meminfo", "/proc/diskstats"])
@pytest.mark.parametrize("content", ["", "cpu  1 x\n", "garbage\n", "\n\n", "cpu\nMemTotal:\n"])
def test_damaged_files_are_unknown(node: Node, path: str, content: str) -> None:
    node.reports()
    node.passes(300, busy=0.5, sda=0.5)
    node.reports()
    node.files[path] = content
    node.now += 60
    found = load(node.machine, BOOT, node.now)
    kind = {"/proc/stat": "cpu", "/proc/meminfo": "memory", "/proc/diskstats": "disk"}[path]
    others = {"cpu", "memory", "disk"} - {kind}
    # Of memory the readings before are known.
    assert found[kind] == (0.6 if kind == "memory" else None)
    assert all(found[one] is not None for one in others)


def test_kept_totals_that_are_damaged(node: Node) -> None:
    node.reports()
    node.machine.kept["load"] = b'{"boot": 1}'
    node.passes(300, busy=0.5)
    assert averages(node.reports()) == UNKNOWN


def test_what_cannot_be_kept(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, content: bytes) -> None:
        raise OSError("read-only")

    monkeypatch.setattr(node.machine, "remember", refuse)
    node.reports()
    node.passes(300, busy=0.5)
    assert averages(node.reports()) == UNKNOWN


def test_pressure(node: Node) -> None:
    assert node.reports()["pressure"] == {"cpu": None, "io": None, "memory": None}
    node.files["/proc/pressure/cpu"] = PRESSURE.format(avg="3.25", total=1234567)
    node.files["/proc/pressure/io"] = "full avg300=1.00 total=7\n"
    node.files["/proc/pressure/memory"] = PRESSURE.format(avg="x", total=1)
    found = node.reports()["pressure"]
    assert found == {"cpu": [3.25, 1234567], "io": None, "memory": None}


def test_the_section_is_small(node: Node) -> None:
    for name in ("cpu", "io", "memory"):
        file = f"/proc/pressure/{name}"
        node.files[file] = PRESSURE.format(avg="99.99", total=10**13)
    node.reports()
    node.passes(899, busy=0.12344, sda=0.98765)
    assert len(canonical(node.reports())) <= 200


@pytest.mark.parametrize("seed", seeds(20, 300))
def test_no_figure_is_false(seed: int, tmp_path: Path) -> None:
    """Whatever reboots and gaps there are, a share that is reported is that of its seconds."""
    rng, node = random.Random(seed), Node(tmp_path)
    past: list[tuple[float, int, int]] = []
    known = 0
    for number in range(60):
        if rng.random() < 0.05:
            node.boot, node.now = f"boot{number}", rng.uniform(1, 50)
            node.totals, past = dict.fromkeys(node.totals, 0), []
        past.append((node.now, node.busy, sum(node.totals.values())))
        found = node.reports()
        if found["cpu"] is not None:
            known += 1
            then = [one for one in past if abs(node.now - one[0] - found["seconds"]) <= 0.51]
            busy, every = past[-1][1], past[-1][2]
            assert any(
                found["cpu"] == pytest.approx((busy - one[1]) / (every - one[2]), abs=0.01)
                for one in then
            )
        node.passes(rng.choice([5, 60, 300, 2000]), busy=rng.random(), sda=rng.random())
    assert known > 5


def test_of_this_machine(tmp_path: Path) -> None:
    machine, boot = LocalMachine(0, str(tmp_path)), boot_id()
    tmp_path.chmod(0o700)
    first = load(machine, boot, 1000.0)
    assert averages(first) == UNKNOWN
    assert first["cpus"] >= 1
    second = load(machine, boot, 1000.0 + 60)
    assert second["seconds"] == 60
    assert 0 < second["memory"] < 1
