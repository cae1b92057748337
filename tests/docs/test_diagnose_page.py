"""The page on the diagnosis is correct; its examples and the files in contrib work."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from paths import ROOT
from programs import program

from ganeti_steward.core.builtins import COLLECTORS
from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.commands import main as cli
from ganeti_steward.core.config.parse import parse_config
from ganeti_steward.core.model.finding import STATUSES, Finding
from ganeti_steward.diagnose.cli.diagnose import EXIT_BUSY
from ganeti_steward.diagnose.config.sections import Nagios
from ganeti_steward.diagnose.model.diagnosis import consolidate

PAGE: Final = (ROOT / "docs" / "reference" / "diagnose.md").read_text()
WATCH: Final = (ROOT / "docs" / "how-to" / "watch-the-hardware.md").read_text()
CONTRIB: Final = ROOT / "contrib"
PROGRAM: Final = "/opt/ganeti-steward/bin/gnt-steward"


def test_the_object() -> None:
    (shown,) = re.findall(r"^    (\{.*\})$", PAGE, re.MULTILINE)
    finding = Finding("nagios:fans", "live-repair", "restart-fans", {"state": "CRITICAL"})
    assert canonical(consolidate([finding])).decode() == shown


def test_words() -> None:
    for status in STATUSES:
        assert f"| `{status}` |" in PAGE
    for collector in COLLECTORS:
        assert f"`{collector}`" in PAGE, f"docs/reference/diagnose.md, Sources: lacks {collector}"
    assert f"| {EXIT_BUSY} | another run is under way" in PAGE


def test_every_option_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["diagnose", "--help"])
    options = set(re.findall(r"(?<![-\w])--[a-z-]+", capsys.readouterr().out))
    assert {option for option in options if f"`{option}" not in PAGE} == {"--help", "--verbose"}


def test_nagios() -> None:
    (settings,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    check = parse_config("steward.toml", settings.encode()).named(Nagios)["fans"]
    assert (check.command[0], check.repair) == (
        "/usr/lib/nagios/plugins/check_fans",
        "restart-fans",
    )
    rows = re.findall(r'^\| (\d) \| `(\w+)` \| `"(.*)"` \|$', PAGE, re.MULTILINE)
    assert [row[0] for row in rows] == list("0123")
    assert {key: default for _, key, default in rows} == {
        key: Nagios._field_defaults[key] for key in ("ok", "warning", "critical", "unknown")
    }


def test_files_are_there() -> None:
    for path in re.findall(r"contrib/[\w./-]+[a-z]", PAGE + WATCH):
        assert list(ROOT.glob(f"{path}*")), path
    assert json.loads((ROOT / "diagnose" / "schema.json").read_text())


def called(command: str) -> list[str]:
    """The arguments of a call of the installed program that the command line understands."""
    program, *arguments = command.split()
    assert program == PROGRAM
    cli.parser().parse_args(arguments)
    return arguments


def test_cron() -> None:
    lines = (CONTRIB / "diagnose.cron").read_text().splitlines()
    (job,) = [line for line in lines if line and not line.startswith("#") and "=" not in line]
    schedule, user, command = re.fullmatch(r"((?:\S+ ){5})(\S+) (.*)", job).groups()  # type: ignore[union-attr]
    assert (schedule.split(), user) == (["*/5", "*", "*", "*", "*"], "root")
    # Nothing is run, and so nothing mailed, when Steward has been taken away.
    condition, _, command = command.partition(" || ")
    assert condition == f"test ! -x {PROGRAM}"
    command, _, target = command.partition(" > ")
    assert (called(command), target) == (["diagnose"], "/dev/null 2>&1")


def test_the_cron_file_is_read_and_silent(tmp_path: Path) -> None:
    """cron takes no name with a dot, and mails whatever a job prints."""
    (name,) = re.findall(r"cp contrib/diagnose\.cron /etc/cron\.d/(\S+)", WATCH)
    assert re.fullmatch("[A-Za-z0-9_-]+", name)
    text = (CONTRIB / "diagnose.cron").read_text()
    assert text.endswith("\n")
    job = text.splitlines()[-1].split(maxsplit=6)[6]
    # Where nothing is installed, and where the program has much to say.
    loud = program(tmp_path, "gnt-steward", "echo printed; echo failed >&2; exit 1\n")
    for path, status in ((str(tmp_path / "none"), 0), (loud, 1)):
        done = subprocess.run(
            ["/bin/sh", "-c", job.replace(PROGRAM, path)], check=False, capture_output=True
        )
        assert (done.returncode, done.stdout, done.stderr) == (status, b"", b"")


def test_units(tmp_path: Path) -> None:
    """systemd understands them, with the program where it is here."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    own = str(Path(sys.executable).parent / "gnt-steward")
    names = [f"gnt-steward-diagnose.{kind}" for kind in ("service", "timer")]
    for name in names:
        text = (CONTRIB / "systemd" / name).read_text()
        (tmp_path / name).write_text(text.replace(PROGRAM, own))
        for command in re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE):
            assert called(command) == ["diagnose"]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name in names)],
        capture_output=True,
        text=True,
        check=False,
    )
    about_us = [line for line in done.stderr.splitlines() if "gnt-steward" in line]
    assert (done.returncode, about_us) == (0, [])


@pytest.mark.parametrize("name", ["gnt-steward-agent", "gnt-steward-diagnose"])
def test_a_source_out_of_memory_ends_alone(name: str) -> None:
    """With systemd's default the kernel's ending one process would stop the whole unit."""
    assert "\nOOMPolicy=continue\n" in (CONTRIB / "systemd" / f"{name}.service").read_text()


def test_the_unit_sees_the_filesystems_as_they_are() -> None:
    """Whatever makes a mount namespace would make healthy filesystems read-only."""
    text = (CONTRIB / "systemd" / "gnt-steward-diagnose.service").read_text()
    settings = re.findall(r"^(\w+)=", text, re.MULTILINE)
    harmful = re.compile(
        "Protect(System|Home|Kernel.*|ControlGroups)|Private.*|.*Paths|.*Directory"
    )
    assert [key for key in settings if harmful.fullmatch(key)] == []
