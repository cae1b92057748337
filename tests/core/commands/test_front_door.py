"""The command lines of both programs: help, versions, usage, and what they do not import."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from asserting import some
from paths import CAPTURES
from workspace import PROGRAMS

from ganeti_steward.core.commands import main as cli
from ganeti_steward.core.commands.registry import built_in_commands

if TYPE_CHECKING:
    from front import Front

COMMANDS = {name: one.command for name, one in built_in_commands().items()}

#: What an allocation has no use for; each would cost more than many an allocation.
LATE = (
    "argparse",
    "asyncio",
    "ganeti_steward.allocators.loads.load_reports",
    "ganeti_steward.allocators.loads.measured_load",
    "ganeti_steward.allocators.rules.reserve_checks",
    "ganeti_steward.allocators.loads.mond",
    "ganeti_steward.allocators.state.reserves",
    "ganeti_steward.allocators.state.volume_groups",
    "http.client",
    "importlib.metadata",
    "jinja2",
    "prometheus_client",
    "psutil",
    "requests",
    "rich",
    "tomllib",
    # Only chains with programs and shadows need these.
    "faulthandler",
    "ganeti_steward.allocators.external_program",
    "ganeti_steward.core.process",
    "ganeti_steward.plugins.shadow.shadows",
    "shlex",
    "subprocess",
    "tempfile",
)

#: Runs a program as its console script does, then writes the modules it imported.
DRIVER = """\
import sys
from ganeti_steward.core.{module} import {function} as program
sys.argv = {argv!r}
try:
    status = program()
except SystemExit as err:
    status = err.code
import json
with open({result!r}, "w") as file:
    json.dump([status or 0, sorted(sys.modules)], file)
"""

#: An allocation with the default configuration, which needs no file (and keeps nothing here).
DEFAULTS = """\
import sys
import ganeti_steward.core.iallocator.main
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.iallocator.dispatch import answer_message
from ganeti_steward.core.model.options import parse_options
from ganeti_steward.core.iallocator.message import write_answer
with open({file!r}, "rb") as request:
    outcome = answer_message(request.read(), parse_options([]), Config())
status = 0 if b'"success":true' in write_answer(outcome) else 1
import json
with open({result!r}, "w") as file:
    json.dump([status, sorted(sys.modules)], file)
"""


def imported(front: Front, source: str) -> set[str]:
    """The modules a fresh interpreter has after running a driver that must succeed."""
    done = subprocess.run(
        [sys.executable, "-c", source],
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
        env={"GNT_STEWARD_CONFIG": str(front.config_file)},
    )
    assert done.returncode == 0, done.stderr
    status, modules = json.loads((front.path / "modules.json").read_text())
    assert status == 0
    assert "ganeti_steward.core" in modules
    return set(modules)


def run(front: Front, module: str, function: str, *argv: str) -> set[str]:
    result = str(front.path / "modules.json")
    source = DRIVER.format(module=module, function=function, argv=list(argv), result=result)
    return imported(front, source)


@pytest.mark.parametrize(
    "name",
    [
        "allocate-drbd",
        "allocate-diskless",
        "multi-allocate-two",
        "relocate-drbd",
        "allocate-secondary-plain-to-drbd",
    ],
)
def test_an_allocation_imports_little(front: Front, name: str) -> None:
    file, result = str(CAPTURES / f"{name}.in.json"), str(front.path / "modules.json")
    modules = imported(front, DEFAULTS.format(file=file, result=result))
    assert "numpy" in modules
    assert not modules & set(LATE)


def test_the_whole_program_imports_little(front: Front) -> None:
    """With a file only what reads it is added."""
    file = str(CAPTURES / "allocate-drbd.in.json")
    modules = run(front, "iallocator.main", "run", "steward-iallocator", file)
    assert modules & set(LATE) == {"tomllib"}


@pytest.mark.parametrize("arguments", [["--help"], ["explain", "--help"], ["--version"]])
def test_help_does_not_import_the_engine(front: Front, arguments: list[str]) -> None:
    modules = run(front, "commands.main", "main", "gnt-steward", *arguments)
    assert "argparse" in modules
    late = {"asyncio", "jinja2", "numpy", "rich", "requests", "prometheus_client"}
    assert not modules & late


def test_help_of_a_sub_command_imports_no_other(front: Front) -> None:
    modules = run(front, "commands.main", "main", "gnt-steward", "filter", "list", "--help")
    own = {name for name in modules if name.partition(".")[0] == "ganeti_steward"}
    assert "ganeti_steward.plugins.filters.cli.show" in own
    assert not own & {f"ganeti_steward.plugins.filters.cli.{name}" for name in ("write", "recipe")}
    assert len(own) <= 61, sorted(own)


def commands_of(modules: set[str]) -> set[str]:
    """The commands whose module is among the imported ones."""
    return {name for name, command in COMMANDS.items() if command.module in modules}


def test_help_imports_no_command(front: Front) -> None:
    modules = run(front, "commands.main", "main", "gnt-steward", "--help")
    assert commands_of(modules) == set()


def test_one_command_imports_no_other(front: Front) -> None:
    modules = run(front, "commands.main", "main", "gnt-steward", "check-config", "--sample")
    assert commands_of(modules) == {"check-config"}


def test_help(front: Front) -> None:
    done = front("--help")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("usage: gnt-steward ")
    for name, command in COMMANDS.items():
        assert f"\n    {name}" in done.out
        assert command.description.split()[0] in done.out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(front: Front, command: str) -> None:
    done = front(command, "--help")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(f"usage: gnt-steward {command} ")
    shown = " ".join(done.out.split())
    assert COMMANDS[command].description[1:] in shown


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("check-config", ["--sample"]),
        ("explain", ["--last", "--kept", "--json", "--option"]),
        ("install-iallocator", ["--dir", "--remove"]),
        ("plugins", ["--no-headers", "--separator"]),
        ("replay", ["--list", "--no-headers", "--separator"]),
    ],
)
def test_options_are_documented(front: Front, command: str, options: list[str]) -> None:
    text = front(command, "--help").out
    for option in some(options):
        assert option in text


def test_every_command_has_its_module() -> None:
    """Its parser can be built with all options at once, as shell completion wants it."""
    whole = cli.parser().format_help()
    assert all(command in whole for command in COMMANDS)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["allocate"],
        ["expl"],
        ["--unknown"],
        ["plugins", "--unknown"],
        ["plugins", "surplus"],
        ["check-config", "one", "two"],
        ["explain"],
        ["-x", "explain"],
    ],
    ids=" ".join,
)
def test_unusable_command_line(front: Front, arguments: list[str]) -> None:
    done = front(*arguments)
    assert (done.status, done.out) == (2, "")
    assert "usage: gnt-steward" in done.err
    assert ": error: " in done.err


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_version(front: Front, option: str) -> None:
    """One version in the program, its second script and the installed package."""
    number = version("ganeti-steward")
    assert front(option).out == f"gnt-steward {number}\n"
    assert front.run(option).out == f"gnt-steward {number}\n"
    assert front.allocate(option).out == f"steward-iallocator (ganeti-steward) {number}\n"


def test_help_of_the_allocator(front: Front) -> None:
    for option in ("-h", "--help"):
        done = front.allocate(option)
        assert done.status == 0
        assert done.out.startswith("usage: steward-iallocator FILE [OPTION ...]\n")
        for name in ("--no-capacity-checks", "--ignore-soft-errors", "--restrict-allocation-to"):
            assert name in done.out


def test_missing_configuration(front: Front) -> None:
    """A file named by the environment must exist, whatever the command."""
    front.config_file.unlink()
    for done in (
        front("plugins"),
        front.run("explain", "--last"),
        front.allocate(str(CAPTURES / "allocate-drbd.in.json")),
    ):
        assert (done.status, done.out) == (1, "")
        assert f"configuration {front.config_file}: the file does not exist" in done.err


def test_reader_goes_away(front: Front) -> None:
    """``gnt-steward explain FILE | true``."""
    file = CAPTURES / "allocate-drbd.in.json"
    with subprocess.Popen(
        [sys.executable, "-m", "ganeti_steward.core.commands.main", "explain", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"GNT_STEWARD_CONFIG": str(front.config_file)},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(300) == 1
    assert errors == b""


def test_a_traceback_of_a_plugin_is_in_the_log_only(tmp_path: Path) -> None:
    (tmp_path / "no_rack.py").write_text('raise ValueError("no such rack")\n')
    config, log = tmp_path / "steward.toml", tmp_path / "steward.log"
    config.write_text(f'[plugins]\nload = ["no_rack"]\n[log]\nfile = "{log}"\n')
    command = f"{PROGRAMS}/gnt-steward place -t drbd -s 1g --file {CAPTURES}/allocate-drbd.in.json"
    done = subprocess.run(
        command.split(),
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
        env={"GNT_STEWARD_CONFIG": str(config), "PYTHONPATH": str(tmp_path)},
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "plugin no_rack: cannot be loaded: ValueError: no such rack" in done.stdout
    assert "Traceback" in log.read_text()
    assert "no_rack.py" in log.read_text()
