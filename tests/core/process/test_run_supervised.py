"""Foreign programs below a supervisor: whatever they start ends with them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from programs import TIME_LIMIT, ended_at_last, is_running, notes, program, wait_until

from ganeti_steward.core.process.descendants import children
from ganeti_steward.core.process.following import Ended
from ganeti_steward.core.process.program import run_supervised
from ganeti_steward.core.process.supervisor import forked_supervisor, supervisor_program

#: Seconds; far more than any of these programs takes that ends by itself.
LIMIT = 300.0

#: What a program leaves: it ignores requests to end.
LEFT = "DIRECTORY/left"
BODY = "trap '' TERM HUP; echo $$ >> DIRECTORY/NAME.notes; sleep 3600; sleep 3600"

WAIT = "while ! [ -s NOTES ]; do sleep 0.01; done; echo done"

Run = Callable[..., Ended]


def leaving(directory: Path, name: str, source: str) -> str:
    """A program that starts `LEFT`; its path."""
    body = BODY.replace("DIRECTORY", str(directory)).replace("NAME", name)
    program(directory, "left", body)
    return program(directory, name, source.replace("DIRECTORY", str(directory)))


@pytest.fixture(params=[forked_supervisor, supervisor_program], ids=["fork", "program"])
def run(request: pytest.FixtureRequest) -> Run:
    """Both ways to start a supervisor."""
    return partial(run_supervised, start=request.param)


@pytest.mark.parametrize(
    "leaves",
    [f"{LEFT} &", f"setsid {LEFT} &", f"(setsid sh -c '{LEFT} & exit 0' &)"],
    ids=["group", "session", "twice"],
)
def test_what_it_leaves_is_ended(tmp_path: Path, run: Run, leaves: str) -> None:
    path = leaving(tmp_path, "leaves", f"{leaves}\n{WAIT}")
    with ended_at_last(path):
        before = children()
        assert run([path], LIMIT) == (0, b"done\n", b"", "")
        pids = [int(line) for line in notes(path).split()]
        assert pids
        assert not any(map(is_running, pids))
        assert children() == before, "nor does a zombie stay"


def test_it_kills_its_parent(tmp_path: Path, run: Run) -> None:
    path = leaving(tmp_path, "rebels", f"setsid {LEFT} &\n{WAIT}; kill -9 $PPID; sleep 3600")
    with ended_at_last(path):
        ended = run([path], LIMIT)
        assert ended.fault == "its process was ended by SIGKILL"
        wait_until(lambda: not is_running(int(notes(path))), "the end of what it left")


def test_it_is_followed_as_any_program(tmp_path: Path, run: Run) -> None:
    path = program(tmp_path, "prints", 'echo "$1"; cat; echo bad >&2; exit 3')
    assert run([path, "a b"], LIMIT, given=b"given") == (3, b"a b\ngiven", b"bad\n", "")
    path = program(tmp_path, "floods", "cat /dev/zero")
    assert run([path], LIMIT, output_limit=1000).fault == "killed, it printed more than 1000 bytes"
    path = program(tmp_path, "hangs", "sleep 3600")
    assert run([path], 0.5)[::3] == (-signal.SIGTERM, "killed after 0.5 s")
    with pytest.raises(FileNotFoundError):
        run(["/nonexistent/program"], LIMIT)


CALLER = """
import sys
from ganeti_steward.core.process.program import run_supervised
from ganeti_steward.core.process.supervisor import forked_supervisor, supervisor_program
run_supervised(sys.argv[1:], 3600, start=supervisor_program if {program} else forked_supervisor)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("by_program", [False, True], ids=["fork", "program"])
def test_the_caller_is_killed(tmp_path: Path, how: signal.Signals, by_program: bool) -> None:
    """Then everything below it ends as well."""
    path = leaving(tmp_path, "stays", f"setsid {LEFT} &\necho $$ >> NOTES; exec sleep 3600")
    source = CALLER.format(program=by_program)
    with ended_at_last(path), subprocess.Popen([sys.executable, "-c", source, path]) as caller:
        wait_until(lambda: len(notes(path).split()) == 2, "the start of both")
        caller.send_signal(how)
        caller.wait(TIME_LIMIT)
        pids = [int(line) for line in notes(path).split()]
        wait_until(lambda: not any(map(is_running, pids)), "their end")


def test_one_that_is_born_again_and_again(tmp_path: Path) -> None:
    """No walk through the process table sees one twice."""
    source = """
        import os
        os.setsid()
        os.open("NOTES", os.O_CREAT)
        while True:
            if os.fork():
                os._exit(0)
    """
    path = program(tmp_path, "reborn", source, shell=f"{sys.executable} -sS")
    first = program(tmp_path, "first", f"{path} & while ! [ -e {path}.notes ]; do sleep 0.01; done")
    assert run_supervised([first], LIMIT).status == 0
    assert not _of(path)


def _of(path: str) -> list[bytes]:
    """Command lines of processes that run a script."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            found.append((place / "cmdline").read_bytes())
        except OSError:
            continue
    return [line for line in found if path.encode() in line]
