"""Checks of Nagios as sources: real programs, every way they can end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from programs import HANGING, ended_at_last, is_running, notes, program
from source_runs import run_check

from ganeti_steward.core.config.parse import parse_config
from ganeti_steward.core.errors import BadConfig
from ganeti_steward.core.model.finding import CheckResult, Finding, Unknown
from ganeti_steward.core.process.following import Ended
from ganeti_steward.diagnose.config.sections import Nagios
from ganeti_steward.diagnose.sources.nagios import interpret

LIMIT = 300.0


def check(path: str, *arguments: str, **keys: Any) -> Nagios:
    return Nagios(**{"command": (path, *arguments), "time_limit": LIMIT} | keys)


def result_of(directory: Path, source: str, **keys: Any) -> CheckResult:
    """What a check says that is a shell script."""
    (one,) = run_check("raid", check(program(directory, "check_raid", source), **keys))
    return one


def test_three_lines_of_configuration(tmp_path: Path) -> None:
    path = program(tmp_path, "check_raid", "echo 'RAID CRITICAL - disk 3 failed'; exit 2")
    text = f'[nagios.raid]\ncommand = ["{path}"]\ncritical = "evacuate"'
    config = parse_config("steward.toml", text.encode())
    assert run_check("raid", config.named(Nagios)["raid"]) == [
        Finding("nagios:raid", "evacuate", "", {"state": "CRITICAL"})
    ]


@pytest.mark.parametrize(
    ("status", "found"),
    [
        (0, Finding("nagios:raid", "Ok")),
        (1, Finding("nagios:raid", "Ok")),
        (2, Finding("nagios:raid", "live-repair", "", {"state": "CRITICAL"})),
        (3, Unknown("nagios:raid", "reports UNKNOWN: the line")),
        (4, Unknown("nagios:raid", "ended with exit status 4")),
        (127, Unknown("nagios:raid", "ended with exit status 127")),
    ],
)
def test_statuses_where_nothing_is_configured(
    tmp_path: Path, status: int, found: CheckResult
) -> None:
    assert result_of(tmp_path, f"echo 'the line | figures=1'; exit {status}") == found


@pytest.mark.parametrize("status", range(4))
@pytest.mark.parametrize("meaning", ["Ok", "live-repair", "evacuate-failover", "unknown"])
def test_a_meaning_for_each_status(status: int, meaning: str) -> None:
    key = ("ok", "warning", "critical", "unknown")[status]
    one = interpret(
        "nagios:raid", check("/x", **{key: meaning}, repair="fix"), Ended(status, b"", b"")
    )
    if meaning == "unknown":
        assert one == Unknown("nagios:raid", f"reports {key.upper()}")
    elif meaning == "Ok":
        assert one == Finding("nagios:raid", "Ok")
    else:
        command = "fix" if meaning == "live-repair" else ""
        assert one == Finding("nagios:raid", meaning, command, {"state": key.upper()})


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (b"RAID CRITICAL - disk 3 | time=0.3s\nmore\n", "RAID CRITICAL - disk 3"),
        (b"  disk\t3 \x1b[1m|", r"disk\t3 \x1b[1m"),
        (b"gr\xc3\xb6\xdfe", r"grö\xdfe"),
        (b"x" * 1000, "x" * 200),
        (b"| time=1", None),
        (b"\nsecond line", None),
        (b"", None),
    ],
)
def test_text(output: bytes, text: str | None) -> None:
    """Only where it is configured: many checks print text that changes by itself."""
    ended = Ended(2, output, b"")
    more = {} if text is None else {"text": text}
    for wanted in (True, False):
        one = interpret("nagios:raid", check("/x", text=wanted), ended)
        details = {"state": "CRITICAL"} | (more if wanted else {})
        assert one == Finding("nagios:raid", "live-repair", "", details)


def test_ended_by_a_signal(tmp_path: Path) -> None:
    assert result_of(tmp_path, "kill -KILL $$") == Unknown("nagios:raid", "was ended by SIGKILL")


def test_a_check_that_hangs(tmp_path: Path) -> None:
    path = program(tmp_path, "check_raid", HANGING)
    with ended_at_last(path):
        (one,) = run_check("raid", check(path, time_limit=0.5))
        assert one == Unknown("nagios:raid", "killed after 0.5 s")
        ids = [int(line) for line in notes(path).split()]
        assert len(ids) == 2
        assert not any(map(is_running, ids))


def test_a_flood(tmp_path: Path) -> None:
    (one,) = run_check("raid", check(program(tmp_path, "check_raid", "exec yes")))
    assert isinstance(one, Unknown)
    assert "printed more than 1048576 bytes" in one.reason


def test_what_it_finds_around_itself(tmp_path: Path) -> None:
    source = """
        [ "$PWD" = / ] && [ "$1 $2" = "-w 10%" ] && [ -z "$HOME" ] && [ -z "$(cat)" ] &&
        case $PATH in *:/usr/sbin:*) exit 0 ;; esac
        exit 2
    """
    path = program(tmp_path, "check_raid", source)
    assert run_check("raid", check(path, "-w", "10%")) == [Finding("nagios:raid", "Ok")]


def test_what_must_not_be_run(tmp_path: Path) -> None:
    path = program(tmp_path, "check_raid", "echo ran > NOTES")
    os.chmod(path, 0o777)
    missing = f"{tmp_path}/nosuch"
    assert run_check("raid", check(path)) == [
        Unknown("nagios:raid", f"not run: {path} can be written to by others than root")
    ]
    assert run_check("raid", check(missing)) == [
        Unknown("nagios:raid", f"not run: {missing} cannot be opened: No such file or directory")
    ]
    assert notes(path) == ""


def test_no_program_at_all(tmp_path: Path) -> None:
    file = tmp_path / "check_raid"
    file.write_bytes(b"\x7fELF nonsense")
    file.chmod(0o755)
    assert run_check("raid", check(str(file))) == [
        Unknown("nagios:raid", "cannot be run: Exec format error")
    ]


@pytest.mark.parametrize("name", ["a:b", "a b", "", "a/b", "ä"])
def test_names_that_spoil_a_source(name: str) -> None:
    text = f'[nagios."{name}"]\ncommand = ["/bin/true"]'
    with pytest.raises(BadConfig, match="letters, digits"):
        parse_config("steward.toml", text.encode())
