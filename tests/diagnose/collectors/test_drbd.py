"""DRBD 8.4 and 9, judged on recorded states."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from asserting import some
from collected import RECORDED, collect, faults, recorded, survives, unknown
from json_damage import damaged, shuffled

from ganeti_steward.core.model.finding import CheckResult, Finding, NotApplicable, Unknown
from ganeti_steward.diagnose.testing import RecordedMachine

HEAD_8 = "version: 8.4.11 (api:1/proto:86-101)\nsrcversion: 211FB288A383ED945B83420 \n"
HEAD_9 = "version: 9.2.11 (api:2/proto:118-122)\nTransports (api:21): tcp (9.2.11)\n"
BOOT_ID, UPTIME = "/proc/sys/kernel/random/boot_id", "/proc/uptime"
OK = [Finding("drbd", "Ok")]
LOST = {"drbd": ["local disk lost"]}
STUCK = {"drbd": ["inconsistent, nothing is copied"]}


def loaded(tmp_path: Path, text: str, **changed: Any) -> RecordedMachine:
    files = {"/proc/drbd": text, BOOT_ID: "b1\n", UPTIME: "5000.00 1.00\n"}
    return RecordedMachine(tmp_path, **{"files": files, "kernel_log": []} | changed)


def nine(tmp_path: Path, document: Any, **ended: Any) -> RecordedMachine:
    commands = {"drbdsetup status --json": {"output": json.dumps(document)} | ended}
    return loaded(tmp_path, HEAD_9, commands=commands)


def status_of(case: str) -> Any:
    return json.loads((RECORDED / "drbd" / case / "status.json").read_text())


def eight(tmp_path: Path, connection: str, roles: str, disks: str) -> RecordedMachine:
    line = f" 0: cs:{connection} ro:{roles} ds:{disks} C r-----\n    ns:0 nr:0 dw:0 dr:0 oos:8\n"
    return loaded(tmp_path, HEAD_8 + line)


@pytest.mark.parametrize("case", ["healthy8", "healthy9"])
def test_healthy(case: str) -> None:
    """Copying, peers that are away and devices without a disk on purpose are no faults."""
    assert collect("drbd", recorded("drbd", case)) == OK


@pytest.mark.parametrize("case", ["broken8", "broken9"])
def test_broken(case: str) -> None:
    results = collect("drbd", recorded("drbd", case), repair="replace-disks")
    assert faults(results) == {"drbd": STUCK["drbd"] + LOST["drbd"]}
    assert {(one.status, one.command) for one in results if isinstance(one, Finding)} == {
        ("live-repair", "replace-disks")
    }


@pytest.mark.parametrize("case", ["broken8", "broken9"])
def test_a_status_for_each_kind(case: str) -> None:
    minor = {"broken8": 12, "broken9": 13}[case]
    results = collect(
        "drbd",
        recorded("drbd", case),
        disk_lost_status="evacuate",
        inconsistent_status="Ok",
        standalone_status="live-repair",
    )
    assert {
        (one.status, *one.details["faults"]) for one in results if isinstance(one, Finding)
    } == {
        ("evacuate", "local disk lost"),
        ("live-repair", f"stands alone: minor {minor}"),
    }


@pytest.mark.parametrize(
    ("connection", "disks", "expected"),
    [
        ("Connected", "UpToDate/UpToDate", {}),
        ("Connected", "UpToDate/Diskless", {}),
        ("Connected", "Diskless/UpToDate", LOST),
        ("Connected", "Failed/UpToDate", LOST),
        ("WFConnection", "Diskless/DUnknown", LOST),
        ("StandAlone", "Diskless/DUnknown", LOST),
        ("SyncTarget", "Inconsistent/UpToDate", {}),
        ("PausedSyncT", "Inconsistent/UpToDate", {}),
        ("VerifyS", "UpToDate/UpToDate", {}),
        ("Ahead", "UpToDate/Consistent", {}),
        ("WFConnection", "Inconsistent/DUnknown", {}),
        ("WFConnection", "UpToDate/Outdated", {}),
        ("Connected", "Inconsistent/UpToDate", STUCK),
        ("Connected", "Inconsistent/Inconsistent", {}),
        ("Connected", "Outdated/UpToDate", {}),
        ("StandAlone", "UpToDate/DUnknown", {}),
        ("StandAlone", "Consistent/DUnknown", {}),
        ("Unconnected", "UpToDate/DUnknown", {}),
        ("Connected", "Attaching/UpToDate", {}),
    ],
)
def test_states_of_version_8(
    tmp_path: Path, connection: str, disks: str, expected: dict[str, list[str]]
) -> None:
    results = collect("drbd", eight(tmp_path, connection, "Primary/Secondary", disks))
    assert faults(results) == expected
    assert not unknown(results)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("connection", "end", "expected"),
    [
        ("SyncTarget", " (stalled)", ["synchronization stalled: minor {}"]),
        ("SyncSource", " (stalled)", ["synchronization stalled: minor {}"]),
        ("SyncTarget", "", []),
        # These wait for another device, or change nothing.
        ("PausedSyncT", " (stalled)", []),
        ("VerifyS", " (stalled)", []),
    ],
)
def test_a_synchronization_without_progress(
    tmp_path: Path, connection: str, end: str, expected: list[str], *, first: bool
) -> None:
    """At the end as well: upstream has seen devices that stay at 100 %."""
    counters = "    ns:0 nr:0 dw:0 dr:0 al:0 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:4\n"
    progress = (
        "\t[===================>] sync'ed:100.0% (4/1048576)K\n"
        f"\tfinish: 0:00:01 speed: 0 (9,328) want: 0 K/sec{end}\n"
    )
    busy = f"cs:{connection} ro:Secondary/Primary ds:Inconsistent/UpToDate C r-----\n{counters}"
    quiet = f"cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate C r-----\n{counters}"
    devices = [busy + progress, quiet]
    both = zip((" 0: ", " 1: "), devices if first else reversed(devices), strict=True)
    text = HEAD_8 + "".join(number + device for number, device in both)
    results = collect("drbd", loaded(tmp_path, text))
    named = [text.format(0 if first else 1) for text in expected]
    assert faults(results).get("drbd", []) == named
    assert not unknown(results)
    assert faults(collect("drbd", loaded(tmp_path, text), stalled_status="Ok")) == {}


@pytest.mark.parametrize(
    ("connection", "disks"),
    [
        ("Connected", "DUnknown/UpToDate"),
        ("Connected", "Fine/UpToDate"),
        ("Sunny", "UpToDate/UpToDate"),
        ("Connected", "UpToDate"),
        ("", "UpToDate/UpToDate"),
        ("Connected", ""),
    ],
)
def test_words_of_version_8_that_are_not_known(tmp_path: Path, connection: str, disks: str) -> None:
    results = collect("drbd", eight(tmp_path, connection, "Primary/Secondary", disks))
    assert set(unknown(results)) == {"drbd"}
    assert len(results) == 1


def test_the_finding_stays_while_instances_are_moved_away(tmp_path: Path) -> None:
    line = " {}: cs:Connected ro:Secondary/Primary ds:{}/UpToDate C r-----\n"
    expected = None
    for left in range(12, 0, -1):
        lines = [line.format(left, "Failed")]
        lines += [line.format(minor, "Diskless") for minor in range(left - 1)]
        results = collect("drbd", loaded(tmp_path, HEAD_8 + "".join(lines)))
        assert results == (expected or results)
        expected = results
    assert collect("drbd", loaded(tmp_path, HEAD_8)) == OK


def test_a_damaged_line_does_not_hide_another(tmp_path: Path) -> None:
    good = " 1: cs:Connected ro:Secondary/Primary ds:Diskless/UpToDate C r-----\n"
    for bad in (" 0: cs:Conn\x00cted ro:Primary\n", " x: cs:Connected ro:Primary\n", "0: \n"):
        text = bad + good if bad.startswith(" 0") else good + bad
        results = collect("drbd", loaded(tmp_path, HEAD_8 + text))
        assert faults(results) == LOST
        assert set(unknown(results)) == {"drbd"}


def test_nothing_there(tmp_path: Path) -> None:
    assert collect("drbd", RecordedMachine(tmp_path)) == [
        NotApplicable("drbd", "drbd is not loaded")
    ]
    assert collect("drbd", loaded(tmp_path, HEAD_8)) == OK
    assert collect("drbd", nine(tmp_path, [])) == OK


@pytest.mark.parametrize("text", ["", "\n", "version: 7.0.1\n", "version: 10.1\n", " 0: cs:x"])
def test_a_version_that_is_not_known(tmp_path: Path, text: str) -> None:
    (result,) = collect("drbd", loaded(tmp_path, text))
    assert isinstance(result, Unknown)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    (result,) = collect("drbd", loaded(tmp_path, HEAD_8, refused={"/proc/drbd": "EIO"}))
    assert isinstance(result, Unknown)


def test_version_9_without_its_program(tmp_path: Path) -> None:
    """The devices exist; no program can report on them, so they are not healthy."""
    (result,) = collect("drbd", loaded(tmp_path, HEAD_9))
    assert result == Unknown("drbd", "drbdsetup cannot be run: No such file or directory")


@pytest.mark.parametrize(
    "ended",
    [{"status": 20}, {"status": -11}, {"fault": "killed after 60 s"}, {"output": ""}]
    + [{"output": text} for text in ("{}", "null", "[null]", "[[]]", "# No devices", "[" * 9999)],
    ids=lambda ended: str(ended)[:40],
)
def test_a_failing_program_is_not_fine(tmp_path: Path, ended: dict[str, Any]) -> None:
    (result,) = collect("drbd", nine(tmp_path, status_of("healthy9"), **ended))
    assert isinstance(result, Unknown)


#: What is read of a state; without it, or with nonsense in it, it is unknown.
ESSENTIAL = {"devices", "connections", "volume", "disk-state", "connection-state"}
ESSENTIAL |= {"peer_devices", "replication-state"}

#: What is a fault where it is true.
SUSPENDED = {"suspended", "suspended-no-data", "suspended-fencing", "suspended-quorum"}


def test_every_damage_to_a_healthy_state(tmp_path: Path) -> None:
    for path, changed in some(damaged(status_of("healthy9"))):
        results = collect("drbd", nine(tmp_path, changed))
        if path[-1] in ESSENTIAL:
            assert results != OK, path
        # Only that a device has no disk on purpose is a reason not to call it broken.
        assert not faults(results) or path[-1] in {"client", *SUSPENDED}, path


def test_every_damage_to_a_broken_state(tmp_path: Path) -> None:
    for path, changed in some(damaged(status_of("broken9"))):
        results = collect("drbd", nine(tmp_path, changed))
        # One device stays broken when the other cannot be judged.
        assert faults(results), path
        if path[-1] in ESSENTIAL:
            assert unknown(results), path


@pytest.mark.parametrize("case", ["healthy8", "broken8", "healthy9", "broken9"])
def test_damage(case: str) -> None:
    survives("drbd", case)


def test_order_means_nothing(tmp_path: Path) -> None:
    document = status_of("broken9")
    expected = collect("drbd", nine(tmp_path, document))
    for seed in range(50):
        changed = shuffled(document, Random(seed), lists=True)
        assert collect("drbd", nine(tmp_path, changed)) == expected
    lines = recorded("drbd", "broken8").recorded["files"]["/proc/drbd"].splitlines(keepends=True)
    head, devices = lines[:2], [lines[at : at + 2] for at in range(2, len(lines), 2)]
    expected = collect("drbd", recorded("drbd", "broken8"))
    for seed in range(20):
        Random(seed).shuffle(devices)
        text = "".join([*head, *(line for device in devices for line in device)])
        assert collect("drbd", loaded(tmp_path, text)) == expected


@pytest.mark.parametrize(
    ("resource", "device", "expected"),
    [
        ({}, {"quorum": False}, ["no quorum"]),
        (
            {"suspended": True, "suspended-quorum": True},
            {"quorum": False},
            ["I/O suspended", "no quorum"],
        ),
        ({"suspended": True, "suspended-no-data": True}, {}, ["I/O suspended"]),
        # An admin did that: drbdsetup suspend-io.
        ({"suspended": True, "suspended-user": True}, {}, []),
    ],
)
def test_suspended_and_without_quorum(
    tmp_path: Path, resource: dict[str, bool], device: dict[str, bool], expected: list[str]
) -> None:
    document = status_of("healthy9")
    document[0] |= resource
    document[0]["devices"][0] |= device
    results = collect("drbd", nine(tmp_path, document))
    assert faults(results).get("drbd", []) == expected
    results = collect("drbd", nine(tmp_path, document), suspended_status="Ok", quorum_status="Ok")
    assert results == OK


def test_suspended_in_version_8(tmp_path: Path) -> None:
    line = " 0: cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate C {}-----\n"
    assert collect("drbd", loaded(tmp_path, HEAD_8 + line.format("r"))) == OK
    assert faults(collect("drbd", loaded(tmp_path, HEAD_8 + line.format("s")))) == {
        "drbd": ["I/O suspended"]
    }


@pytest.mark.parametrize(
    ("disk", "ago", "expected"),
    [
        ("Diskless", 3, {}),
        ("Diskless", 599, {}),
        # An operation that failed left its old disk behind.
        ("Diskless", 601, LOST),
        ("Failed", 3, LOST),
        ("Diskless", None, LOST),
    ],
)
def test_ganeti_replaces_disks(
    tmp_path: Path, disk: str, ago: int | None, expected: dict[str, list[str]]
) -> None:
    line = f" 0: cs:Connected ro:Primary/Secondary ds:{disk}/UpToDate C r-----\n"
    old = "" if ago is None else f"_replaced--{1700001000 - ago}"
    files = {
        "/proc/drbd": HEAD_8 + line,
        "/proc/stat": "cpu 1 2 3\nbtime 1700000000\n",
        "/proc/uptime": "1000.00 900.00\n",
        "/sys/block/dm-7/dm/name": f"xenvg-8c1f.disk0_data{old}\n",
    }
    results = collect("drbd", RecordedMachine(tmp_path, files=files))
    assert faults(results) == expected
    assert bool(unknown(results)) == (not expected)


class Node:
    """A node whose DRBD is looked at again and again, with what is kept between the runs."""

    def __init__(self, tmp_path: Path, version: int) -> None:
        self.tmp_path, self.version = tmp_path, version
        self.uptime, self.boot = 1000.0, "b1"
        self.kept: dict[str, bytes] = {}
        self.log: list[str] = []

    def look(
        self, state: str, left: int, *, paused: bool = False, seconds: float = 300, **settings: Any
    ) -> list[CheckResult]:
        """One run, ``seconds`` after the one before; ``left``: KiB that are not in sync."""
        self.uptime += seconds
        files = {BOOT_ID: f"{self.boot}\n", UPTIME: f"{self.uptime:.2f} 1.00\n"}
        if self.version == 8:
            flags = "ra----" if paused else "r-----"
            line = f" 3: cs:{state} ro:Secondary/Primary ds:Inconsistent/UpToDate C {flags}\n"
            files["/proc/drbd"] = f"{HEAD_8}{line}    ns:0 nr:0 ep:1 wo:f oos:{left}\n"
            machine = loaded(self.tmp_path, "", files=files)
        else:
            document = [one for one in status_of("healthy9") if one["name"] == "new"]
            document[0]["devices"][0] |= {"minor": 3, "disk-state": "Inconsistent"}
            document[0]["connections"][0]["peer_devices"][0] |= {
                "replication-state": state,
                "peer-disk-state": "UpToDate",
                "resync-suspended": "dependency" if paused else "no",
                "out-of-sync": left,
            }
            machine = nine(self.tmp_path, document)
            machine.recorded["files"] |= files
        machine.recorded["kernel_log"] = list(self.log)
        machine.kept = self.kept
        return collect("drbd", machine, **settings)


STALLED_3 = {"drbd": ["synchronization stalled: minor 3"]}


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("state", ["SyncTarget", "SyncSource", "WFBitMapT"])
@pytest.mark.parametrize("left", [0, 4, 8900608])
def test_what_does_not_get_on_is_found(tmp_path: Path, version: int, state: str, left: int) -> None:
    """Without a word of DRBD, and also where nothing seems to be left."""
    node = Node(tmp_path, version)
    found = [node.look(state, left) for _ in range(20)]
    assert [faults(one) for one in found] == [{}] * 3 + [STALLED_3] * 17
    # The same finding as long as it lasts, and none once it gets on.
    assert all(one == found[3] for one in found[3:])
    assert node.look("Connected" if version == 8 else "Established", 0) != found[3]
    assert faults(node.look(state, left)) == {}


@pytest.mark.parametrize("version", [8, 9])
def test_when_it_is_stalled_is_configured(tmp_path: Path, version: int) -> None:
    node = Node(tmp_path, version)
    found = [faults(node.look("SyncTarget", 4, stalled_after=3600)) for _ in range(14)]
    assert found == [{}] * 12 + [STALLED_3] * 2
    assert faults(node.look("SyncTarget", 4, stalled_status="Ok")) == {}


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("seed", range(50))
def test_noisy_synchronizations_are_none(tmp_path: Path, version: int, seed: int) -> None:
    """Progress at random, pauses, other synchronizations, runs that are late, and a restart."""
    chance, node = Random(seed), Node(tmp_path, version)
    left, same = 50_000_000, 0.0
    for _ in range(60):
        seconds = chance.choice((60.0, 300.0, 300.0, 700.0))
        same += seconds
        if chance.random() < 0.6 or same >= 900:
            left, same = max(left - 4 * chance.randrange(1, 500_000), 0) or 50_000_000, 0.0
        what = chance.random()
        if what < 0.05:
            node.uptime, node.boot = 100.0, f"b{chance.random()}"
        paused = what > 0.8
        state = chance.choice(("SyncTarget", "PausedSyncT")) if paused else "SyncTarget"
        results = node.look(state, left, paused=paused, seconds=seconds)
        assert faults(results) == {}
        assert not unknown(results)


@pytest.mark.parametrize("version", [8, 9])
def test_one_that_waits_for_another_is_not_stalled(tmp_path: Path, version: int) -> None:
    for state in ("PausedSyncT", "SyncTarget", "PausedSyncS"):
        node = Node(tmp_path, version)
        assert all(faults(node.look(state, 4096, paused=True)) == {} for _ in range(30))


@pytest.mark.parametrize("version", [8, 9])
def test_a_gap_between_two_runs_is_no_proof(tmp_path: Path, version: int) -> None:
    """The machine may have slept: its clock goes on, and nothing is copied."""
    node = Node(tmp_path, version)
    assert faults(node.look("SyncTarget", 4096)) == {}
    assert faults(node.look("SyncTarget", 4096, seconds=90_000)) == {}
    assert faults(node.look("SyncTarget", 4000)) == {}


@pytest.mark.parametrize("version", [8, 9])
def test_a_run_that_could_not_see_it_changes_nothing(tmp_path: Path, version: int) -> None:
    node = Node(tmp_path, version)
    found = [node.look("SyncTarget", 4) for _ in range(5)]
    assert set(unknown(node.look("Sunny", 4))) == {"drbd"}
    assert node.look("SyncTarget", 4) == found[-1] != OK


@pytest.mark.parametrize("version", [8, 9])
def test_a_restart_of_the_node_begins_again(tmp_path: Path, version: int) -> None:
    node = Node(tmp_path, version)
    found = [faults(node.look("SyncTarget", 4)) for _ in range(5)]
    node.boot = "b2"
    found += [faults(node.look("SyncTarget", 4)) for _ in range(5)]
    assert found == ([{}] * 3 + [STALLED_3] * 2) * 2


@pytest.mark.parametrize("kept", [b"[", b"{}", b'{"boot":"b1","marks":{"3 peer":1}}', b"[" * 9999])
def test_what_was_kept_is_damaged(tmp_path: Path, kept: bytes) -> None:
    node = Node(tmp_path, 8)
    node.kept["drbd"] = kept
    found = [faults(node.look("SyncTarget", 4)) for _ in range(4)]
    assert found == [{}, {}, {}, STALLED_3]


def test_without_the_time_since_the_start(tmp_path: Path) -> None:
    machine = eight(tmp_path, "SyncTarget", "Secondary/Primary", "Inconsistent/UpToDate")
    del machine.recorded["files"][BOOT_ID]
    assert collect("drbd", machine) == OK
    machine = eight(tmp_path, "SyncTarget", "Secondary/Primary", "Inconsistent/UpToDate")
    machine.recorded["files"][UPTIME] = "soon\n"
    assert unknown(collect("drbd", machine))


def test_how_much_is_left_is_not_known(tmp_path: Path) -> None:
    line = " 0: cs:SyncTarget ro:Secondary/Primary ds:Inconsistent/UpToDate C r-----\n    ns:0\n"
    (result,) = collect("drbd", loaded(tmp_path, HEAD_8 + line))
    assert result == Unknown("drbd", "how much of a device is not in sync cannot be read")


SPLIT = "1,{},{},-;{} Split-Brain detected but unresolved, dropping connection!"
APART = " 3: cs:StandAlone ro:Primary/Unknown ds:UpToDate/DUnknown   r-----\n    ns:0 oos:9\n"


@pytest.mark.parametrize("device", ["block drbd3:", "drbd web/0 drbd3:", "drbd web/0 drbd3 node2:"])
@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ("", "split brain: minor 3"),
        ("block drbd4: disk( Diskless -> Attaching ) ", "split brain: minor 3"),
        ("block drbd3: conn( WFReportParams -> Disconnecting ) ", "split brain: minor 3"),
        # Another instance has the minor now, or it was connected since.
        ("block drbd3: disk( Diskless -> Attaching ) ", "stands alone: minor 3"),
        (
            "block drbd3: peer( Unknown -> Primary ) conn( WFReportParams -> WFBitMapT ) "
            "pdsk( DUnknown -> UpToDate ) ",
            "stands alone: minor 3",
        ),
        ("drbd web/0 drbd3 node2: pdsk( DUnknown -> UpToDate ) ", "stands alone: minor 3"),
    ],
)
def test_a_split_brain_is_not_what_stands_alone(
    tmp_path: Path, device: str, later: str, expected: str
) -> None:
    log = [SPLIT.format(1, 1000, device), f"6,2,2000,-;{later}"]
    machine = loaded(tmp_path, HEAD_8 + APART, kernel_log=log)
    assert faults(collect("drbd", machine, standalone_status="live-repair")) == {"drbd": [expected]}
    found = faults(collect("drbd", machine))
    assert found == ({"drbd": [expected]} if expected.startswith("split") else {})
    assert faults(collect("drbd", machine, split_brain_status="Ok")) == {}
    # What a program has written is no word of the kernel.
    machine.recorded["kernel_log"] = [log[0].replace("1,", "9,", 1)]
    assert faults(collect("drbd", machine)) == {}


def test_the_log_is_not_read_without_need(tmp_path: Path) -> None:
    refusing = loaded(tmp_path, HEAD_8 + APART)
    del refusing.recorded["kernel_log"]
    results = collect("drbd", refusing, standalone_status="live-repair")
    assert faults(results) == {"drbd": ["stands alone: minor 3"]}
    assert set(unknown(results)) == {"drbd"}
    connected = eight(tmp_path, "Connected", "Primary/Secondary", "UpToDate/UpToDate")
    del connected.recorded["kernel_log"]
    assert collect("drbd", connected) == OK


@pytest.mark.parametrize("version", [8, 9])
def test_no_side_has_all_data(tmp_path: Path, version: int) -> None:
    """For a moment that is so when a device is made."""

    def changed(node: Node) -> list[CheckResult]:
        node.uptime += 300
        text = re.sub("UpToDate", "Inconsistent", HEAD_8 + NEW)
        document = [one for one in status_of("healthy9") if one["name"] == "new"]
        document[0]["devices"][0] |= {"minor": 3, "disk-state": "Inconsistent"}
        document[0]["connections"][0]["peer_devices"][0] |= {
            "replication-state": "Established",
            "peer-disk-state": "Inconsistent",
        }
        machine = loaded(tmp_path, text) if version == 8 else nine(tmp_path, document)
        machine.recorded["files"][UPTIME] = f"{node.uptime} 1.0\n"
        machine.kept = node.kept
        return collect("drbd", machine)

    node = Node(tmp_path, version)
    found = [faults(changed(node)) for _ in range(6)]
    assert found == [{}] * 3 + [{"drbd": ["no side has all data: minor 3"]}] * 3


def test_a_peer_that_is_away_may_have_all_data(tmp_path: Path) -> None:
    document = [one for one in status_of("healthy9") if one["name"] == "new"]
    document[0]["devices"][0]["disk-state"] = "Inconsistent"
    near = document[0]["connections"][0]
    near["peer_devices"][0] |= {
        "replication-state": "Established",
        "peer-disk-state": "Inconsistent",
    }
    away = {**near, "name": "node3", "connection-state": "Connecting"}
    away["peer_devices"] = [{**near["peer_devices"][0], "peer-disk-state": "DUnknown"}]
    kept: dict[str, bytes] = {}
    for connections, expected in (([near, away], {}), ([near], {"drbd"})):
        document[0]["connections"] = connections
        for run in range(8):
            machine = nine(tmp_path, document)
            machine.recorded["files"][UPTIME] = f"{5000 + run * 600} 1.0\n"
            machine.kept = kept
            results = collect("drbd", machine)
        assert set(faults(results)) == set(expected)


NEW = " 3: cs:Connected ro:Secondary/Secondary ds:UpToDate/UpToDate C r-----\n    ns:0 oos:9\n"
