"""``gnt-steward diagnose --check``: what is wrong with an object or a command."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from programs import HANGING, ended_at_last, program

if TYPE_CHECKING:
    from front import Front

from diagnose_front import configure


def write(front: Front, text: str) -> str:
    file = front.path / "object.json"
    file.write_text(text)
    return str(file)


def check(front: Front, what: str) -> tuple[int, list[str]]:
    """Status and lines, without the name of what is checked and without times."""
    done = front("diagnose", "--check", what)
    assert done.err == ""
    lines = [line.removeprefix(f"{what}: ") for line in done.out.splitlines()]
    return done.status, [line for line in lines if not line.startswith("note: run ")]


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ('{"status":"Ok"}', ["OK"]),
        (
            '{"status":"live-repair"}',
            [
                "note: reports live-repair, which takes effect at once",
                "note: live-repair without a command: no repair is run",
                "OK",
            ],
        ),
        (
            '{"status":"live-repair","command":"fix","details":"' + "x" * 9000 + '"}',
            [
                "note: reports live-repair with the command fix, which takes effect at once",
                "note: the details have more than 8192 bytes: only their hash is reported",
                "OK",
            ],
        ),
        ("", ["it is empty"]),
        (
            '{"status":"Broken","status":"ok"}',
            [
                "the key 'status' is there twice",
                "status: one of Ok, suspect, live-repair, evacuate, evacuate-failover is expected, "
                "found the text 'ok'",
            ],
        ),
        ('{"status":"Ok"} done', ["something follows the JSON value (line 1 column 17)"]),
        (
            '{"status":"live-repair","command":"fix.sh"}',
            ["command: 'fix.sh' is not a command name (letters, digits, _ and - only)"],
        ),
    ],
)
def test_check_of_a_file(disk: Front, text: str, printed: list[str]) -> None:
    status, lines = check(disk, write(disk, text))
    assert lines == printed
    assert status == (0 if printed[-1] == "OK" else 1)


def test_check_of_what_is_not_there(disk: Front) -> None:
    done = disk("diagnose", "--check", "/nonexistent")
    assert (done.status, done.out) == (1, "")
    assert done.err == "gnt-steward diagnose: /nonexistent: No such file or directory\n"


def test_check_of_standard_input(disk: Front) -> None:
    done = disk.run("diagnose", "--check", "-", stdin='{"status":"Ok"}')
    assert (done.status, done.out) == (0, "-: OK\n")
    done = disk.run("diagnose", "--check", "-", stdin="{}")
    assert (done.status, done.out) == (1, "-: the key 'status' is missing\n")


@pytest.mark.parametrize(
    ("source", "printed"),
    [
        ("""echo '{"status":"Ok"}'""", ["OK"]),
        ("echo oops; exit 3", ["ended with exit status 3: what it printed is not used", "..."]),
        ("kill -SEGV $$", ["was ended by SIGSEGV: what it printed is not used", "it is empty"]),
        (
            """echo '{"status":"evacuate","details":{"at":"'$(date +%s)'","n":[1,'$$']}}'""",
            [
                "note: reports evacuate, which takes effect at once",
                "differs from run to run: details.at was ...",
                "differs from run to run: details.n[1] was ...",
            ],
        ),
        (
            """test -e NOTES && echo '{"status":"Ok"}' || echo '{"status":"evacuate","x":1}'
            touch NOTES""",
            [
                "note: reports evacuate, which takes effect at once",
                "note: unknown members become part of the details: 'x'",
                'differs from run to run: status was "evacuate", then "Ok"',
                "differs from run to run: x was 1, then missing",
            ],
        ),
        (
            """test -e NOTES && echo '{"status":"Ok","details":1}' ||
            echo '{"details":1,"status":"Ok"}'; touch NOTES""",
            ["prints the same object in another order each time"],
        ),
        (
            "echo $$",
            [
                *["an object is expected, found the number ..."] * 2,
                "prints something else each time",
            ],
        ),
        (
            """echo warning >&2; echo '{"status":"Ok"}'""",
            ["note: prints on standard error, which goes to the log: 'warning'", "OK"],
        ),
        (
            # Not even a path: the result must not depend on the caller.
            """[ -z "$HOME$GNT_STEWARD_CONFIG" ] && [ "$PWD" = / ] && [ -z "$(cat)" ] &&
            [ $# = 0 ] && echo '{"status":"Ok"}'""",
            ["OK"],
        ),
        (
            # It is run by descriptor, so it cannot look for files beside itself.
            """[ "$(dirname "$0")" = /proc/self/fd ] && echo '{"status":"Ok"}'""",
            ["OK"],
        ),
    ],
)
def test_check_of_a_command(disk: Front, source: str, printed: list[str]) -> None:
    path = program(disk.path, "raid", "PATH=/usr/bin:/bin\n" + source)
    status, lines = check(disk, path)
    matches(lines, printed)
    assert status == (0 if printed[-1] == "OK" else 1)


def test_check_of_a_command_where_others_can_write(disk: Front) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as below:
        status, lines = check(disk, program(Path(below), "raid", """echo '{"status":"Ok"}'"""))
    fault = "/tmp can be written to by others than root"
    assert (status, lines) == (0, [f"note: would not be run where it is: {fault}", "OK"])


def matches(lines: list[str], printed: list[str]) -> None:
    """The lines are those given; ``...`` at an end stands for anything."""
    seen: list[Any] = []
    for line, wanted in zip(lines, printed, strict=False):
        start = wanted.removesuffix("...")
        seen.append(wanted if wanted.endswith("...") and line.startswith(start) else line)
    assert [*seen, *lines[len(printed) :]] == printed


def test_check_of_a_command_that_cannot_be_one(disk: Front) -> None:
    path = program(disk.path, "raid.sh", """echo '{"status":"Ok"}'""")
    assert check(disk, path) == (
        1,
        ["'raid.sh' is not a command name (letters, digits, _ and - only)"],
    )
    os.chmod(path, 0o644)
    assert check(disk, path) == (1, ["it is a program, but not executable"])
    nonsense = disk.path / "raid"
    nonsense.write_bytes(b"\x7fELF nonsense")
    nonsense.chmod(0o755)
    status, lines = check(disk, str(nonsense))
    assert (status, lines[-1]) == (1, "cannot be run: Exec format error")


def test_check_of_a_command_that_hangs(disk: Front) -> None:
    configure(disk, "time-limit = 0.3\noutput-limit = 1000")
    path = program(disk.path, "raid", HANGING)
    with ended_at_last(path):
        status, lines = check(disk, path)
        assert (status, lines) == (1, ["killed after 0.3 s", "it is empty"])
    status, lines = check(disk, program(disk.path, "flood", "/usr/bin/yes"))
    assert (status, lines[0]) == (1, "killed, it printed more than 1000 bytes")


def test_a_finding_that_has_to_last(disk: Front) -> None:
    """It is shown at once all the same."""
    configure(disk, "appear-after = 3")
    _, lines = check(disk, write(disk, '{"status":"evacuate"}'))
    assert lines == ["note: reports evacuate, which takes effect after 3 runs in a row", "OK"]
