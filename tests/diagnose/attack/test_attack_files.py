"""Files and answers that another user or machine could have made: no hang, no traceback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from programs import TIME_LIMIT, program
from source_runs import run_command
from whitelists import needs_root, safe_directory

from ganeti_steward.allocators import kept_requests
from ganeti_steward.core.config.values import History
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.rapi import Rapi
from ganeti_steward.core.ganeti.sources import read_file
from ganeti_steward.core.ganeti.this_node import this_node
from ganeti_steward.core.iallocator import history
from ganeti_steward.core.model.finding import Finding
from ganeti_steward.core.safe_files import UnsafeFile, read_in_time
from ganeti_steward.diagnose.model.object import MOST_DEEP, object_faults
from ganeti_steward.diagnose.run.state_file import SET_ASIDE, read_state, read_stuck
from ganeti_steward.diagnose.sources.uid_pool import Pool, UidPoolError, read_pool
from ganeti_steward.plugins.lock_file import is_locked

#: What may lie where a file of JSON is expected.
DAMAGE: dict[str, Callable[[Path], object]] = {
    "1e999": lambda path: path.write_text('{"form":1,"held":{"md":1e999},"lost":1e999}'),
    "deep": lambda path: path.write_text('{"form":' * 100_000),
    "deep lists": lambda path: path.write_text("[" * 100_000 + "]" * 100_000),
    "NaN": lambda path: path.write_text('{"form":NaN}'),
    "digits": lambda path: path.write_text('{"form":' + "1" * 10_000 + "}"),
    "UTF-16": lambda path: path.write_bytes('{"form":1}'.encode("utf-16")),
    "zero bytes": lambda path: path.write_bytes(b"\0" * 1000),
    "fifo": os.mkfifo,
    "a directory": Path.mkdir,
    "a link": lambda path: path.symlink_to("/etc/passwd"),
    "a link to zeros": lambda path: path.symlink_to("/dev/zero"),
    "500 MB": lambda path: [path.touch(), os.truncate(path, 500_000_000)],
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_the_state(tmp_path: Path, kind: str) -> None:
    DAMAGE[kind](tmp_path / "state.json")
    kept = read_state(str(tmp_path))
    assert kept.state.held == {}
    assert kept.state.lost
    assert "what was known from earlier runs is lost" in kept.note
    assert os.path.lexists(tmp_path / f"state.json{SET_ASIDE}")
    assert read_state(str(tmp_path)).note == "", "the next run has nothing to note"


@pytest.mark.parametrize("kind", DAMAGE)
def test_the_list_of_what_is_stuck(tmp_path: Path, kind: str) -> None:
    DAMAGE[kind](tmp_path / "stuck.json")
    assert not read_stuck(str(tmp_path))


CALLS = {
    "1e999": '{"started":1e999,"pid":1,"arguments":[],"status":0}',
    "a text": '{"started":"1","pid":1,"arguments":[],"status":0}',
    "negative": '{"started":-1,"pid":1,"arguments":[],"status":0}',
    "far away": '{"started":18000000000000000000,"pid":1,"arguments":[],"status":0}',
    "a real number": '{"started":1.5,"pid":1,"arguments":[],"status":0}',
    "numbers as arguments": '{"started":1,"pid":1,"arguments":[1],"status":0}',
    "deep": '{"started":' + "[" * 100_000,
}


@pytest.mark.parametrize("kind", [*CALLS, "fifo", "a directory", "a link to zeros", "500 MB"])
def test_the_history(tmp_path: Path, kind: str) -> None:
    config = History(directory=str(tmp_path / "history"), keep=10)
    call = history.Call(time.time_ns(), os.getpid(), (), 0)
    history.record(config, call, b"{}", b"{}")
    (name,) = history.names(config)
    file = tmp_path / "history" / name / history.CALL
    file.unlink()
    if kind in CALLS:
        file.write_text(CALLS[kind])
    else:
        DAMAGE[kind](file)
    with pytest.raises(StewardError, match="cannot be read"):
        kept_requests.entry(config, name)


def run_iallocator(tmp_path: Path, *arguments: str) -> tuple[int, str]:
    """The real program as Ganeti calls it, with as much memory as a request may need."""
    config = tmp_path / "steward.toml"
    config.write_text(f'[log]\nfile = "{tmp_path}/log"\n[history]\nkeep = 0\n')
    done = subprocess.run(
        [Path(sys.executable).parent / "steward-iallocator", *arguments],
        env={"GNT_STEWARD_CONFIG": str(config), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIME_LIMIT * 5,
    )
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("/dev/zero", "it is longer than 268435456 bytes"),
        ("sparse", "it is longer than 268435456 bytes"),
        ("deep", "the message is not valid JSON"),
        ("infinite", "Error: "),
        ("/", "Is a directory"),
    ],
)
def test_the_file_of_the_iallocator(tmp_path: Path, path: str, fault: str) -> None:
    DAMAGE["500 MB"](tmp_path / "sparse")
    (tmp_path / "deep").write_text("[" * 100_000)
    (tmp_path / "infinite").write_text('{"version":2,"cluster_name":1e999,"request":{}}')
    status, printed = run_iallocator(tmp_path, str(tmp_path / path))
    assert status == 1
    assert fault in printed
    assert len(printed.splitlines()) == 1


def test_a_fifo_is_not_read_for_ever(tmp_path: Path) -> None:
    """The program reads its file like this; `test_a_fifo_as_input_file` has its real limit."""
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UnsafeFile, match=r"nothing more came within 0\.2 s"):
        read_in_time(str(tmp_path / "fifo"), 1000, 0.2)


def test_files_of_commands(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="it is longer than"):
        read_file("/dev/zero")
    os.mkfifo(tmp_path / "fifo")
    writing = threading.Thread(target=lambda: (tmp_path / "fifo").write_text("text"))
    writing.start()
    assert read_file(str(tmp_path / "fifo")) == b"text"
    writing.join()


FILES = ["ssconf_node_primary_ips", "ssconf_node_list", "ssconf_master_candidates_certs"]


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, DAMAGE["500 MB"]])
def test_fifos_in_the_directory_of_ganeti(tmp_path: Path, make: Callable[[Path], object]) -> None:
    """It belongs to a user of Ganeti's daemons."""
    for name in (*FILES, "client.pem", "uid-pool", "lock"):
        make(tmp_path / name)
    assert this_node(str(tmp_path), "node1.example.com").uuid == ""
    with pytest.raises(UidPoolError, match=r"cannot be read|longer than"):
        read_pool(Pool(str(tmp_path / "uid-pool"), str(tmp_path)))
    is_locked(str(tmp_path / "lock"))


@needs_root
@pytest.mark.parametrize(
    "wrapped", ['{"status":"evacuate","details":%s}', '{"status":"Ok","x":%s}']
)
@pytest.mark.parametrize(("deep", "good"), [(MOST_DEEP - 1, True), (MOST_DEEP, False)])
def test_nesting_counts_alike_in_check_and_run(wrapped: str, deep: int, good: bool) -> None:
    text = wrapped % ("[" * deep + "]" * deep)
    assert (object_faults(text.encode()) == []) is good
    with safe_directory() as place:
        program(place, "raid", f"echo '{text}'")
        (result,) = run_command("raid", 60, 2**20, directory=str(place))
    assert isinstance(result, Finding) is good, result


@contextmanager
def answering(raw: bytes) -> Iterator[str]:
    """A server that gives the same bytes to everybody."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, suppress(OSError):
                        connection.recv(2**16)
                        connection.sendall(raw)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


#: Moves the cursor, changes the title of the terminal, and begins a line of its own.
NASTY = "\x1b[2J\x1b]0;owned\x07\r\nERROR all is lost\x9b"
BODY = json.dumps({"code": 500, "message": NASTY, "explain": NASTY * 1000}).encode()
ANSWERS = {
    "explanation": b"HTTP/1.1 500 x\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY),
    "reason": b"HTTP/1.1 500 \x1b[2Jowned\x07\r\nContent-Length: 0\r\n\r\n",
    "status line": b"\x1b[2J\x07" * 1000 + b"\r\n\r\n",
    "header": b"HTTP/1.1 200 OK\r\n" + b"X: \x1b[2J\x07\r\n" * 200 + b"\r\n",
    "long header": b"HTTP/1.1 200 OK\r\nX: " + b"\x1b[2J" * 50_000 + b"\r\n\r\n",
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: \x1b[2J\x07\r\n\r\n\x1b[2J",
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\x1b[2J\x07\r\n",
    "coding": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1b[2J",
    "deep": b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n" + b"[" * 9000,
    "elsewhere": b"HTTP/1.1 302 \x1b[2J\r\nLocation: http://192.0.2.1/\x1b\r\n\r\n",
    "nothing": b"",
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_answers_of_rapi_are_not_echoed(kind: str) -> None:
    with answering(ANSWERS[kind]) as host, pytest.raises(StewardError) as caught:
        Rapi(host, verify=False, time_limit=TIME_LIMIT).call("GET", "info")
    text = str(caught.value)
    assert text.isprintable()
    assert len(text) < 700
