"""What the kernel's log says about hardware."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from collected import collect, faults, fine, recorded, survives, unknown
from kernel_messages import read

from ganeti_steward.core.errors import BadSettings
from ganeti_steward.core.model.finding import Finding, NotApplicable, Unknown
from ganeti_steward.diagnose.model.hysteresis import RunCounts, RunState, update
from ganeti_steward.diagnose.testing import RecordedMachine

(ERROR,) = (
    f"{row['6.12'][2]},1,{{}},-;{row['line']}\n"
    for row in read()["message"]
    if row["line"].startswith("I/O error, dev sda,")
)
(CHECK,) = (
    f"{row['6.12'][2]},1,7,-;{row['line'].replace('a600000000000000', '{}')}\n"
    for row in read()["message"]
    if row["line"].endswith("Machine Check: 0 Bank 5: a600000000000000")
)


def logging(path: Path, *records: str, uptime: str = "1000.00 900.00\n") -> RecordedMachine:
    return RecordedMachine(path, kernel_log=records, files={"/proc/uptime": uptime})


def test_healthy() -> None:
    # Corrected errors, one read error, a floppy drive, words that programs wrote: nothing.
    assert collect("kernel", recorded("kernel", "healthy")) == [Finding("kernel", "Ok")]


def test_broken() -> None:
    results = collect("kernel", recorded("kernel", "broken"))
    assert faults(results) == {
        "kernel:0000:3a:00.0": ["fatal PCI Express error"],
        "kernel:cpu": ["uncorrected error reported by the firmware", "uncorrected machine check"],
        "kernel:dm-2": ["filesystem errors"],
        "kernel:dm-3": ["filesystem errors"],
        "kernel:memory": ["uncorrected memory error"],
        "kernel:nvme1": ["controller failed"],
        "kernel:sdb": ["I/O errors"],
        "kernel:sde1": ["filesystem errors"],
    }
    assert {one.status for one in results if isinstance(one, Finding)} == {"live-repair"}
    assert unknown(results) == {}


def test_drivers() -> None:
    results = collect("kernel", recorded("kernel", "drivers"))
    assert faults(results) == {
        "kernel:0000:03:00.0": ["controller failed"],
        "kernel:0000:18:00.0": ["controller failed"],
        "kernel:ata3.00": ["ATA link frozen"],
        "kernel:cpu": ["RCU stall"],
        "kernel:drbd": ["I/O errors of local disks"],
        "kernel:eno1": ["transmit queue timed out"],
        "kernel:eno2": ["transmit queue timed out"],
        "kernel:kernel": ["kernel oops"],
        "kernel:mpt3sas_cm0": ["controller failed"],
    }
    families = ("ata", "drbd", "hba", "netdev", "oops", "rcu")
    quiet = {f"{family}_status": "Ok" for family in families}
    assert fine(collect("kernel", recorded("kernel", "drivers"), **quiet)) == ["kernel"]


def test_rules_of_the_admin(tmp_path: Path) -> None:
    machine = logging(
        tmp_path,
        "3,1,7,-;acme 0000:81:00.0: firmware crashed (code=7)\n",
        "3,2,8,-;acme: pump stopped\n",
    )
    rules = [
        "acme=firmware crashed=acme DEVICE: firmware crashed .code=",
        "pump=stopped=acme: pump",
    ]
    results = collect("kernel", machine, rules=rules, rule_status="evacuate")
    assert faults(results) == {
        "kernel:0000:81:00.0": ["firmware crashed"],
        "kernel:pump": ["stopped"],
    }
    assert {one.status for one in results if isinstance(one, Finding)} == {"evacuate"}
    assert fine(collect("kernel", machine)) == ["kernel"]
    for bad in ("pump", "pump=stopped", "=a=b", "a==b", "a=b="):
        with pytest.raises(BadSettings, match="is not of the form SOURCE=FAULT=PATTERN"):
            collect("kernel", machine, rules=[bad])
    for bad in ("(", "a{99999999999}", "(" * 2000 + ")" * 2000):
        with pytest.raises(BadSettings, match="has no regular expression behind the second ="):
            collect("kernel", machine, rules=[f"a=b={bad}"])
    # One that Python warns about: it means a set with a bracket.
    assert faults(collect("kernel", machine, rules=["pump=stopped=acme: [[p]ump"])) == {
        "kernel:pump": ["stopped"]
    }


def test_settings() -> None:
    broken = recorded("kernel", "broken")
    results = collect(
        "kernel",
        broken,
        window=0.0,
        io_errors=6,
        ignore=["dm-*", "sde*"],
        hung_status="live-repair",
        lockup_status="evacuate",
        memory_status="Ok",
        pci_status="Ok",
        nvme_status="Ok",
        machine_check_status="Ok",
        repair="look",
    )
    assert results == [
        Finding("kernel:cpu", "evacuate", "", {"faults": ["soft lockup"]}),
        Unknown("kernel:sdb", "some messages: I/O errors"),
        Finding("kernel:sdx", "live-repair", "look", {"faults": ["I/O errors"]}),
        Finding("kernel:tasks", "live-repair", "look", {"faults": ["hung tasks"]}),
    ]


@pytest.mark.parametrize(
    ("count", "expected", "unsure"),
    [
        (2, [], {}),
        (3, [], {"kernel:sda": "some messages: I/O errors"}),
        (4, [], {"kernel:sda": "some messages: I/O errors"}),
        (5, ["I/O errors"], {}),
        (50, ["I/O errors"], {}),
    ],
)
def test_so_many_io_errors(
    tmp_path: Path, count: int, expected: list[str], unsure: dict[str, str]
) -> None:
    results = collect("kernel", logging(tmp_path, *[ERROR.format(7)] * count))
    assert faults(results).get("kernel:sda", []) == expected
    assert unknown(results) == unsure
    assert fine(results) == ([] if expected else ["kernel"])


def test_a_disk_that_fails_now_and_then_is_one_finding() -> None:
    """Errors leave the window one by one, and others come: 5, 4, 5 of them count."""
    state, reported = RunState(), []
    for hours in (96, 99, 102):
        uptime = {"/proc/uptime": f"{hours * 3600}.00 900.00\n"}
        results = collect("kernel", recorded("kernel", "sporadic", files=uptime))
        after = update(state, results, RunCounts())
        state = after.state
        reported.append([finding.source for finding in after.findings])
    assert reported == [["kernel:sdc"]] * 3


def test_the_window(tmp_path: Path) -> None:
    up = "360000.00 900.00\n"
    old, young = ERROR.format(int(51.9 * 3600e6)), ERROR.format(int(52.1 * 3600e6))
    assert fine(collect("kernel", logging(tmp_path, *[old] * 9, uptime=up))) == ["kernel"]
    assert faults(collect("kernel", logging(tmp_path, *[young] * 9, uptime=up)))
    assert faults(collect("kernel", logging(tmp_path, *[old] * 9, uptime=up), window=0.0))


def test_programs_cannot_forge(tmp_path: Path) -> None:
    forged = [ERROR.format(7).replace("3,", "11,", 1)] * 9
    assert fine(collect("kernel", logging(tmp_path, *forged))) == ["kernel"]
    # A process's name stands within the message, never at its beginning.
    inside = "3,1,7,-;INFO: task I/O error, dev sda,:17 blocked for more than 120 seconds.\n"
    assert fine(collect("kernel", logging(tmp_path, *[inside] * 9))) == ["kernel"]
    # And the lines below a message are details of it.
    below = "4,1,7,-;something\n I/O error, dev sda, sector 8\n"
    assert fine(collect("kernel", logging(tmp_path, *[below] * 9))) == ["kernel"]


@pytest.mark.parametrize("status", ["a600000000000000", "f600000000000000", "be00000000800400"])
def test_uncorrected_machine_checks(tmp_path: Path, status: str) -> None:
    text = CHECK.format(status)
    results = collect("kernel", logging(tmp_path, text))
    assert faults(results) == {"kernel:cpu": ["uncorrected machine check"]}


@pytest.mark.parametrize("status", ["8c00004a000800c1", "d000000000000000", "9c00000000000000"])
def test_corrected_machine_checks(tmp_path: Path, status: str) -> None:
    text = CHECK.format(status)
    assert fine(collect("kernel", logging(tmp_path, text))) == ["kernel"]


def test_order_and_number_of_messages_do_not_show() -> None:
    machine = recorded("kernel", "broken")
    results = collect("kernel", machine)
    for seed in range(20):
        Random(seed).shuffle(machine.recorded["kernel_log"])
        assert collect("kernel", machine) == results
    machine.recorded["kernel_log"] *= 2
    assert collect("kernel", machine) == results


def test_no_log(tmp_path: Path) -> None:
    (result,) = collect("kernel", RecordedMachine(tmp_path))
    assert result == Unknown("kernel", "/dev/kmsg: Operation not permitted")
    (result,) = collect("kernel", logging(tmp_path))
    assert isinstance(result, Unknown)

    class Without(RecordedMachine):
        def kernel_log(self) -> list[str]:
            raise FileNotFoundError(2, "No such file or directory", "/dev/kmsg")

    (result,) = collect("kernel", Without(tmp_path))
    assert isinstance(result, NotApplicable)


@pytest.mark.parametrize("uptime", ["", "long\n", "nan 1\n", "-5.0 1.0\n"])
def test_an_uptime_of_another_form_is_unknown(tmp_path: Path, uptime: str) -> None:
    machine = logging(tmp_path, ERROR.format(7), uptime=uptime)
    assert set(unknown(collect("kernel", machine))) == {"kernel"}
    assert fine(collect("kernel", machine, window=0.0, corrected_status="Ok")) == ["kernel"]


@pytest.mark.parametrize("record", ["", "nonsense", "x,1,2,-;text\n", "4,1,-;text\n", "4,1,2,-\n"])
def test_a_record_of_another_form(tmp_path: Path, record: str) -> None:
    results = collect("kernel", logging(tmp_path, record))
    assert set(unknown(results)) == {"kernel"}
    # It hides nothing.
    results = collect("kernel", logging(tmp_path, record, *[ERROR.format(7)] * 5))
    assert faults(results) == {"kernel:sda": ["I/O errors"]}
    assert set(unknown(results)) == {"kernel"}


@pytest.mark.parametrize("case", ["healthy", "broken", "drivers"])
def test_damaged_input(case: str) -> None:
    survives("kernel", case)


# Errors that were corrected: only their rate means something

FIRMWARE = "{{{}}}[Hardware Error]: event severity: corrected"
MANY = {
    FIRMWARE: {"kernel:firmware": ["many corrected errors reported by the firmware"]},
    CHECK.format("8c00004a000800c1"): {"kernel:cpu": ["many corrected machine checks"]},
    "0,{},{},-;[Hardware Error]: Corrected error, no action required.": {
        "kernel:cpu": ["many corrected machine checks"]
    },
}
DAY = 86_400.0


def corrected(path: Path, seconds: list[float], uptime: float, form: str = FIRMWARE) -> Any:
    """The log of a node with such errors, so many seconds after the start."""
    text = form.rpartition(";")[2]
    log = [f"4,{at},{int(one * 1e6)},-;{text.format(at)}" for at, one in enumerate(seconds)]
    return logging(path, *log, uptime=f"{uptime:.2f} 1.00")


@pytest.mark.parametrize("form", MANY, ids=lambda form: str(form)[-30:])
@pytest.mark.parametrize(
    ("count", "expected"), [(25, "fine"), (26, "unknown"), (50, "unknown"), (51, "found")]
)
def test_the_rate_of_corrected_errors(tmp_path: Path, form: str, count: int, expected: str) -> None:
    machine = corrected(tmp_path, [100_000.0 + at for at in range(count)], 101_000.0, form)
    results = collect("kernel", machine, corrected_status="live-repair")
    assert faults(results) == (MANY[form] if expected == "found" else {})
    assert set(unknown(results)) == (set(MANY[form]) if expected == "unknown" else set())
    assert fine(collect("kernel", machine, corrected_status="Ok")) == ["kernel"]


def test_only_the_last_hours_count(tmp_path: Path) -> None:
    when = [float(at * 600) for at in range(300)]
    machine = corrected(tmp_path, when, 180_000.0)
    status = {"corrected_status": "live-repair"}
    assert faults(collect("kernel", machine, **status)) == MANY[FIRMWARE]
    assert faults(collect("kernel", machine, **status, corrected_within=8)) == {}
    # Independent of the window of all other messages.
    for window in (0, 1, 1000):
        assert faults(collect("kernel", machine, **status, window=window)) == MANY[FIRMWARE]
        few = {"corrected_within": 1, "corrected_above": 20, "window": window}
        assert collect("kernel", machine, **status, **few) == [Finding("kernel", "Ok")]
    error = "3,999,1000000,-;I/O error, dev sdb, sector 8"
    machine.recorded["kernel_log"] += (error,) * 9
    assert set(faults(collect("kernel", machine, **status))) == {"kernel:firmware"}


@pytest.mark.parametrize("seed", range(50))
def test_noisy_corrected_errors_are_healthy(tmp_path: Path, seed: int) -> None:
    """At random, in bursts, below the rate; the same with ten times as many is found."""
    chance = Random(seed)
    for factor, expected in ((1, {}), (10, MANY[FIRMWARE])):
        when: list[float] = []
        for day in range(5):
            for _ in range(chance.randrange(1, 5)):
                start = day * DAY + chance.random() * DAY
                burst = factor * chance.randrange(1, 6) if factor == 1 else 60
                when += [start + chance.random() * 60 for _ in range(burst)]
        for day in range(2, 6):
            seen = [one for one in sorted(when) if one < day * DAY]
            machine = corrected(tmp_path, seen, day * DAY)
            results = collect("kernel", machine, corrected_status="live-repair")
            assert faults(results) == expected
            assert not unknown(results)
