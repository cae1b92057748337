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
#: Section of the page -> the command of ours beside which its options stand; hail's: the allocator.
OURS: Final = {
    "hail": "",
    "hbal": "balance",
    "hspace": "capacity",
    "hcheck": "check",
    "harep": "",
    "gnt-filter": "filter",
}
_OPTION: Final = re.compile(r"(?<![\w-])(--?[a-zA-Z][\w-]*)")
#: The options at the beginning of a line of a help text: -h --help, -O NODE --offline=NODE,
#: -C[FILE] --print-commands[=FILE], --output=FIELDS, -o FIELDS.
_HELP: Final = re.compile(r"^ *(-\w\b|--[\w-]+)(?:\S*(?: [A-Z]+)?,? +(--?[\w-]+))?", re.MULTILINE)


def rows(tool: str) -> list[tuple[str, str]]:
    """The first two cells of each row of the tool's table."""
    found = re.findall(r"^\| ([^|]+) \| ([^|]*) \|", section(tool), re.MULTILINE)
    return [(first, second) for first, second in found if first.startswith("`")]


def section(tool: str) -> str:
    return PAGE.split(f"\n## {tool}\n")[1].split("\n## ")[0]


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


@pytest.mark.parametrize("tool", OURS)
def test_every_option_of_theirs_is_in_the_table(tool: str) -> None:
    named = [name for first, _ in rows(tool) for name in re.findall(r"`([^`]+)`", first)]
    assert sorted(named) == sorted(theirs(tool))


# There are no options of ours beside those of harep.
@pytest.mark.parametrize("tool", [tool for tool in OURS if tool != "harep"])
def test_ours_exist(tool: str) -> None:
    command = OURS[tool]
    known = {
        name
        for words, one in parsers()
        if words[:1] == (command,)
        for action in one._actions
        for name in action.option_strings
    }
    if tool == "hail":
        known = {*_OPTION.findall(USAGE)}
    named = [(one, option) for one, ours in rows(tool) for option in _OPTION.findall(ours)]
    for one, option in some(named):
        assert option in known, f"{one}: {option}"


@pytest.mark.parametrize("tool", OURS)
def test_where_there_is_none_the_page_says_why(tool: str) -> None:
    """Or what to do instead."""
    found = re.findall(r"^\| (`.*) \| none \|(.*)\|$", section(tool), re.MULTILINE)
    assert [option for option, reason in some(found) if not reason.strip()] == []


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
