"""The whitelist, with real files of root: nothing outside it is ever run."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from programs import program
from whitelisted import (
    BAD_FILES,
    BAD_PARENTS,
    LIMIT,
    _group,
    _mode,
    _owner,
    run_script,
    says,
)
from whitelists import needs_root

from ganeti_steward.core.process.program import run_program
from ganeti_steward.core.process.trusted_program import Executable, Forbidden
from ganeti_steward.diagnose.sources.whitelist import listing, opened

pytestmark = needs_root


@pytest.mark.parametrize("mode", [0o755, 0o700, 0o555, 0o500, 0o711, 0o655])
def test_a_command_that_may_be_run(commands: Path, mode: int) -> None:
    says(commands, "raid", "good", mode)
    assert run_script(commands) == (0, b"good\n", b"", "")


@pytest.mark.parametrize("name", ["raid", "RAID-6_x", "0", "-", "_"])
def test_names_of_commands(commands: Path, name: str) -> None:
    says(commands, name, "good")
    assert run_script(commands, name).output == b"good\n"


def test_what_a_command_finds(commands: Path) -> None:
    """No arguments, an empty environment, the root directory, the input on stdin."""
    source = """
        import json, os, sys
        with open("/proc/self/environ", "rb") as file:
            environment = file.read().decode()
        print(json.dumps([sys.argv[1:], environment, os.getcwd(), sys.stdin.read()]))
    """
    program(commands, "raid", source, shell="/usr/bin/python3 -IS")
    found = json.loads(run_script(commands, given=b'{"status":"live-repair"}').output)
    assert found == [[], "", "/", '{"status":"live-repair"}']
    assert json.loads(run_script(commands).output)[3] == ""


def test_a_binary_knows_its_name(commands: Path) -> None:
    shutil.copy("/bin/cat", commands / "cat")
    with opened("cat", str(commands)) as descriptor:
        command = [str(commands / "cat"), "/proc/self/cmdline"]
        ended = run_program(command, LIMIT, executable=Executable(descriptor))
    assert ended.output.split(b"\0")[0] == os.fsencode(commands / "cat")


def test_a_script_always_gets_the_same_name(commands: Path) -> None:
    """However many files its caller holds: a finding may show it."""
    program(commands, "raid", "echo $0")
    first = run_script(commands).output
    with open(os.devnull), open(os.devnull):
        assert run_script(commands).output == first


BAD_NAMES = {
    "empty": "",
    "blank": " ",
    "blank at the end": "raid ",
    "blank inside": "ra id",
    "dot": ".",
    "parent": "..",
    "dots": "...",
    "dot inside": "raid.sh",
    "hidden": ".raid",
    "slash": "/",
    "absolute": "/bin/true",
    "below": "sub/raid",
    "above": "../raid",
    "itself": "./raid",
    "slash at the end": "raid/",
    "nul": "raid\0",
    "nul inside": "raid\0.sh",
    "newline": "raid\n",
    "newline before": "\nraid",
    "tab": "raid\t",
    "shell": "raid;id",
    "variable": "$PATH",
    "star": "*",
    "backslash": "ra\\id",
    "letter of another alphabet": "r\u0430id",
    "digit of another alphabet": "raid\u0661",
    "half a character": "raid\udc80",
}


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES)
def test_names_that_are_none(commands: Path, name: str) -> None:
    """Also where there is such a file, and a good one beside it."""
    says(commands, "raid", "good")
    says(commands.parent, "raid", "bad")
    (commands / "sub").mkdir()
    says(commands / "sub", "raid", "bad")
    says(commands, "raid.sh", "bad")
    with pytest.raises(Forbidden, match="is not a command name"):
        run_script(commands, name)


@pytest.mark.parametrize(("spoil", "fault"), BAD_FILES)
def test_files_that_are_not_run(commands: Path, spoil: Callable[[Path], None], fault: str) -> None:
    file = says(commands, "raid", "bad")
    spoil(file)
    with pytest.raises(Forbidden) as caught:
        run_script(commands)
    assert str(caught.value) == fault.format(file)


BAD_DIRECTORIES = [
    (_owner, "{} belongs to 12345:0 (user:group), not to 0:0"),
    (_group, "{} belongs to 0:12345 (user:group), not to 0:0"),
    *[
        (_mode(mode), f"{{}} has the mode {mode:04o}, which is more than 0755")
        for mode in (0o1755, 0o2755, 0o775, 0o757, 0o777, 0o1777)
    ],
]


@pytest.mark.parametrize(("spoil", "fault"), BAD_DIRECTORIES)
@pytest.mark.parametrize("ask", [run_script, lambda path: listing(str(path))], ids=["run", "list"])
def test_directories_in_which_nothing_is_run(
    commands: Path,
    ask: Callable[[Path], object],
    spoil: Callable[[Path], None],
    fault: str,
) -> None:
    says(commands, "raid", "bad")
    spoil(commands)
    with pytest.raises(Forbidden) as caught:
        ask(commands)
    assert str(caught.value) == fault.format(commands)


def test_a_whitelist_that_is_none(commands: Path) -> None:
    file = says(commands, "raid", "bad")
    for place, fault in [
        (commands / "nosuch", f"{commands}/nosuch cannot be opened: No such file or directory"),
        (file, f"{file} is not a directory"),
    ]:
        with pytest.raises(Forbidden) as caught:
            run_script(place)
        assert str(caught.value) == fault


@pytest.mark.parametrize(("spoil", "fault"), BAD_PARENTS)
def test_parents_in_which_others_can_write(
    commands: Path, spoil: Callable[[Path], None], fault: str
) -> None:
    """They could put another whitelist in the place of this one; a sticky bit changes nothing."""
    below = commands.parent / "a" / "b"
    below.mkdir(parents=True)
    says(below, "raid", "good")
    assert run_script(below).output == b"good\n"
    spoil(commands.parent)
    with pytest.raises(Forbidden) as caught:
        run_script(below)
    assert str(caught.value) == fault.format(commands.parent)


def test_below_tmp() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as below:
        says(Path(below), "raid", "bad")
        with pytest.raises(Forbidden, match="/tmp can be written to by others than root"):
            run_script(Path(below))


def test_no_descriptor_is_left(commands: Path) -> None:
    says(commands, "raid", "good")
    (commands / "open").symlink_to("/tmp/nosuch")
    before = os.listdir("/proc/self/fd")
    run_script(commands)
    for name in ("open", "nosuch", "a b"):
        with pytest.raises(Forbidden):
            run_script(commands, name)
    assert os.listdir("/proc/self/fd") == before


def test_listing(commands: Path) -> None:
    """Everything, unchecked: faults of a script are reported where it is to be run."""
    for name in ("raid", "b", "raid.dpkg-old", ".hidden"):
        says(commands, name, "good", 0o644)
    (commands / "a").mkdir()
    assert listing(str(commands)) == [".hidden", "a", "b", "raid", "raid.dpkg-old"]
