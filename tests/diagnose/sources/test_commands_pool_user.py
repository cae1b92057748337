"""Commands under a user id of Ganeti's pool."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import psutil
import pytest
from commanded import FINE, LIMIT, OK, unknown
from programs import is_running, program, wait_until
from source_runs import run_command
from thorough import often
from unkillable import frozen_filesystem, needs_freezing
from whitelists import needs_root

from ganeti_steward.core.model.finding import Finding, Unknown
from ganeti_steward.diagnose.run.gathering import adopting_orphans
from ganeti_steward.diagnose.sources import uid_pool
from ganeti_steward.diagnose.sources.uid_pool import Pool

pytestmark = needs_root


#: Which ids of this process are next.
_TURNS: Final = itertools.cycle(range(0, 256, 4))


@pytest.fixture
def pool(commands: Path) -> Pool:
    """Ids that no test had before: what such a one has ended is a process until it is reaped."""
    first = 1_900_000_000 + os.getpid() * 256 + next(_TURNS)
    (commands.parent / "pool").write_text(f"{first}-{first + 3}\n")
    return Pool(str(commands.parent / "pool"), str(commands.parent / "locks"))


PRINTS_IDS = r"""
    awk 'BEGIN { ORS = "" } /^(Uid|Gid|Groups):/ { $1 = ""; print $0 ";" }' /proc/self/status |
        sed 's/.*/{"status":"Ok","details":"&"}/'
"""


def test_pool_user(commands: Path, pool: Pool) -> None:
    program(commands, "raid", PRINTS_IDS)
    (found,) = run_command("raid", LIMIT, 1000, directory=str(commands), pool=pool)
    assert isinstance(found, Finding)
    user, group, groups = found.details.split(";")[:3]
    (uid,) = set(user.split())
    low, _, high = Path(pool.definition).read_text().partition("-")
    assert int(low) <= int(uid) <= int(high)
    assert set(group.split()) == {"65534"}
    assert groups == ""
    # It was given back.
    assert os.listdir(pool.locks) == []


def test_pool_user_stays_one(commands: Path, pool: Pool) -> None:
    """A setuid file of root does not make it root: it could not be ended by its id then."""
    shell = commands.parent / "shell"
    shutil.copy("/usr/bin/id", shell)
    shell.chmod(0o4755)
    source = f"""
        set -- $(awk '/^NoNewPrivs:/ {{ print $2 }}' /proc/self/status)
        echo "{{\\"status\\":\\"Ok\\",\\"details\\":[$1,$({shell} -u),$(id -u)]}}"
    """
    program(commands, "raid", source)
    (found,) = run_command("raid", LIMIT, 1000, directory=str(commands), pool=pool)
    assert isinstance(found, Finding), found
    held_back, by_setuid, own = found.details
    assert (held_back, by_setuid) == (1, own)
    assert own != 0


def test_pool_user_may_not_run_it(commands: Path, pool: Pool) -> None:
    Path(program(commands, "raid", FINE)).chmod(0o700)
    found = run_command("raid", LIMIT, 1000, directory=str(commands), pool=pool)
    assert found == [unknown("cannot be run: Permission denied")]
    assert os.listdir(pool.locks) == []


def test_pool_user_leaves_a_daemon(commands: Path, pool: Pool) -> None:
    """No other program runs under its id: so all its processes are ended."""
    notes_file = commands.parent / "pids"
    notes_file.touch()
    notes_file.chmod(0o666)
    source = f"""
        setsid sh -c 'trap "" TERM HUP; echo $$ > {notes_file}; while :; do sleep 1; done' &
        while ! [ -s {notes_file} ]; do sleep 0.01; done
        {FINE}
    """
    program(commands, "raid", source)
    assert run_command("raid", LIMIT, 1000, directory=str(commands), pool=pool) == [OK]
    assert not is_running(int(notes_file.read_text()))
    assert os.listdir(pool.locks) == []


REBORN = """
    import os
    if not os.fork():
        os.setsid()
        os.close(os.open("{ready}", os.O_CREAT | os.O_WRONLY))
        while True:
            if os.fork():
                os._exit(0)
    while not os.path.exists("{ready}"):
        pass
    print('{{"status": "Ok"}}')
"""


def test_pool_user_leaves_what_is_forked_again_and_again(commands: Path, pool: Pool) -> None:
    """Each time another process, so that none is there long enough to be found."""
    place = commands.parent / "open"
    place.mkdir()
    place.chmod(0o777)
    source = REBORN.format(ready=place / "ready")
    program(commands, "raid", source, shell="/usr/bin/python3 -IS")
    for _ in range(often(2, 20)):
        # As below a supervisor, what has ended is reaped.  An id that is not given back would be
        # another result.
        with adopting_orphans():
            assert run_command("raid", LIMIT, 1000, directory=str(commands), pool=pool) == [OK]
        low, _, high = Path(pool.definition).read_text().partition("-")
        assert not [
            (one.pid, one.info)
            for one in psutil.process_iter(["uids", "status"])
            if int(low) <= one.info["uids"].real <= int(high)
            and one.info["status"] != psutil.STATUS_ZOMBIE
        ]
        (place / "ready").unlink()


@needs_freezing
def test_an_id_whose_process_cannot_be_ended(commands: Path, pool: Pool) -> None:
    """It keeps its mark, and the report has the reason beside the finding."""
    with frozen_filesystem(commands.parent) as place:
        source = f"dd if=/dev/zero of={place}/x count=1 & sleep 0.5; {FINE}"
        program(commands, "raid", source)
        subprocess.run(["fsfreeze", "--unfreeze", place], check=True)
        place.chmod(0o777)
        subprocess.run(["fsfreeze", "--freeze", place], check=True)
        found = run_command("raid", LIMIT, 1000, directory=str(commands), pool=pool)
        (uid,) = os.listdir(pool.locks)
        fault = f"the user id {uid} is kept out of the pool: its processes cannot be ended"
        assert found == [OK, Unknown("command:raid:uid-pool", fault)]
    wait_until(lambda: not uid_pool.is_used(int(uid)), "the end of the process")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not run: uid pool: the cluster has none"),
        ("0\n4294967295\n", "not run: uid pool: no user id is free"),
        ("x\n", "not run: uid pool: 'x' is neither a user id nor a range of user ids"),
    ],
)
def test_no_pool_user(commands: Path, pool: Pool, text: str, reason: str) -> None:
    """Then it does not run as root instead."""
    program(commands, "raid", f"touch {commands}/ran; {FINE}")
    Path(pool.definition).write_text(text)
    assert run_command("raid", LIMIT, 1000, directory=str(commands), pool=pool) == [unknown(reason)]
    assert not (commands / "ran").exists()
