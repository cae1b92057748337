"""``gnt-steward diagnose``: the object on standard output, the rest where it belongs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from other_user import let_everybody_reach_python, open_up
from programs import HANGING, ended_at_last, is_running, notes, program, wait_until
from workspace import PROGRAMS

from ganeti_steward.core.commands import main as cli
from ganeti_steward.core.ganeti.signing import verify

if TYPE_CHECKING:
    from front import Front

from diagnose_front import PLUGIN, configure, says

ILL = (
    rb'{"command":"fix","details":[{"command":"fix","details":{"a":"\u00fc","b":1},'
    rb'"source":"disk:0","status":"live-repair"}],"status":"live-repair"}'
    b"\n"
).decode()


def test_the_object_and_nothing_else(disk: Front) -> None:
    done = disk("diagnose")
    assert (done.status, done.out, done.err) == (0, '{"status":"Ok"}\n', "")
    says(disk, "live-repair unknown")
    done = disk("diagnose")
    assert (done.status, done.out, done.err) == (0, ILL, "")


def test_as_a_whitelisted_command(disk: Front) -> None:
    """No environment, no input, another directory, both streams taken for one."""
    says(disk, "live-repair unknown absent")
    runner = program(
        disk.path,
        "runner",
        f"export GNT_STEWARD_CONFIG={disk.config_file} PYTHONPATH={disk.modules}\n"
        f"exec {PROGRAMS}/gnt-steward diagnose",
    )
    done = subprocess.run(
        [runner],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/",
        env={},
        check=True,
    )
    assert done.stdout.decode() == ILL


def test_nothing_is_known(disk: Front) -> None:
    says(disk, "unknown")
    done = disk("diagnose")
    fault = "gnt-steward diagnose: nothing is known about this node: disk: no | answer\n"
    assert (done.status, done.out, done.err) == (1, "", fault)
    done = disk("diagnose", "--report")
    assert (done.status, done.err) == (1, fault)
    assert json.loads(done.out)["data"] is None


def test_verbose(disk: Front) -> None:
    configure(disk, "appear-after = 3")
    disk("diagnose")
    says(disk, "live-repair unknown absent")
    done = disk("diagnose", "-v")
    assert (done.status, done.out) == (0, '{"status":"Ok"}\n')
    *lines, ran = done.err.splitlines()
    assert lines == [
        "unknown: disk: no | answer",
        "not applicable: disk: there is none",
        "waiting: disk:0: live-repair, 1 of 3 runs",
    ]
    assert ran.startswith("ran: disk: ")


def test_report(disk: Front) -> None:
    says(disk, "live-repair unknown")
    done = disk("diagnose", "--report")
    report = json.loads(done.out)
    assert (done.status, done.err, report["data"]) == (0, "", json.loads(ILL))
    assert report["unknown"] == [{"source": "disk", "reason": "no | answer"}]
    assert (disk.path / "diagnose" / "report.json").read_text() == done.out


def test_signed(disk: Front) -> None:
    key = b"0123456789abcdef0123456789abcdef01234567\n"
    (disk.path / "hmac.key").write_bytes(key)
    says(disk, "live-repair")
    done = disk("diagnose", "--sign", "question-1234")
    assert (done.status, done.err) == (0, "")
    text = json.loads(verify(key, done.out.encode(), "question-1234"))
    assert (text["purpose"], text["name"], text["data"]) == ("report", "diagnose", json.loads(ILL))
    # Without a salt it is the time, in whole seconds.
    salt = json.loads(disk("diagnose", "--report", "--sign").out)["salt"]
    assert len(salt) == 10
    assert salt.isdigit()


def test_signing_that_is_not_possible(disk: Front) -> None:
    (disk.path / "hmac.key").write_text("key0123456789abcdef\n")
    for salt in ("short", "with blank", '{"a":1234567}', "x" * 65):
        done = disk("diagnose", "--sign", salt)
        assert (done.status, done.out) == (1, "")
        assert "a salt has 8 to 64 letters, digits, _ and -" in done.err
    (disk.path / "hmac.key").unlink()
    done = disk("diagnose", "--sign")
    assert (done.status, done.out) == (1, "")
    assert f"there is no key {disk.path}/hmac.key" in done.err


def test_output(disk: Front) -> None:
    says(disk, "live-repair")
    file = disk.path / "object.json"
    for options in ((), ("--no-state",)):
        done = disk("diagnose", "--output", str(file), *options)
        assert (done.status, done.out, done.err) == (0, "", "")
        assert file.read_text() == ILL
        file.write_text("old")
    # A device would be the same, but not one of the machine that runs this test.
    pipe = disk.path / "pipe"
    os.mkfifo(pipe)
    done = disk("diagnose", "--output", str(pipe))
    assert (done.status, done.out) == (1, "")
    assert f"{pipe} cannot be written: it is not a regular file" in done.err
    assert pipe.is_fifo()


def test_no_object_leaves_the_file_alone(disk: Front) -> None:
    file = disk.path / "object.json"
    file.write_text("old")
    says(disk, "unknown")
    assert disk("diagnose", "--output", str(file)).status == 1
    assert file.read_text() == "old"


def test_table(disk: Front) -> None:
    says(disk, "live-repair Ok unknown absent")
    done = disk("diagnose", "--format", "table", "--separator=;")
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [
        "Source;Status;Command;Details",
        "disk;not applicable;-;there is none",
        "disk;unknown;-;no | answer",
        'disk:0;live-repair;fix;{"a":"\\u00fc","b":1}',
        "disk:1;Ok;-;-",
    ]
    bare = disk("diagnose", "--format=table", "--no-headers").out
    assert bare.splitlines()[-1].split() == ["disk:1", "Ok", "-", "-"]


def test_what_spoils_a_terminal(disk: Front) -> None:
    """A reason may hold what a broken tool has printed."""
    source = PLUGIN.replace("no | answer", "no\\n\\x1b[2Janswer")
    disk.plugin("disk", source)
    says(disk, "Ok unknown")
    expected = r"no\n\x1b[2Janswer"
    rows = disk("diagnose", "--format=table", "--separator=;", "--no-headers").out.splitlines()
    assert rows[0] == f"disk;unknown;-;{expected}"
    assert f"unknown: disk: {expected}\n" in disk("diagnose", "-v").err
    says(disk, "unknown")
    assert disk("diagnose").err.endswith(f"disk: {expected}\n")


def test_table_of_what_waits(disk: Front) -> None:
    configure(disk, "appear-after = 2\nclear-after = 3")
    disk("diagnose")
    says(disk, "live-repair")
    rows = [disk("diagnose", "--format=table", "--separator=;", "--no-headers").out] * 2
    assert rows[0].splitlines()[-1].split(";")[:2] == ["disk:0", "live-repair (1 of 2 runs)"]
    disk("diagnose")
    says(disk, "Ok")
    out = disk("diagnose", "--format=table", "--separator=;", "--no-headers").out
    assert [line.split(";")[:2] for line in out.splitlines()] == [
        ["disk:0", "Ok (1 of 3 runs)"],
        ["disk:0", "live-repair"],
    ]


def test_forget(disk: Front) -> None:
    says(disk, "evacuate")
    assert json.loads(disk("diagnose").out)["status"] == "evacuate"
    (disk.modules / "disk.py").write_text("")
    configure(disk)
    done = disk("diagnose", "--forget", "disc")
    fault = "gnt-steward diagnose: nothing is kept of the source 'disc' (kept: disk:0)\n"
    assert (done.status, done.out, done.err) == (1, "", fault)
    done = disk("diagnose", "--forget", "disk")
    assert (done.status, done.out, done.err) == (0, "disk:0: forgotten\n", "")
    for option in ("--report", "--check=-", "--output=x", "--format=nagios"):
        done = disk("diagnose", "--forget", "disk", option)
        assert (done.status, done.out) == (1, "")
        assert done.err.endswith(" stands by itself\n")


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        ("Ok", 0, "DIAGNOSE OK - Ok"),
        ("absent", 0, "DIAGNOSE OK - Ok"),
        ("suspect", 1, "DIAGNOSE WARNING - suspect; disk:0 suspect"),
        ("live-repair Ok", 1, "DIAGNOSE WARNING - live-repair; disk:0 live-repair"),
        ("evacuate", 2, "DIAGNOSE CRITICAL - evacuate; disk:0 evacuate"),
        (
            "evacuate-failover unknown",
            2,
            "DIAGNOSE CRITICAL - evacuate-failover; disk:0 evacuate-failover; "
            "unknown: disk (no / answer)",
        ),
        ("Ok unknown", 3, "DIAGNOSE UNKNOWN - Ok; unknown: disk (no / answer)"),
        (
            "unknown",
            3,
            "DIAGNOSE UNKNOWN - nothing is known about this node: disk: no / answer",
        ),
    ],
)
def test_nagios(disk: Front, words: str, status: int, line: str) -> None:
    says(disk, words)
    done = disk("diagnose", "--format", "nagios")
    assert (done.status, done.out, done.err) == (status, f"{line}\n", "")


def test_nagios_without_memory(disk: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens is not the exit status of a warning."""

    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("ganeti_steward.diagnose.cli.diagnose.diagnose_node", fail)
    done = disk("diagnose", "--format=nagios")
    assert (done.status, done.out) == (3, "DIAGNOSE UNKNOWN - MemoryError: no message\n")


def test_nagios_is_short_and_always_answers(disk: Front) -> None:
    says(disk, "evacuate " * 40)
    out = disk("diagnose", "--format=nagios").out
    assert "disk:4 evacuate and 35 more" not in out
    assert out.endswith(" and 35 more\n")
    disk.config_file.write_text("[diagnose]\ncollectors = 5")
    done = disk("diagnose", "--format=nagios")
    assert (done.status, done.err) == (3, "")
    assert done.out.startswith("DIAGNOSE UNKNOWN - configuration ")


def test_options_that_exclude_each_other(disk: Front) -> None:
    for options in (
        ("--report", "--format=table"),
        ("--sign", "--format=table"),
        ("--check", "/dev/null", "--report"),
        ("--check", "/dev/null", "--output", "/tmp/x"),
    ):
        done = disk("diagnose", *options)
        assert (done.status, done.out) == (1, "")
    done = disk("diagnose", "--report", "--format=nagios")
    assert (done.status, done.out.split(" - ")[0]) == (3, "DIAGNOSE UNKNOWN")
    assert disk("diagnose", "--format=xml").status == 2


@contextmanager
def hanging(disk: Front) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A check, and the run it hangs in, from when it does so."""
    path = program(disk.path, "check_hang", HANGING)
    configure(disk, tables=f'[nagios.hang]\ncommand = ["{path}"]\ntime-limit = 3600')
    arguments = [PROGRAMS / "gnt-steward", "diagnose"]
    environment = {"GNT_STEWARD_CONFIG": str(disk.config_file), "PYTHONPATH": str(disk.modules)}
    with (
        ended_at_last(path),
        subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE) as run,
    ):
        try:
            wait_until(lambda: len(notes(path).split()) == 2, "the check")
            yield path, run
        finally:
            run.kill()


def test_another_run_is_under_way(disk: Front) -> None:
    """The first one's check hangs until the test is done with the second."""
    with hanging(disk):
        done = disk.run("diagnose")
        assert (done.status, done.out) == (75, "")
        lock = disk.path / "diagnose" / "lock"
        assert done.err == f"gnt-steward diagnose: another run is under way (it holds {lock})\n"
        done = disk.run("diagnose", "--format=nagios")
        assert (done.status, done.err) == (3, "")
        assert done.out.startswith("DIAGNOSE UNKNOWN - another run is under way")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_run_that_is_ended_leaves_nothing_running(disk: Front, number: signal.Signals) -> None:
    with hanging(disk) as (path, run):
        run.send_signal(number)
        wait_until(lambda: run.poll() is not None, "the end")
        assert run.returncode == (2 if number == signal.SIGINT else 128 + number)
        assert run.stdout is not None
        assert run.stdout.read() == b""
        for line in notes(path).split():
            wait_until(lambda pid=int(line): not is_running(pid), "the end of the check")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_not_as_root(disk: Front, request: pytest.FixtureRequest) -> None:
    """The object is printed, though nothing can be stored; standard error stays empty."""
    says(disk, "live-repair")
    disk("diagnose")
    base = Path(tempfile.gettempdir())
    for place in (disk.path, *takewhile(lambda path: path != base, disk.path.parents)):
        open_up(request, place, 0o755)
    let_everybody_reach_python(request)
    before = sorted((disk.path / "diagnose").iterdir())
    assert as_other_user(disk, "diagnose") == (0, ILL, "")
    status, out, err = as_other_user(disk, "diagnose", "-v")
    assert (status, out) == (0, ILL)
    assert "unknown: diagnose: nothing is kept from run to run: " in err
    assert sorted((disk.path / "diagnose").iterdir()) == before


def as_other_user(front: Front, *arguments: str) -> tuple[int, str, str]:
    """A call by a user without any rights."""
    streams = [front.path / name for name in ("user.out", "user.err")]
    pid = os.fork()
    if not pid:
        status = 99
        try:
            sys.stdout, sys.stderr = (path.open("w") for path in streams)
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            status = cli.main(arguments)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)
    _, ended = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(ended), streams[0].read_text(), streams[1].read_text()


def test_help_lists_the_exit_statuses(disk: Front) -> None:
    out = " ".join(disk("diagnose", "--help").out.split())
    for text in (
        "75 another run is under way",
        "3 with --format nagios: UNKNOWN",
        "1 nothing is known",
    ):
        assert text in out
