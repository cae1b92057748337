"""What shows that no call of before goes on: every connection of then has been closed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ganeti_steward.plugins.maintenance.queue.calls import Connections


class Server:
    """A socket whose connections end when the test says so."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(8)
        self.taken: list[socket.socket] = []

    def call(self) -> None:
        """A caller that is gone before it is answered."""
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(self.path)

    def take(self) -> None:
        """Accept all that wait."""
        self.listener.setblocking(False)
        while True:
            try:
                self.taken.append(self.listener.accept()[0])
            except BlockingIOError:
                return

    def idle(self, seconds: float) -> None:
        """In place of a pause: accept, and let go of callers without a request."""
        self.take()
        for one in self.taken[self.kept :]:
            one.close()
        del self.taken[self.kept :]

    kept = 0
    """connections that do not end"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with ExitStack() as stack:
        made = Server(tmp_path / "socket")
        stack.callback(made.listener.close)
        stack.callback(lambda: [one.close() for one in made.taken])
        yield made


def connections(server: Server, path: str = "") -> Connections:
    return Connections(path or server.path, sleep=server.idle)


def test_nothing_was_open(server: Server) -> None:
    assert connections(server).awaited() == ""


def test_a_call_that_goes_on_is_waited_for_until_luxid_closes_it(server: Server) -> None:
    """Also where its caller is gone."""
    server.call()
    server.take()
    server.kept = 1
    ours = connections(server)
    assert ours.awaited().startswith("1 connections to luxid that were open when the daemon began")
    assert ours.awaited() != ""
    server.taken.pop().close()
    assert ours.awaited() == ""


def test_a_later_call_is_not_waited_for(server: Server) -> None:
    server.call()
    server.take()
    server.kept = 1
    ours = connections(server)
    assert ours.awaited() != ""
    before = server.taken.pop()
    server.call()
    server.take()
    before.close()
    assert ours.awaited() == ""
    server.call()
    server.take()
    assert ours.awaited() == ""


def test_a_connection_that_luxid_has_not_taken(server: Server) -> None:
    """A request can stand in it."""
    server.call()
    ours = Connections(server.path, sleep=lambda _: None)
    assert ours.awaited() == "luxid has not taken 2 connections yet"
    server.kept = 1
    server.take()
    stayed = server.taken[0]
    assert "were open when the daemon began" in connections(server).awaited()
    ours = connections(server)
    assert ours.awaited() != ""
    stayed.close()
    server.taken.clear()
    server.kept = 0
    assert ours.awaited() == ""


def test_the_end_of_luxid_ends_its_calls(server: Server) -> None:
    server.call()
    server.take()
    server.kept = 1
    ours = connections(server)
    assert ours.awaited() != ""
    server.listener.close()
    server.taken.pop().close()
    assert ours.awaited() == ""


def test_a_link_in_the_path(server: Server, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    server.call()
    server.take()
    server.kept = 1
    assert "1 connections" in connections(server, str(tmp_path / "link" / "socket")).awaited()


def test_a_name_of_its_own(server: Server, tmp_path: Path) -> None:
    """A server in another view of the file system has given it another name."""
    seen = tmp_path / "elsewhere"
    seen.mkdir()
    (seen / "socket").hardlink_to(server.path)
    server.call()
    server.take()
    server.kept = 1
    assert "1 connections" in connections(server, str(seen / "socket")).awaited()


def test_a_list_that_shows_nothing_is_no_evidence(server: Server, tmp_path: Path) -> None:
    empty = tmp_path / "table"
    empty.write_text("Num RefCount Protocol Flags Type St Inode Path\n")
    found = Connections(server.path, table=str(empty)).awaited()
    assert found.startswith("the connections to luxid cannot be listed: ")
    assert found.endswith(f"does not list the connections of {server.path}")
    found = Connections(server.path, table=str(tmp_path / "none")).awaited()
    assert found.endswith("No such file or directory")
    assert "cannot be listed" in Connections(str(tmp_path / "missing")).awaited()


@pytest.mark.parametrize("left_out", [(2,), (3, 5), (7, 8, 10)])
def test_a_reading_that_leaves_a_connection_out(
    server: Server, tmp_path: Path, left_out: tuple[int, ...]
) -> None:
    """The kernel does that while other sockets are closed; the call goes on all the same."""
    server.call()
    server.take()
    server.kept = 1
    heads = tmp_path / "table"
    heads.write_text("Num RefCount Protocol Flags Type St Inode Path\n")

    class Table:
        readings = 0

        def __fspath__(self) -> str:
            self.readings += 1
            return str(heads) if self.readings in left_out else "/proc/net/unix"

    table = Table()
    ours = Connections(server.path, table=table, sleep=server.idle)  # type: ignore[arg-type]
    assert ours.awaited().startswith("1 connections")
    assert table.readings > max(left_out)
    server.taken.pop().close()
    assert ours.awaited() == ""


def test_another_socket(server: Server, tmp_path: Path) -> None:
    """It has the same file name, and is called at the very moment of the first look."""
    (tmp_path / "x").mkdir()
    other = Server(tmp_path / "x" / "socket")

    class Table:
        looks = 0

        def __fspath__(self) -> str:
            self.looks += 1
            if self.looks == 2:
                other.call()
            return "/proc/net/unix"

    with other.listener:
        assert Connections(server.path, table=Table(), sleep=server.idle).awaited() == ""  # type: ignore[arg-type]
