"""Whole runs: what is reported, what is stored, and what happens where nothing can be stored."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ganeti_steward.core.model.finding import NotApplicable, Unknown
from ganeti_steward.diagnose.run.files import Busy, locked
from ganeti_steward.diagnose.run.loading import this_machine
from ganeti_steward.diagnose.run.local_machine import LocalMachine
from ganeti_steward.diagnose.run.report import boot_id

if TYPE_CHECKING:
    from diagnosing import Site

    from ganeti_steward.diagnose.run.running import Run

#: Prints what is in a file.
DISK = """
@hookimpl
def steward_diagnose(machine):
    with open(os.path.dirname(__file__) + "/disk.result") as file:
        for word in file.read().split():
            if word == "unknown":
                yield Unknown("disk", "no answer")
            elif word == "absent":
                yield NotApplicable("disk", "there is none")
            else:
                yield Finding("disk:sda", word)
"""


def says(site: Site, words: str) -> None:
    (site.modules / "disk.result").write_text(words)


def status(run: Run) -> Any:
    """What the object says; None where there is none."""
    return run.diagnosis.object and run.diagnosis.object["status"]


@pytest.fixture
def disk(site: Site) -> Site:
    site.plugin("disk", DISK)
    site.configure("disk")
    says(site, "Ok")
    return site


def configure(site: Site, appear: int, clear: int) -> None:
    site.configure("disk", more=f"appear-after = {appear}\nclear-after = {clear}")


def test_from_run_to_run(disk: Site) -> None:
    configure(disk, 2, 3)
    story = [
        ("Ok", "Ok"),
        ("live-repair", "Ok"),
        ("live-repair", "live-repair"),
        ("unknown", "live-repair"),
        ("Ok", "live-repair"),
        ("absent", "live-repair"),
        ("Ok", "live-repair"),
        ("evacuate", "live-repair"),
        ("evacuate", "evacuate"),
        ("Ok", "evacuate"),
        ("Ok", "evacuate"),
        ("Ok", "Ok"),
    ]
    for words, expected in story:
        says(disk, words)
        assert status(disk.run()) == expected
        report = json.loads((disk.directory / "report.json").read_text())
        assert report["data"]["status"] == expected


def test_the_first_run(disk: Site) -> None:
    """A finding that has to stay may have been reported before: no report leaves it out."""
    configure(disk, 3, 1)
    says(disk, "evacuate")
    for number in (1, 2):
        run = disk.run()
        assert run.diagnosis.object is None
        assert run.diagnosis.why == (
            "findings do not take effect yet, and what was reported before is not known: "
            f"disk:sda ({number} of 3 runs)"
        )
        assert run.report["data"] is None
        assert {"source": "diagnose", "reason": run.diagnosis.why} in run.report["unknown"]
    assert status(disk.run()) == "evacuate"


def test_nothing_is_known(disk: Site) -> None:
    says(disk, "unknown")
    run = disk.run()
    assert run.diagnosis.object is None
    assert run.diagnosis.why == "nothing is known about this node: disk: no answer"
    # What stays from before is reported.
    says(disk, "evacuate")
    disk.run()
    says(disk, "unknown")
    assert status(disk.run()) == "evacuate"
    # One other source that knows something is enough.
    disk.plugin("fan", "@hookimpl\ndef steward_diagnose(): return [Finding('fan', 'Ok')]")
    disk.configure("disk", "fan")
    (disk.directory / "state.json").unlink()
    assert status(disk.run()) == "Ok"


def test_nothing_is_known_in_any_order(disk: Site) -> None:
    """Sources end in any order; the sentence is the same in each run."""
    body = "return [Unknown('fan:2', 'b'), Unknown('fan:1', 'a')]"
    disk.plugin("fan", f"@hookimpl\ndef steward_diagnose(): {body}")
    disk.configure("fan")
    assert disk.run().diagnosis.why == "nothing is known about this node: fan:1: a; fan:2: b"


def test_nothing_is_known_beside_what_does_not_apply(disk: Site) -> None:
    """A missing fan does not make a disk fine that could not be checked."""
    disk.plugin("fan", "@hookimpl\ndef steward_diagnose(): return [NotApplicable('fan', 'none')]")
    disk.configure("disk", "fan")
    says(disk, "unknown")
    run = disk.run()
    assert run.diagnosis.why == "nothing is known about this node: disk: no answer"
    assert status(run) is None


@pytest.mark.parametrize("damage", ["state", "directory"])
def test_what_is_lost_is_not_healed(disk: Site, damage: str) -> None:
    """Not before each source that is unknown now has returned a known result."""
    disk.plugin("fan", "@hookimpl\ndef steward_diagnose(): return [Finding('fan', 'Ok')]")
    disk.configure("disk", "fan")
    says(disk, "evacuate")
    disk.run()
    if damage == "state":
        (disk.directory / "state.json").write_text("garbage")
    else:
        disk.directory.chmod(0o777)
    says(disk, "unknown")
    for _ in range(3):
        run = disk.run()
        assert status(run) is None
        assert run.diagnosis.why == (
            "what was reported before is lost, and may have been about what is unknown now: disk"
        )
    says(disk, "Ok")
    assert status(disk.run()) == "Ok"
    if damage == "state":
        says(disk, "unknown")
        assert status(disk.run()) == "Ok"


def test_nothing_applies(disk: Site) -> None:
    says(disk, "absent")
    run = disk.run()
    assert run.diagnosis.object == {"status": "Ok"}
    assert run.diagnosis.not_applicable == (NotApplicable("disk", "there is none"),)
    disk.configure()
    assert disk.run().diagnosis.object == {"status": "Ok"}


def test_several_commands(disk: Site) -> None:
    for name in ("one", "two"):
        source = f"return [Finding('{name}', 'live-repair', 'fix-{name}')]"
        disk.plugin(name, f"@hookimpl\ndef steward_diagnose():\n    {source}")
    disk.configure("one", "two", more='several-command = "fix-all"')
    found = disk.run().diagnosis.object
    assert found is not None
    assert found["command"] == "fix-all"
    disk.configure("one", "two", more='several-status = "evacuate"')
    assert status(disk.run()) == "evacuate"


def test_a_damaged_state_is_reported(disk: Site) -> None:
    disk.run()
    (disk.directory / "state.json").write_text("garbage")
    run = disk.run()
    (unknown,) = run.diagnosis.unknown
    assert unknown.source == "diagnose"
    assert "is not understood" in unknown.reason
    assert status(run) == "Ok"
    assert disk.run().diagnosis.unknown == ()


@pytest.mark.parametrize("damage", ["open", "file", "broken"])
def test_where_nothing_can_be_kept(disk: Site, damage: str) -> None:
    """Findings count at once there, and none goes: such a disk must not hide itself."""
    configure(disk, 3, 1)
    says(disk, "Ok")
    if damage == "file":
        disk.directory.write_text("")
    else:
        disk.run()
        if damage == "open":
            disk.directory.chmod(0o777)
        else:
            # The new file cannot be made.
            (disk.directory / "state.json").unlink()
            (disk.directory / "state.json").mkdir()
            (disk.directory / "state.json.unusable").mkdir()
            (disk.directory / "state.json.unusable" / "full").touch()
    says(disk, "evacuate")
    for _ in range(2):
        run = disk.run()
        assert status(run) == "evacuate"
        reasons = [one.reason for one in run.diagnosis.unknown if one.source == "diagnose"]
        assert any(reason.startswith("nothing is kept from run to run: ") for reason in reasons)


def test_nothing_is_cleared_where_nothing_can_be_kept(disk: Site) -> None:
    configure(disk, 1, 2)
    says(disk, "evacuate")
    disk.run()
    says(disk, "Ok")
    place = disk.directory / "state.json"
    before = place.read_bytes()
    # Readable as before, but nothing can be put in its place: the name of the new file is taken.
    (disk.directory / f".state.json.{os.getpid()}.new").mkdir()
    for _ in range(3):
        assert status(disk.run()) == "evacuate"
    assert place.read_bytes() == before


def test_a_disk_that_has_become_read_only(disk: Site) -> None:
    """What was found before stays although the source cannot report any more."""
    says(disk, "evacuate")
    disk.run()
    says(disk, "unknown")
    # As there: no lock can be taken, but everything can be read.
    (disk.directory / "lock").unlink()
    (disk.directory / "lock").mkdir()
    run = disk.run()
    assert status(run) == "evacuate"
    assert [one.source for one in run.diagnosis.unknown] == ["diagnose", "disk"]
    # Where others can write it may be anybody's.
    disk.directory.chmod(0o777)
    assert status(disk.run()) is None


def test_without_state(disk: Site) -> None:
    """What is seen now, and no trace of it; not even the lock is taken."""
    configure(disk, 3, 3)
    says(disk, "evacuate")
    disk.directory.mkdir(mode=0o700)
    run = disk.run(keep=False)
    assert status(run) == "evacuate"
    assert run.diagnosis.unknown == ()
    assert list(disk.directory.iterdir()) == []


def test_two_runs(disk: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second ends at once and leaves everything alone (the lock is one of the process)."""
    disk.directory.mkdir(mode=0o700)

    def busy(descriptor: int, how: int) -> None:
        raise BlockingIOError

    monkeypatch.setattr("fcntl.lockf", busy)
    with pytest.raises(Busy):
        disk.run()
    assert [path.name for path in disk.directory.iterdir()] == ["lock"]
    monkeypatch.undo()
    with locked(str(disk.directory)):
        pass


def test_report(disk: Site) -> None:
    says(disk, "evacuate unknown")
    run = disk.run()
    report = json.loads((disk.directory / "report.json").read_text())
    assert report == run.report
    assert report == {
        "name": "diagnose",
        "version": report["version"],
        "format_version": 1,
        "timestamp": 1_700_000_000_123_456_000,
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "category": "node",
        "kind": 1,
        "data": {
            "status": "evacuate",
            "details": [{"source": "disk:sda", "status": "evacuate"}],
        },
        "node": "8a1b4f2e-5a2b-4d3c-9e1f-0123456789ab",
        "node_name": "node1.example.com",
        "daemon": {},
        "drbd_peers": [],
        "hypervisor": None,
        "load": run.report["load"],
        "reboot": run.report["reboot"],
        "unreached": None,
        "volume_groups": None,
        "unknown": [{"source": "disk", "reason": "no answer"}],
        "not_applicable": [],
    }
    # That of this machine, of which no run before is known.
    assert set(report["load"]) == {"seconds", "cpu", "cpus", "memory", "disk", "pressure"}
    assert set(report["reboot"]) == {"required", "booted"}
    assert (report["load"]["seconds"], report["load"]["cpu"]) == (0, None)
    assert run.diagnosis.unknown == (Unknown("disk", "no answer"),)
    assert (disk.directory / "report.json").stat().st_mode & 0o777 == 0o600


def test_a_boot_id_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "id").write_bytes(b"\xff\n")
    (tmp_path / "good").write_text("b1\n")
    found = [boot_id(str(tmp_path / name)) for name in ("none", "id", "good")]
    assert found == ["", "", "b1"]


#: Keeps for the report what is in a file, if there is one.
GROUPS = """
@hookimpl
def steward_diagnose(machine):
    path = os.path.dirname(__file__) + "/groups"
    if os.path.exists(path):
        with open(path, "rb") as file:
            machine.remember(NAME, file.read())
    yield Finding("groups", "Ok")
"""


@pytest.mark.parametrize("name", ["volume-groups", "hypervisor"])
def test_what_a_collector_keeps_is_of_this_run_only(
    name: str, site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    site.plugin("groups", GROUPS.replace("NAME", repr(name)))
    section = name.replace("-", "_")
    site.configure("groups")
    site.machine = partial(this_machine, directory=str(site.directory))
    file = site.modules / "groups"
    assert site.run().report[section] is None
    file.write_text('{"xenvg": [900, 300]}')
    assert site.run().report[section] == {"xenvg": [900, 300]}
    written = json.loads((site.directory / "report.json").read_text())
    assert written[section] == {"xenvg": [900, 300]}
    for content in ("", "[]", "{", "7"):
        file.write_text(content)
        assert site.run().report[section] is None
    file.write_text("{}")
    assert site.run().report[section] == {}
    # The next run does not find them, nor does one that cannot take away those of before.
    file.unlink()
    assert site.run().report[section] is None
    (site.directory / f"kept-{name}").write_text('{"xenvg": [900, 300]}')
    assert site.run(keep=False).report[section] is None

    def refused(self: LocalMachine, name: str) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(LocalMachine, "forget", refused)
    assert site.run().report[section] is None
    assert "not kept: [Errno 30] Read-only file system" in caplog.text
