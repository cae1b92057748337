"""Commands of plugins: offered with steward_commands, and no harm to the others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sites import Site

COMMANDS = """
from ganeti_steward.core.model.command import Command

@hookimpl
def steward_commands():
    return {commands}

def add_arguments(parser):
    parser.add_argument("--fail", choices=("plainly", "badly"))

def run(options):
    if options.fail == "plainly":
        from ganeti_steward.core.errors import StewardError
        raise StewardError("there is no rack")
    if options.fail:
        raise ValueError("no rack")
    print("racks")
    return 7
"""


def offer(site: Site, name: str, commands: str) -> None:
    site.plugin(name, COMMANDS.format(commands=commands))


def call(site: Site, *arguments: str) -> tuple[int, str, str]:
    """The real program: exit status, output, errors."""
    environment = {
        "GNT_STEWARD_CONFIG": str(site.config_file),
        "PYTHONPATH": str(site.modules),
        "PATH": os.environ["PATH"],
    }
    done = subprocess.run(
        [Path(sys.executable).parent / "gnt-steward", *arguments],
        capture_output=True,
        check=False,
        text=True,
        env=environment,
        timeout=300,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_command(site: Site) -> None:
    offer(site, "racks", "[Command('racks', 'print 100 % of the racks', 'racks')]")
    site.configure("racks")
    assert call(site, "racks") == (7, "racks\n", "")
    status, out, err = call(site, "racks", "--help")
    assert (status, err) == (0, "")
    assert "usage: gnt-steward racks [-h] [--fail" in out
    assert "Print 100 % of the racks." in out
    status, out, err = call(site, "--help")
    assert (status, err) == (0, "")
    assert "racks print 100 % of the racks" in " ".join(out.split())


def test_its_failures(site: Site) -> None:
    site.log = str(site.path / "steward.log")
    offer(site, "racks", "[Command('racks', 'print racks', 'racks')]")
    site.configure("racks")
    expected = (1, "", "gnt-steward racks: there is no rack\n")
    assert call(site, "racks", "--fail=plainly") == expected
    expected = (1, "", "gnt-steward racks: plugin racks: command racks: ValueError: no rack\n")
    assert call(site, "racks", "--fail=badly") == expected
    assert "Traceback (most recent call last):" in Path(site.log).read_text()


def test_a_module_that_is_missing(site: Site) -> None:
    offer(site, "racks", "[Command('racks', 'print racks', 'racks_cli')]")
    site.configure("racks")
    status, out, err = call(site, "racks")
    assert (status, out) == (1, "")
    assert err.endswith(
        "gnt-steward racks: plugin racks: command racks: ModuleNotFoundError: "
        "No module named 'racks_cli'\n"
    )


@pytest.mark.parametrize(
    ("commands", "fault"),
    [
        ("[Command('place', 'print', 'm')]", "the command place exists already"),
        ("[Command('racks', 'print', 'm')] * 2", "the command racks exists already"),
        ("[Command('good', 'print', 'm')]", "the command good exists already"),
        ("[Command('-x', 'print', 'm')]", "'-x' is not a command name (a-z, 0-9 and - only)"),
        ("[Command(5, 'print', 'm')]", "5 is not a command name (a-z, 0-9 and - only)"),
        ("[Command('r', '', 'm')]", "the description of r is '', not a text"),
        ("[Command('r', 'a\\nb', 'm')]", "the description of r cannot be printed"),
        ("[Command('r', 'print', None)]", "the module of r is None, not a text"),
        ("['racks']", "steward_commands must give commands, not 'racks'"),
        ("'racks'", "steward_commands must give a list, not 'racks'"),
        ("1 / 0", "failed: ZeroDivisionError: division by zero"),
    ],
)
def test_a_broken_plugin_is_named_and_skipped(site: Site, commands: str, fault: str) -> None:
    offer(site, "good", "[Command('good', 'do good', 'good')]")
    offer(site, "broken", commands)
    site.configure("good", "broken")
    status, out, err = call(site, "good")
    assert (status, out) == (7, "racks\n")
    assert err == f"gnt-steward: plugin broken: {fault} (its commands are left out)\n"


@pytest.mark.parametrize("line", ["while True: pass", "os._exit(0)", "time.sleep(3600)"])
def test_a_plugin_that_never_returns(site: Site, line: str) -> None:
    site.plugin("broken", line)
    offer(site, "good", "[Command('good', 'do good', 'good')]")
    site.configure("broken", "good", limit=0.5)
    status, out, err = call(site, "good")
    assert (status, out) == (7, "racks\n")
    (line,) = err.splitlines()
    assert line.startswith("gnt-steward: plugin broken: ")


def test_a_command_of_the_program_loads_no_plugin(site: Site) -> None:
    site.plugin("broken", "print('loaded')\nraise ValueError('no rack')")
    site.configure("broken")
    assert call(site, "place", "--help")[2] == ""
    assert call(site, "--version")[2] == ""
    status, _, err = call(site, "--help")
    assert status == 0
    assert "plugin broken: cannot be loaded: ValueError: no rack" in err


def test_a_configuration_that_cannot_be_read(site: Site) -> None:
    site.config_file.write_text("[log")
    status, out, err = call(site, "--help")
    assert status == 0
    assert "check-config" in out
    assert "gnt-steward: configuration " in err
    status, out, err = call(site, "racks")
    assert (status, out) == (2, "")
    assert "invalid choice: 'racks'" in err
