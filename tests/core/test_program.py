"""Running foreign programs: what they print, and what they may not do to the caller."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from programs import HANGING, ended_at_last, is_running, notes, program, wait_until

from ganeti_steward.core.process import following
from ganeti_steward.core.process.following import follow
from ganeti_steward.core.process.program import ENVIRONMENT, run_program
from ganeti_steward.core.process.trusted_program import Executable

#: Seconds; far more than any of these programs takes that ends by itself.
LIMIT = 300.0


def test_output_and_status(tmp_path: Path) -> None:
    path = program(tmp_path, "good", 'echo "got $1"; echo loud >&2; exit 3')
    ended = run_program([path, "a b"], LIMIT)
    assert ended == (3, b"got a b\n", b"loud\n", "")


def test_what_it_finds(tmp_path: Path) -> None:
    """Almost no environment, no input, the root directory, a session of its own."""
    source = """
        import json, os, sys
        print(json.dumps([dict(os.environ), sys.stdin.read(), os.getcwd(), os.getsid(0),
              os.getpgid(0), os.getpid(), sorted(os.listdir("/proc/self/fd"))]))
    """
    path = program(tmp_path, "curious", source, shell="/usr/bin/python3 -sS")
    with open(os.devnull) as leaked:
        os.set_inheritable(leaked.fileno(), True)
        ended = run_program([path], LIMIT)
    environment, given, directory, session, group, pid, descriptors = json.loads(ended.output)
    assert environment == dict(ENVIRONMENT)
    assert (given, directory) == ("", "/")
    assert session == group == pid != os.getpid()
    # The fourth is the listed directory itself.
    assert descriptors == ["0", "1", "2", "3"]


def test_signal(tmp_path: Path) -> None:
    path = program(tmp_path, "aborts", "kill -ABRT $$")
    assert run_program([path], LIMIT).status == -signal.SIGABRT


def test_hanging(tmp_path: Path) -> None:
    """It ignores the polite signal, and so does its child, which holds the pipes open."""
    path = program(tmp_path, "hangs", "echo begun" + HANGING)
    with ended_at_last(path):
        ended = run_program([path], 0.5)
        pids = [int(line) for line in notes(path).split()]
        assert len(pids) == 2
        wait_until(lambda: not any(map(is_running, pids)), "the end of the group")
    assert ended == (-signal.SIGKILL, b"begun\n", b"", "killed after 0.5 s")


def test_ends_on_a_signal(tmp_path: Path) -> None:
    path = program(tmp_path, "polite", "trap 'exit 7' TERM; while :; do sleep 0.05; done")
    assert run_program([path], 0.5)[::3] == (7, "killed after 0.5 s")


def test_closed_pipes(tmp_path: Path) -> None:
    """Nothing more to read does not mean it has ended."""
    path = program(tmp_path, "closes", "echo x; exec >&- 2>&-; sleep 0.2; exit 4")
    assert run_program([path], LIMIT) == (4, b"x\n", b"", "")
    path = program(tmp_path, "stays", "exec >&- 2>&-; sleep 3600")
    assert run_program([path], 0.5).fault == "killed after 0.5 s"


def test_child_that_stays(tmp_path: Path) -> None:
    """The program is done; what it left in its group is ended."""
    path = program(tmp_path, "leaves", "sleep 3600 & echo $! > NOTES; echo done")
    with ended_at_last(path):
        assert run_program([path], LIMIT) == (0, b"done\n", b"", "")
        wait_until(lambda: not is_running(int(notes(path))), "the end of the child")


def test_child_that_leaves_the_group(tmp_path: Path) -> None:
    """It holds the pipes open where it cannot be ended; that is not waited for."""
    path = program(
        tmp_path,
        "escapes",
        "setsid sh -c 'echo $$ > NOTES; exec sleep 3600' & "
        "while ! [ -s NOTES ]; do sleep 0.01; done; echo done",
    )
    with ended_at_last(path):
        assert run_program([path], LIMIT) == (0, b"done\n", b"", "")
        assert is_running(int(notes(path)))


@pytest.mark.parametrize("then", ["", " & exec sleep 3600"], ids=["itself", "child"])
def test_flood(tmp_path: Path, then: str) -> None:
    path = program(tmp_path, "floods", f"cat /dev/zero{then}")
    ended = run_program([path], LIMIT, output_limit=2**20)
    assert ended.fault == "killed, it printed more than 1048576 bytes"


def test_flood_of_errors(tmp_path: Path) -> None:
    """Only the beginning is kept, and it does not stand in the way of the answer."""
    path = program(tmp_path, "scolds", "head -c 3000000 /dev/zero >&2; echo good")
    ended = run_program([path], LIMIT)
    assert ended._replace(errors=b"") == (0, b"good\n", b"", "")
    assert len(ended.errors) == 2**16


def test_cannot_be_started(tmp_path: Path) -> None:
    path = program(tmp_path, "lost", "", shell="/nonexistent/shell")
    with pytest.raises(FileNotFoundError):
        run_program([path], LIMIT)


@pytest.mark.parametrize("size", [1, 2**16, 10**6 + 1])
def test_input(tmp_path: Path, size: int) -> None:
    """More than a pipe holds, and it need not be read."""
    given = b"x" * size
    path = program(tmp_path, "reads", "cat")
    assert run_program([path], LIMIT, given=given) == (0, given, b"", "")
    path = program(tmp_path, "ignores", "echo done")
    assert run_program([path], LIMIT, given=given) == (0, b"done\n", b"", "")


def test_executable_by_descriptor(tmp_path: Path) -> None:
    """What runs is the open file; the command line says what it is to be called."""
    path = Path(program(tmp_path, "tool", "echo $0 $1"))
    descriptor = os.open(path, os.O_PATH)
    try:
        path.unlink()
        path.symlink_to("/bin/false")
        ended = run_program([str(path), "a"], LIMIT, executable=Executable(descriptor))
    finally:
        os.close(descriptor)
    assert ended == (0, b"/proc/self/fd/99 a\n", b"", "")


def test_environment(tmp_path: Path) -> None:
    path = program(tmp_path, "prints", "tr '\\0' ' ' < /proc/$$/environ")
    assert run_program([path], LIMIT, environment={}).output == b""
    assert run_program([path], LIMIT, environment={"A": "b"}).output == b"A=b "


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_user(tmp_path: Path) -> None:
    """Real, effective and saved ids, and no other groups."""
    path = program(tmp_path, "prints", "grep -E '^(Uid|Gid|Groups):' /proc/self/status")
    descriptor, before = os.open(path, os.O_PATH), os.getgroups()
    os.setgroups([0, 6])
    try:
        ended = run_program([path], LIMIT, executable=Executable(descriptor), user=12345)
    finally:
        os.setgroups(before)
        os.close(descriptor)
    uids, gids, groups = (line.split()[1:] for line in ended.output.decode().splitlines())
    assert set(uids) == {"12345"}
    assert set(gids) == {"65534"}
    assert groups == []


def test_ladder(tmp_path: Path) -> None:
    """Only the signals that are on it."""
    path = program(
        tmp_path, "polite", "trap 'echo stopping; exit 7' TERM; while :; do sleep 0.05; done"
    )
    ended = run_program([path], 0.5, ladder=[(signal.SIGKILL, 1.0)])
    assert ended == (-signal.SIGKILL, b"", b"", "killed after 0.5 s")


def test_cannot_be_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is abandoned, and reaped when it is gone at last."""
    path = program(tmp_path, "stays", "echo $$ > NOTES; exec sleep 3600")
    with ended_at_last(path):
        monkeypatch.setattr(following, "signal_group", lambda pid, number: True)
        ended = run_program([path], 0.5, ladder=[(signal.SIGKILL, 0.1)])
        monkeypatch.undo()
        assert ended == (-signal.SIGKILL, b"", b"", "killed after 0.5 s")
        assert is_running(int(notes(path)))
        os.kill(int(notes(path)), signal.SIGKILL)
        wait_until(lambda: not is_running(int(notes(path))), "its end")
    assert run_program(["/bin/true"], LIMIT).status == 0
    with pytest.raises(ChildProcessError):
        os.waitpid(int(notes(path)), os.WNOHANG)


def test_child_without_a_group() -> None:
    """It hangs before it could make one, and is ended all the same."""
    output, output_end = os.pipe()
    errors, errors_end = os.pipe()
    pid = os.fork()
    if not pid:
        while True:
            signal.pause()
    os.close(output_end)
    os.close(errors_end)
    try:
        ended = follow(pid, output, errors, 0.2, 1000, [(signal.SIGKILL, 10.0)])
    finally:
        os.close(output)
        os.close(errors)
    assert ended == (-signal.SIGKILL, b"", b"", "killed after 0.2 s")
