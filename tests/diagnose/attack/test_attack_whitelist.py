"""Attacks on what root executes: programs that others could change, and races of renames."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from asserting import some
from programs import notes, program, wait_until
from source_runs import run_check
from spoilt_programs import SPOILT, USER, WRITABLE, good
from statuses import INCIDENT
from thorough import often
from whitelists import needs_root, safe_directory

from ganeti_steward.allocators.external_program import call_program
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.model.finding import Finding, Unknown
from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.requests import AllocateSecondary
from ganeti_steward.core.process.following import LADDER
from ganeti_steward.core.process.trusted_program import Forbidden
from ganeti_steward.diagnose.config.sections import Nagios
from ganeti_steward.diagnose.sources import whitelist
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.notify.notify_command import NotifyCommand

pytestmark = needs_root

LIMIT = 300.0


@pytest.fixture
def place() -> Iterator[Path]:
    with safe_directory() as path:
        yield path


def by_nagios(path: str) -> str:
    """Why a check is not run; empty when it was."""
    (result,) = run_check("raid", Nagios(command=(path, "-w"), time_limit=LIMIT))
    return result.reason if isinstance(result, Unknown) else ""


def by_allocator(path: str) -> str:
    try:
        call_program(f"command:{path}", b"{}", Options(), AllocateSecondary(""), LIMIT)
    except PluginError as err:
        return str(err) if "gave no answer" not in str(err) else ""
    return ""


def by_notification(path: str) -> str:
    notify = NotifyCommand(LIMIT)
    notify.configure(Maintd(notify_command=path))
    try:
        notify.steward_incident_changed(None, INCIDENT, "reported", "a test")
    except PluginError as err:
        return str(err)
    return ""


ENTRANCES = [by_nagios, by_allocator, by_notification]

#: A check of Nagios runs in a process of its own, which takes longer.
BY_NAGIOS = [
    "file of another user",
    "directory of mode 1777",
    "grandparent of another user",
    "link to an open directory",
    "fifo",
    "interpreter in a foreign directory",
]
CASES = [(run, kind) for run in ENTRANCES for kind in (BY_NAGIOS if run is by_nagios else SPOILT)]


def ran(place: Path) -> list[Path]:
    """What programs below a place have left when they ran."""
    return list(place.rglob("*.notes"))


@pytest.mark.parametrize(("run", "kind"), CASES)
def test_what_others_can_change_is_not_run(
    place: Path, kind: str, run: Callable[[str], str]
) -> None:
    make, fault = SPOILT[kind]
    assert fault in run(make(place))
    assert ran(place) == []


@pytest.mark.parametrize("kind", [kind for kind in SPOILT if "interpreter" in kind])
def test_whitelisted_scripts_with_such_interpreters(place: Path, kind: str) -> None:
    make, fault = SPOILT[kind]
    directory, name = os.path.split(make(place))
    with pytest.raises(Forbidden, match=f"^the interpreter of {directory}/{name}: .*{fault}"):
        _run_command(name, directory)
    assert ran(place) == []


def _run_command(name: str, directory: str) -> bytes:
    return whitelist.run(name, directory, LIMIT, output_limit=1000, ladder=LADDER).output


@pytest.mark.parametrize("run", ENTRANCES)
def test_a_path_that_is_not_absolute(run: Callable[[str], str]) -> None:
    assert "'bin/true' is not an absolute path" in run("bin/true")


@pytest.mark.parametrize("run", ENTRANCES)
@pytest.mark.parametrize("mode", [0o755, 0o700, 0o4755, 0o750])
def test_what_only_root_can_change_is_run(
    place: Path, mode: int, run: Callable[[str], str]
) -> None:
    """Also set-user-id programs of another group, such as check_icmp."""
    file = good(place)
    os.chown(file, 0, USER)
    file.chmod(mode)
    (place / "link").symlink_to("a/b/c")
    assert run(f"{place}/link/../c/check") == ""
    assert notes(str(file)) == "run\n"


def test_a_script_finds_what_lies_beside_it(place: Path) -> None:
    """As the shell scripts among the checks of Nagios do with utils.sh."""
    (place / "utils.sh").write_text("STATE_CRITICAL=2\n")
    path = program(place, "check_raid", '. "$(dirname "$0")/utils.sh"; exit $STATE_CRITICAL')
    assert run_check("raid", Nagios(command=(path,), time_limit=LIMIT)) == [
        Finding("nagios:raid", "live-repair", "", {"state": "CRITICAL"})
    ]


def test_a_binary_gets_its_path_as_its_name(place: Path) -> None:
    """hail is a link to a program that does what it is called."""
    (place / "check").symlink_to("/usr/bin/env")
    result = run_check("raid", Nagios(command=(f"{place}/check", "-0"), time_limit=LIMIT))
    assert result == [Finding("nagios:raid", "Ok")]


def test_below_tmp() -> None:
    """Also where everything is root's: what is missing there could be made by anybody."""
    for run in some(ENTRANCES):
        with _below_tmp() as below:
            assert f"/tmp {WRITABLE}" in run(str(good(below)))
            assert ran(below) == []


@contextmanager
def _below_tmp() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as below:
        yield Path(below)


def _swap(home: Path) -> None:
    """Swap a directory of root's and one of its own under the name that is configured."""
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)
    os.chdir(home)
    swaps = [("checks", "root"), ("own", "checks"), ("checks", "own"), ("root", "checks")]
    while True:
        for before, after in swaps:
            os.rename(before, after)


@contextmanager
def attacked(place: Path) -> Iterator[str]:
    """The path of a check below a directory whose owner renames what is in it all the time."""
    home = place / "home"
    for name, word in (("checks", "good"), ("own", "bad")):
        folder = home / name
        folder.mkdir(parents=True)
        program(folder, "check", f"echo {word} >> {place}/notes")
    os.chown(home, USER, USER)
    for path in (home / "own", home / "own" / "check"):
        os.chown(path, USER, USER)
    attacker = os.fork()
    if attacker == 0:
        try:
            _swap(home)
        finally:
            os._exit(1)
    try:
        wait_until((home / "root").exists, "the first swap")
        yield str(home / "checks" / "check")
        assert os.waitpid(attacker, os.WNOHANG)[0] == 0, "it swaps to the end"
    finally:
        os.kill(attacker, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(attacker, 0)


@pytest.mark.parametrize("run", ENTRANCES)
def test_the_owner_of_an_ancestor_wins_no_race(place: Path, run: Callable[[str], str]) -> None:
    with attacked(place) as path:
        faults = {run(path) for _ in range(often(8, 150))}
    assert all(f"{place}/home belongs to the user {USER}" in fault for fault in faults)
    assert not (place / "notes").exists()


def test_an_attacker_who_becomes_the_owner_too_late(place: Path) -> None:
    """Given away while it runs: what was checked goes on, what comes next is refused."""
    file = good(place)
    wait = f"echo begun > NOTES; until [ -e {place}/go ]; do sleep 0.02; done; echo run >> NOTES"
    path = program(file.parent, "check", wait)
    process = os.fork()
    if process == 0:
        os._exit(0 if by_notification(path) == "" else 1)
    wait_until(lambda: notes(path), "the program")
    os.chown(place / "a", USER, USER)
    (place / "go").touch()
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert notes(path) == "begun\nrun\n"
    assert "belongs to the user" in by_notification(path)
