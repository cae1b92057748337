"""The page for users of htools: every option of the installed programs, and ours beside it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from asserting import some
from command_parsers import parsers
from paths import DOCS
from thorough import often

from ganeti_steward.core.iallocator.main import USAGE

if TYPE_CHECKING:
    from front import Front

PAGE: Final = (DOCS / "how-to" / "come-from-htools.md").read_text()
HAIL: Final = Path("/usr/lib/ganeti/iallocators/hail")
PROGRAMS: Final = Path("/usr/lib/ganeti/default/usr/bin")
#: The section about what several tools have; the table of a tool goes before it.
SHARED: Final = "Options of several tools"
#: Section of the page -> the command of ours beside which its options stand; hail's: the allocator.
#: Empty where no command takes the place of the tool.
OURS: Final = {
    "hail": "iallocator",
    "hbal": "balance",
    "hspace": "capacity",
    "hcheck": "check",
    "hinfo": "check",
    "hroller": "maintenance plan",
    "hsqueeze": "",
    "hscan": "",
    "harep": "",
    "gnt-filter": "filter",
}
_OPTION: Final = re.compile(r"(?<![\w-])(--?[a-zA-Z][\w-]*)")
#: The options at the beginning of a line of a help text: -h --help, -O NODE --offline=NODE,
#: -C[FILE] --print-commands[=FILE], --output=FIELDS, -o FIELDS.
_HELP: Final = re.compile(r"^ *(-\w\b|--[\w-]+)(?:\S*(?: [A-Z]+)?,? +(--?[\w-]+))?", re.MULTILINE)


def rows(title: str) -> list[tuple[list[str], str]]:
    """Each row of the table: the names in its first cell, and what is here in their place."""
    found = re.findall(r"^\| (`[^|]+) \| ([^|]+) \|$", section(title), re.MULTILINE)
    return [(re.findall(r"`([^`]+)`", first), second) for first, second in found]


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def named(title: str) -> list[str]:
    return [name for names, _ in rows(title) for name in names]


def described(tool: str) -> dict[str, str]:
    """Each option of the tool -> what the page has in its place; the tool's own table wins."""
    every = [*rows(SHARED), *rows(tool)]
    cells = {name: cell for names, cell in every for name in names}
    return {name: cells[name] for name in sorted(theirs(tool) & {*cells})}


@cache
def printed(*command: str) -> str:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def options_of(*command: str) -> set[str]:
    lines = printed(*command, "--help").split("Options\n=======")[-1]
    found = {option for pair in _HELP.findall(lines) for option in pair if option}
    assert "--help" in found
    return found


def sub_commands() -> list[str]:
    return re.findall(r"^ ([a-z-]+) +- ", printed("gnt-filter", "--help"), re.MULTILINE)


def theirs(tool: str) -> set[str]:
    if tool != "gnt-filter":
        return options_of(str(HAIL) if tool == "hail" else tool)
    words = sub_commands()
    assert len(words) > 5
    # Each call takes half a second; add and list have all options.
    called = words[:: often(3, 1)]
    return {option for word in called for option in options_of(tool, word)} | {*words}


def test_every_installed_program_has_a_section() -> None:
    if not PROGRAMS.is_dir():
        pytest.skip("htools are not installed")
    assert {path.name for path in some(PROGRAMS.glob("h*"))} - {"htools"} <= {*OURS}


@pytest.mark.parametrize("tool", OURS)
def test_every_option_of_theirs_is_in_a_table(tool: str) -> None:
    assert sorted(theirs(tool) - {*named(tool)} - {*named(SHARED)}) == []


@pytest.mark.parametrize("tool", OURS)
def test_the_tables_have_no_other_options(tool: str) -> None:
    assert sorted({*named(tool)} - theirs(tool)) == []
    assert len({*named(tool)}) == len(named(tool))


def test_what_several_tools_have_is_in_several() -> None:
    for name in some(named(SHARED)):
        assert sum(name in theirs(tool) for tool in OURS) > 1, name


def known(command: str) -> set[str]:
    """The options of a command of ours, and the names of its sub-commands."""
    if command == "iallocator":
        return {*_OPTION.findall(USAGE)}
    words = tuple(command.split())
    found = [(one, parser) for one, parser in parsers() if one[: len(words)] == words]
    options = {
        name for _, parser in found for action in parser._actions for name in action.option_strings
    }
    return options | {one[-1] for one, _ in found}


@pytest.mark.parametrize("tool", [tool for tool, command in OURS.items() if command])
def test_ours_exist(tool: str) -> None:
    ours = known(OURS[tool])
    for theirs_name, cell in some(described(tool).items()):
        place = re.split("[;:]", cell)[0]
        names = [theirs_name] if place == "the same" else _OPTION.findall(place)
        assert [name for name in names if name not in ours] == [], f"{tool} {theirs_name}"


@pytest.mark.parametrize("title", [SHARED, *(tool for tool in OURS if tool != "hinfo")])
def test_where_there_is_none_the_page_says_what_to_do(title: str) -> None:
    """Or why."""
    cells = [cell for _, cell in rows(title)]
    assert "none" not in cells
    assert title in ("hail", "hcheck") or any(cell.startswith("none: ") for cell in cells)


def test_a_simulated_cluster(front: Front) -> None:
    """The file on the page, and the nodes added to it, have hspace's count."""
    text = section("hspace")
    file = front.path / "empty.data"
    file.write_text(re.findall(r"```\n(.*?)```", text, re.DOTALL)[0])
    (line,) = re.findall(r"^    gnt-steward (capacity .*)$", text, re.MULTILINE)
    spec = re.findall(r"--simulate=(preferred,20,\S+)`", text)[0].replace(",20,", ",4,")
    size = "--standard-alloc=100g,8g,2"
    words = line.replace("empty.data", str(file)).replace(" 19", " 3").split()
    front.configure()
    done = front(*words, size, "--only=standard", "--disk-template=drbd", "--json")
    ours = json.loads(done.out)["runs"][0]["count"]
    # Its tiered count of the largest size takes minutes.
    sizes = (size, size.replace("standard", "tiered"), "--disk-template=drbd")
    found = printed("hspace", f"--simulate={spec}", *sizes, "--machine-readable")
    assert f"HTS_ALLOC_INSTANCES={ours}\n" in found
    assert ours > 10
