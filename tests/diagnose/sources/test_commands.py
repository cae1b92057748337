"""Commands as sources: whatever one does, it ends in a message and disturbs no other source."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest
from commanded import FINE, LIMIT, OK, results_from_a_dead_disk, results_without_signals, unknown
from programs import HANGING, ended_at_last, is_running, notes, program, wait_until
from source_runs import run_command
from unkillable import frozen_filesystem, needs_freezing, state
from whitelists import needs_root, safe_directory

from ganeti_steward.core.model.finding import CheckResult, Finding, NotApplicable, Unknown
from ganeti_steward.core.process import following, supervisor
from ganeti_steward.diagnose.sources import commands as commands_module
from ganeti_steward.diagnose.sources.commands import find_commands

pytestmark = needs_root


#: Seconds, for those that do not.
SHORT = 0.5


PYTHON = "/usr/bin/python3 -IS"


def result_of(
    commands: Path, source: str, *, limit: float = LIMIT, shell: str = "/bin/sh"
) -> CheckResult:
    """What a script says as the command ``raid``; the processes it notes are ended."""
    path = program(commands, "raid", source, shell=shell)
    with ended_at_last(path):
        (one,) = run_command("raid", limit, 10**6, directory=str(commands))
    return one


KILLED = unknown("killed after 0.5 s")


def test_finding(commands: Path) -> None:
    source = """
        echo '{"status": "live-repair", "command": "swap", "details": {"slot": 3}}'
        echo 'slot 3 is bad' >&2
    """
    assert result_of(commands, source) == Finding(
        "command:raid", "live-repair", "swap", {"slot": 3}
    )


ENDINGS = {
    "no output": ("true", "printed no diagnose object: it is empty"),
    "only blanks": ("echo; echo ' '", "printed no diagnose object: it is empty"),
    "a text": ("echo fine", "printed no diagnose object: it is not JSON"),
    "binary": ("head -c 5000 /bin/sh", "printed no diagnose object: it is not UTF-8"),
    "invalid utf-8": (
        r"""printf '{"status":"Ok","details":"\377"}'""",
        "printed no diagnose object: it is not UTF-8",
    ),
    "several values": (
        f"{FINE}; {FINE}",
        "printed no diagnose object: something follows the JSON value",
    ),
    "garbage behind": (
        f"{FINE}; echo done",
        "printed no diagnose object: something follows the JSON value",
    ),
    "a key twice": (
        """echo '{"status":"Ok","status":"evacuate"}'""",
        "printed no diagnose object: the key 'status' is there twice",
    ),
    "no number": (
        """echo '{"status":"Ok","details":NaN}'""",
        "printed no diagnose object: NaN is not JSON",
    ),
    "unknown status": (
        """echo '{"status":"broken"}'""",
        "printed no diagnose object: status: one of Ok, suspect, live-repair, evacuate, "
        "evacuate-failover is expected, found the text 'broken'",
    ),
    "bad command": (
        """echo '{"status":"live-repair","command":"../swap"}'""",
        "printed no diagnose object: command: '../swap' is not a command name "
        "(letters, digits, _ and - only)",
    ),
    "no object": (
        "echo '[]'",
        "printed no diagnose object: an object is expected, found a list",
    ),
    "exit status": (f"{FINE}; exit 3", "ended with exit status 3"),
    "signal": (f"{FINE}; kill -SEGV $$", "was ended by SIGSEGV"),
    "killed": (f"{FINE}; kill -KILL $$", "was ended by SIGKILL"),
    "realtime signal": (f"{FINE}; kill -40 $$", "was ended by the signal 40"),
    "flood": ("cat /dev/zero", "killed, it printed more than 1000000 bytes"),
    "flood of objects": (
        f"while {FINE}; do :; done",
        "killed, it printed more than 1000000 bytes",
    ),
    "flood of a child": (
        "cat /dev/zero & exec sleep 3600",
        "killed, it printed more than 1000000 bytes",
    ),
}


@pytest.mark.parametrize(("source", "reason"), ENDINGS.values(), ids=ENDINGS)
def test_endings(commands: Path, source: str, reason: str) -> None:
    assert result_of(commands, source) == unknown(reason)


HUGE = {
    "lists": (
        'print("[" * 100000 + "]" * 100000)',
        "lists and objects are nested more than 64 deep",
    ),
    "objects": (
        """print('{"a":' * 100000 + "1" + "}" * 100000)""",
        "lists and objects are nested more than 64 deep",
    ),
    "details": (
        """print('{"status":"Ok","details":' + "[" * 500 + "]" * 500 + "}")""",
        "lists and objects are nested more than 64 deep",
    ),
    "integer": (
        """print('{"status":"Ok","details":' + "9" * 900000 + "}")""",
        "the number 999999999999999999999999999... does not fit into 64 bits",
    ),
    "exponent": (
        """print('{"status":"Ok","details":1e999999999}')""",
        "the number 1e999999999 is too large",
    ),
}


@pytest.mark.parametrize(("source", "fault"), HUGE.values(), ids=HUGE)
def test_huge_values(commands: Path, source: str, fault: str) -> None:
    found = result_of(commands, source, shell=PYTHON)
    assert found == unknown(f"printed no diagnose object: {fault}")


HANGS = {
    "sleeps": "sleep 3600",
    "sleeps after its object": f"{FINE}; sleep 3600",
    "ignores the request": HANGING,
    "ends well when signalled": f"trap 'exit 0' TERM; {FINE}; while :; do sleep 0.05; done",
    "turns round": "while :; do :; done",
    "closes its output": "exec >&- 2>&-; sleep 3600",
    "prints, closes, goes on": f"{FINE}; exec >&- 2>&-; sleep 3600",
    "stops itself": "kill -STOP $$",
    "floods its errors": "cat /dev/zero >&2",
    "drips": "while :; do echo; sleep 0.01; done",
    "waits for a child": "setsid -w sh -c 'echo $$ > NOTES; exec sleep 3600'",
}


@pytest.mark.parametrize("source", HANGS.values(), ids=HANGS)
def test_hangs(commands: Path, source: str) -> None:
    assert result_of(commands, source, limit=SHORT) == KILLED


LEAVES = {
    "a child in the group": f"sleep 3600 & echo $! > NOTES; {FINE}",
    "a child that ignores": f"sh -c \"trap '' TERM HUP; sleep 3600\" & echo $! > NOTES; {FINE}",
    "a daemon": "setsid sh -c 'echo $$ > NOTES; exec sleep 3600' & "
    f"while ! [ -s NOTES ]; do sleep 0.01; done; {FINE}",
    "a daemon without output": "setsid sh -c 'echo $$ > NOTES; exec sleep 3600' >&- 2>&- & "
    f"while ! [ -s NOTES ]; do sleep 0.01; done; {FINE}",
}


@pytest.mark.parametrize("source", LEAVES.values(), ids=LEAVES)
def test_leaves_something_behind(commands: Path, source: str) -> None:
    """It has ended, and what it printed counts, even if another process holds its output."""
    assert result_of(commands, source) == OK


def test_the_group_is_ended(commands: Path) -> None:
    """With a child that ignores the polite signal, after a time-out and after the end."""
    for source, limit in [(HANGING, SHORT), (LEAVES["a child that ignores"], LIMIT)]:
        path = program(commands, "raid", source)
        with ended_at_last(path):
            run_command("raid", limit, 1000, directory=str(commands))
            pids = [int(line) for line in notes(path).split()]
            assert pids
            wait_until(lambda pids=pids: not any(map(is_running, pids)), "the end of the group")
        os.unlink(f"{path}.notes")


def test_errors_do_not_count(commands: Path) -> None:
    assert result_of(commands, f"head -c 3000000 /dev/zero >&2; {FINE}") == OK


def test_errors_are_logged(commands: Path, caplog: pytest.LogCaptureFixture) -> None:
    """For people, so on lines of their own and without what moves a terminal's cursor."""
    result_of(commands, rf"printf 'one\033[2J\ntwo\377\n' >&2; {FINE}")
    assert [record.getMessage() for record in caplog.records] == [
        "command:raid: one\\x1b[2J",
        "command:raid: two\\xff",
    ]


def test_a_flood_of_errors_does_not_fill_the_log(
    commands: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result_of(commands, f"head -c 3000000 /dev/zero >&2; {FINE}")
    result_of(commands, f"head -c 3000000 /dev/zero | tr '\\0' '\\n' >&2; {FINE}")
    assert len(caplog.records) < 500
    assert max(len(record.getMessage()) for record in caplog.records) < 3000


@needs_freezing
def test_cannot_be_killed(commands: Path) -> None:
    """A real process in uninterruptible sleep is abandoned."""
    with safe_directory() as around, tempfile.TemporaryDirectory() as beside:
        path = Path(program(commands, "raid", f"echo $$ > {beside}/pid; echo > {around}/frozen/x"))
        with frozen_filesystem(around):
            found = run_command("raid", SHORT, 1000, directory=str(path.parent))
            pid = int(Path(beside, "pid").read_text())
            assert state(pid) == "D"
            os.kill(pid, signal.SIGKILL)
            assert state(pid) == "D"
        wait_until(lambda: not is_running(pid), "its end")
    assert found == [KILLED]


def test_looking_at_it_hangs(commands: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where it lies on a dead disk; a stand-in, for a disk that dies on demand."""
    program(commands, "raid", FINE)
    monkeypatch.setattr(commands_module, "_results", results_from_a_dead_disk)
    assert run_command("raid", SHORT, 1000, directory=str(commands)) == [KILLED]


def test_signals_that_do_nothing(commands: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for what cannot be killed, where no filesystem can be frozen."""
    monkeypatch.setattr(following, "signal_group", lambda pid, number: True)
    monkeypatch.setattr(supervisor, "end_descendants", frozenset)
    monkeypatch.setattr(commands_module, "_results", results_without_signals)
    path = program(commands, "raid", "echo $$ > NOTES; exec sleep 3600")
    with ended_at_last(path):
        assert run_command("raid", SHORT, 1000, directory=str(commands)) == [KILLED]
        assert is_running(int(notes(path)))


@pytest.mark.parametrize(
    ("source", "shell", "reason"),
    [
        ("", "/nonexistent/shell", "/nonexistent cannot be opened: No such file or directory"),
        ("", "/etc/passwd", "/etc/passwd is not executable"),
    ],
)
def test_no_interpreter(commands: Path, source: str, shell: str, reason: str) -> None:
    assert result_of(commands, source, shell=shell) == unknown(
        f"not run: the interpreter of {commands}/raid: {reason}"
    )


def test_no_program(commands: Path) -> None:
    file = commands / "raid"
    file.write_text("no first line\n")
    file.chmod(0o755)
    assert run_command("raid", LIMIT, 1000, directory=str(commands)) == [
        unknown("cannot be run: Exec format error")
    ]


def test_not_allowed(commands: Path) -> None:
    Path(program(commands, "raid", FINE)).chmod(0o775)
    assert run_command("raid", LIMIT, 1000, directory=str(commands)) == [
        unknown(f"not run: {commands}/raid has the mode 0775, which is more than 0755")
    ]
    assert run_command("../raid", LIMIT, 1000, directory=str(commands)) == [
        Unknown(
            "command:../raid",
            "not run: '../raid' is not a command name (letters, digits, _ and - only)",
        )
    ]


def test_the_output_limit(commands: Path) -> None:
    """What is within it counts, however long it becomes when it is written in ASCII."""
    raw = '{"status":"Ok","details":"' + "\N{SNOWMAN}" * 100000 + '"}'
    source = f"import sys; sys.stdout.buffer.write({raw!a}.encode())"
    program(commands, "raid", source, shell=PYTHON)
    size = len(raw.encode())
    (found,) = run_command("raid", LIMIT, size, directory=str(commands))
    assert found == Finding("command:raid", "Ok", "", "\N{SNOWMAN}" * 100000)
    (found,) = run_command("raid", LIMIT, size - 1, directory=str(commands))
    assert isinstance(found, Unknown)
    assert f"printed more than {size - 1} bytes" in found.reason


def test_one_bad_command_does_not_hide_another(commands: Path) -> None:
    for name, source in [
        ("a", "sleep 3600"),
        ("b", "cat /dev/zero"),
        ("c", "kill -9 0"),
        ("d", FINE),
    ]:
        program(commands, name, source)
    names, printed_first = find_commands(["*"], str(commands))
    found = [
        one for name in names for one in run_command(name, SHORT, 10**6, directory=str(commands))
    ]
    assert printed_first == []
    assert [type(one) for one in found] == [Unknown, Unknown, Unknown, Finding]
    assert found[3] == Finding("command:d", "Ok")


def test_which_commands(commands: Path) -> None:
    for name in ("b", "a", "c", "raid.dpkg-old", ".x"):
        program(commands, name, FINE)
    left_out = NotApplicable("command", "no names of commands, so not run: '.x', 'raid.dpkg-old'")
    for wanted, names, also in [
        (["*"], ["a", "b", "c"], [left_out]),
        (["c", "*"], ["c", "a", "b"], [left_out]),
        (["*", "a"], ["b", "c", "a"], [left_out]),
        (["c", "*", "a", "*"], ["c", "b", "a"], [left_out]),
        (["b", "nosuch", "b"], ["b", "nosuch"], []),
        ([], [], []),
    ]:
        assert find_commands(wanted, str(commands)) == (names, also)


def test_no_whitelist(commands: Path) -> None:
    nosuch = str(commands / "nosuch")
    assert find_commands(["a", "*"], nosuch) == (
        ["a"],
        [NotApplicable("command", f"there is no {nosuch}")],
    )
    commands.chmod(0o777)
    assert find_commands(["*"], str(commands)) == (
        [],
        [
            Unknown(
                "command",
                f"no command is run: {commands} has the mode 0777, which is more than 0755",
            )
        ],
    )
    os.symlink("nowhere", nosuch := str(commands.parent / "dangling"))
    ((), (found,)) = find_commands(["*"], nosuch)
    assert isinstance(found, Unknown)


def test_the_empty_name_means_no_command(commands: Path) -> None:
    program(commands, "raid", FINE, shell="/bin/sh")
    for wanted in ((), ("",)):
        assert find_commands(wanted, str(commands)) == ([], [])
