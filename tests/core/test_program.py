"""Running foreign programs: what they print, and what they may not do to the caller."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from programs import HANGING, ended_at_last, is_running, notes, program, wait_until

from ganeti_steward.core import process_group
from ganeti_steward.core.process import ENVIRONMENT, follow, run_program
from ganeti_steward.core.program_fault import program_fault

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
        ended = run_program([str(path), "a"], LIMIT, executable=descriptor)
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
        ended = run_program([path], LIMIT, executable=descriptor, user=12345)
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
        monkeypatch.setattr(process_group, "signal_group", lambda pid, number: True)
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


def test_program_that_may_be_run(tmp_path: Path) -> None:
    path = program(tmp_path, "good", "true")
    assert program_fault(path) == ""
    (tmp_path / "link").symlink_to("good")
    assert program_fault(str(tmp_path / "link")) == ""


def _missing(path: Path) -> str:
    return str(path / "nosuch")


def _relative(path: Path) -> str:
    return os.path.relpath(program(path, "good", "true"))


def _dangling(path: Path) -> str:
    (path / "link").symlink_to("nosuch")
    return str(path / "link")


def _directory(path: Path) -> str:
    return str(path)


def _not_executable(path: Path) -> str:
    file = Path(program(path, "plain", "true"))
    file.chmod(0o644)
    return str(file)


def _open_to_others(path: Path) -> str:
    file = Path(program(path, "open", "true"))
    file.chmod(0o757)
    return str(file)


def _in_an_open_directory(path: Path) -> str:
    place = path / "shared"
    place.mkdir()
    place.chmod(0o777)
    return program(place, "good", "true")


def _link_in_an_open_directory(path: Path) -> str:
    link = Path(_in_an_open_directory(path)).with_name("link")
    link.symlink_to("/bin/true")
    return str(link)


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (_missing, "cannot be used: No such file or directory"),
        (_relative, "is no absolute path"),
        (_dangling, "cannot be used: No such file or directory"),
        (_directory, "is no regular file"),
        (_not_executable, "is not executable"),
        (_open_to_others, "can be written to by others than its owner"),
        (
            _in_an_open_directory,
            "lies in {}/shared, which can be written to by others than its owner",
        ),
        (
            _link_in_an_open_directory,
            "lies in {}/shared, which can be written to by others than its owner",
        ),
    ],
)
def test_program_fault(tmp_path: Path, make: object, fault: str) -> None:
    assert callable(make)
    assert program_fault(make(tmp_path)) == fault.format(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_program_of_another_user(tmp_path: Path) -> None:
    path = program(tmp_path, "foreign", "true")
    os.chown(path, 12345, 12345)
    assert program_fault(path) == "belongs to the user 12345, not to root"


def test_file_in_a_sticky_directory(tmp_path: Path) -> None:
    """As /tmp: no other user can replace it."""
    tmp_path.chmod(0o1777)
    assert program_fault(program(tmp_path, "good", "true")) == ""
