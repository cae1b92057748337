"""How Ganeti calls Steward: its parameters, noded's environment, the configuration file."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import ADD, BIN, NODED_PATH, Lab


@pytest.fixture
def no_parameters(lab: Lab) -> Iterator[None]:
    """Whatever default_iallocator_params a test sets is cleared."""
    yield
    lab.ok("gnt-cluster modify --default-iallocator-params=")


@pytest.mark.usefixtures("no_parameters")
def test_default_parameters(lab: Lab) -> None:
    """A flag, an option of hail's that changes nothing here, and an unknown one."""
    lab.ok("gnt-cluster modify --default-iallocator-params=-no-capacity-checks,-verbose,frob=7")

    call = lab.add("-t diskless", "option.lab").call

    assert sorted(call.arguments) == ["--frob=7", "--no-capacity-checks", "--verbose"]
    assert "--frob=7" in call.info
    assert "--verbose" not in call.info


@pytest.fixture
def full_rack(lab: Lab) -> Iterator[None]:
    """Two of the three nodes of rack2 have an instance that only the third could take over."""
    names = ["large1.lab", "large2.lab"]
    for name in names:
        lab.add("-t diskless -B memory=20000 --node-group rack2", name)
    yield
    lab.remove(*names)


@pytest.mark.usefixtures("full_rack", "no_parameters")
def test_no_capacity_checks(lab: Lab) -> None:
    options = "-t diskless -B memory=20000 --node-group rack2"

    refused = lab.fails(f"{ADD} {options} large3.lab")

    assert "Can't compute nodes using iallocator 'steward': Request failed: " in refused.text
    assert "0/3 nodes fit: 2 memory (" in refused.call.info
    assert " 1 capacity (" in refused.call.info

    lab.ok("gnt-cluster modify --default-iallocator-params=-no-capacity-checks")
    lab.add(options, "large3.lab")
    lab.remove("large3.lab")


WITNESS = """\
#!/bin/sh
{ id -u; pwd; umask; stat -c %%a "$1"; env; } > %(notes)s
exec %(steward)s "$@"
"""


def test_environment(lab: Lab) -> None:
    """Steward answers where noded, started by systemd, runs it."""
    notes = lab.directory / "witness.txt"
    witness = lab.iallocators / "witness"
    witness.write_text(WITNESS % {"notes": notes, "steward": BIN / "steward-iallocator"})
    witness.chmod(0o755)

    lab.add("-t diskless -I witness", "environment.lab")

    uid, directory, umask, mode, *environment = notes.read_text().splitlines()
    assert (uid, directory, umask, mode) == ("0", "/", "0077", "600")
    assert "LC_ALL=C" in environment
    assert f"PATH={NODED_PATH}" in environment
    assert not [line for line in environment if line.startswith(("HOME=", "LANG=", "USER="))]


def test_log_and_history(lab: Lab) -> None:
    """One line and one entry per call; only root can read the request."""
    before = lab.log.read_text() if lab.log.exists() else ""

    call = lab.fails(f"{ADD} -B memory=32000 -t diskless logged.lab").call

    (line,) = lab.log.read_text().removeprefix(before).splitlines()
    assert " INFO request type=allocate instance=logged.lab status=0 " in line
    assert json.loads(line.partition(" answer=")[2]) == call.answer
    newest = max(lab.history.iterdir())
    assert _modes(lab.history, newest) == ["700", "700"]
    assert _modes(*sorted(newest.iterdir())) == ["600"] * 3


def _modes(*paths: Path) -> list[str]:
    return [f"{path.stat().st_mode & 0o777:o}" for path in paths]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[history]\nkeep = 'many'\n", "history.keep: a whole number is expected, found "),
        ("[history\n", "is not valid TOML: "),
    ],
    ids=["wrong type", "no TOML"],
)
def test_broken_configuration(lab: Lab, text: str, fault: str) -> None:
    lab.configuration.write_text(text)
    try:
        done = lab.fails(f"{ADD} -t diskless broken.lab")
    finally:
        lab.configure()

    printed = (
        "Failure: command execution error:\n"
        "Failure while running the iallocator script: iallocator module 'steward' failed: exited "
        "with exit code 1, output 'Error: configuration /etc/ganeti/steward.toml: "
    )
    assert printed + fault in done.text, str(done)
    # The sentence ends there, and so does Ganeti's own one.
    assert done.text.partition(printed)[2].count("\n") == 2
    assert done.text.endswith("\n'\n")


def test_allocator_that_does_not_exist(lab: Lab) -> None:
    lab.configure('[allocators]\nallocate = ["nosuch"]\n')
    try:
        done = lab.fails(f"{ADD} -t diskless broken.lab")
    finally:
        lab.configure()

    assert done.call.status == 0
    assert done.call.answer["success"] is False
    assert done.call.info.startswith("Request failed: plugin nosuch: ")
    assert f"Can't compute nodes using iallocator 'steward': {done.call.info}\n" in done.text
    assert "Traceback" not in done.text


def test_install_finds_ganetis_directory(lab: Lab) -> None:
    program = shlex.quote(str(lab.programs / "gnt-steward"))
    link = "/usr/local/lib/ganeti/iallocators/steward"

    again = lab.ok(f"{program} install-iallocator")
    assert f"{link} -> {lab.programs / 'steward-iallocator'} (as before)" in again.text

    try:
        removed = lab.ok(f"{program} install-iallocator --remove").text
        assert removed.splitlines()[0] == f"removed {link}"
        assert "Note: the cluster still names steward as its default allocator" in removed
        done = lab.fails(f"{ADD} -t diskless gone.lab")
        assert "iallocator module 'steward' not found in the search path" in done.text
    finally:
        lab.ok(f"{program} install-iallocator")
    assert (lab.iallocators / "steward").readlink() == lab.programs / "steward-iallocator"


def test_explain_last(lab: Lab) -> None:
    """The admin's way from a refusal to its reasons."""
    lab.fails(f"{ADD} -B memory=32000 -t diskless --node-group rack2 why.lab")

    text = lab.ok(shlex.quote(str(BIN / "gnt-steward")) + " explain --last -v").text

    assert "why.lab" in text
    assert "most free" in text
    for node in ("node5", "node6", "node7"):
        assert node in text
