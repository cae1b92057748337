"""What callers may take of a server: memory, places, time, and one answer each."""

from __future__ import annotations

import re
import socket
import struct
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import pytest
from programs import TIME_LIMIT, wait_until
from served import answer, answer_at, calling, request, serving

from ganeti_steward.core.service.http_messages import HttpAnswer, HttpRequest
from ganeti_steward.core.service.http_server import Limits, Server, bind

#: Bytes of a large body, and those from which on it is refused.
LARGE: Final = 2**20
LIMITS: Final = Limits(body=2 * LARGE)

BODY: Final = b"body" * (LARGE // 4)
SIZED: Final = (f"Content-Length: {LARGE}", BODY)
CHUNKED: Final = ("Transfer-Encoding: chunked", b"%x\r\n%s\r\n0\r\n\r\n" % (LARGE, BODY))


@contextmanager
def counted_memory() -> Iterator[list[int]]:
    """How many bytes this process takes at most meanwhile, in addition."""
    most: list[int] = []
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield most
        most.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("line", "body"), [SIZED, CHUNKED], ids=["sized", "chunked"])
@pytest.mark.parametrize(
    ("host", "path", "size"),
    [("node1.lab", "/read", LARGE), ("node1.lab", "/other", 0), ("evil.net", "/read", 0)],
)
def test_a_body_is_kept_only_for_who_reads_it(
    host: str, path: str, size: int, line: str, body: bytes
) -> None:
    """A caller who is not listened to gets an answer all the same, when all was sent."""
    queried: list[tuple[str, str]] = []

    def reads(address: str, at: str) -> bool:
        queried.append((address, at))
        return at == "/read"

    head = request(f"POST {path} HTTP/1.1", f"Host: {host}", line)
    with (
        serving(limits=LIMITS, reads_body=reads) as place,
        calling(place, head) as one,
        counted_memory() as most,
    ):
        one.sendall(body)
        status, text = answer_at(one)
    if size:
        assert most[0] > LARGE
    else:
        assert most[0] < LARGE // 2
    assert (status, text == str(size).encode()) == (
        (421, False) if host == "evil.net" else (200, True)
    )
    assert queried == ([] if host == "evil.net" else [("127.0.0.1", path)])


@pytest.mark.parametrize("size", [2 * LARGE, 10**17])
def test_a_body_that_is_too_large_is_not_read(size: int) -> None:
    """The answer comes though nothing of it was sent."""
    head = request("POST / HTTP/1.1", "Host: localhost", f"Content-Length: {size}")
    with serving(limits=LIMITS, reads_body=lambda *_: True) as place:
        assert answer(place, head)[0] == 413


def chunks(*sizes: int, end: bytes = b"0\r\n\r\n") -> bytes:
    return b"".join(b"%x;note\r\n%s\r\n" % (size, b"x" * size) for size in sizes) + end


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (chunks(), (200, b"0")),
        (chunks(1, 10_000, 3), (200, b"10004")),
        (chunks(5, end=b"0\r\nX-A: b\r\nX-C: d\r\n\r\n"), (200, b"5")),
        (chunks(5, end=b"000\r\n\r\nGET / HTTP/1.1\r\n\r\n"), (200, b"5")),
        (chunks(60_000, 60_000), (413, b"the body of the request is too large\n")),
        (b"ffffffff\r\n", (413, b"the body of the request is too large\n")),
        (b"5\r\nhello!\r\n0\r\n\r\n", (400, b"a chunk of the body is broken\n")),
        (b"-5\r\nhello\r\n0\r\n\r\n", (400, b"a chunk of the body is broken\n")),
        (b"100000000\r\n", (400, b"a chunk of the body is broken\n")),
        (b"\r\n", (400, b"a chunk of the body is broken\n")),
        (b"5;" + b"x" * 30_000, (431, b"a line or the head of the request is too long\n")),
    ],
)
def test_chunks(body: bytes, expected: tuple[int, bytes]) -> None:
    head = request("POST / HTTP/1.1", "Host: localhost", "Transfer-Encoding: Chunked")
    limits = Limits(body=100_000)
    with serving(limits=limits, reads_body=lambda *_: True) as place, calling(place, head) as one:
        one.sendall(body)
        try:
            assert answer_at(one) == expected
        except ConnectionResetError:
            # Some of it was not read.
            assert expected[0] in (413, 431)


@pytest.mark.parametrize("line", ["Content-Length: 5", "Transfer-Encoding: chunked"])
def test_a_body_that_waits_for_a_word(line: str) -> None:
    head = request("POST / HTTP/1.1", "Host: localhost", "Expect: 100-Continue", line)
    with serving(reads_body=lambda *_: True) as place, calling(place, head) as one:
        expected = b"HTTP/1.1 100 Continue\r\n\r\n"
        assert one.recv(len(expected), socket.MSG_WAITALL) == expected
        one.sendall(b"hello" if "Length" in line else chunks(5))
        assert answer_at(one) == (200, b"5")


def test_the_word_is_not_given_for_a_body_that_is_refused() -> None:
    lines = ("Host: localhost", "Expect: 100-continue", f"Content-Length: {2 * LARGE}")
    with serving(limits=LIMITS) as place:
        assert answer(place, request("POST / HTTP/1.1", *lines))[0] == 413


@pytest.mark.parametrize("host", ["localhost", "evil.net"])
def test_no_body_of_an_answer_to_head(host: str) -> None:
    with serving() as place, calling(place, request("HEAD / HTTP/1.1", f"Host: {host}")) as one:
        whole = one.makefile("rb").read()
    head, _, body = whole.partition(b"\r\n\r\n")
    (length,) = re.findall(rb"^Content-Length: (\d+)", head, re.MULTILINE)
    assert (body, int(length) > 0) == (b"", True)
    assert b"\r\nConnection: close\r\n" in whole


class Blocked:
    """An application that answers when it is let go on."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Semaphore(0), threading.Event()

    def __call__(self, _: HttpRequest) -> HttpAnswer:
        self.begun.release()
        assert self.go_on.wait(TIME_LIMIT)
        return HttpAnswer(b"done")


GET: Final = request("GET / HTTP/1.1", "Host: localhost")


def test_what_comes_behind_a_request_is_left_to_the_kernel() -> None:
    """While an application works, its caller can send nothing that takes memory."""
    work = Blocked()
    with serving(work) as place, calling(place, GET) as one:
        assert work.begun.acquire(timeout=TIME_LIMIT)
        one.setblocking(False)
        sent = 0
        # What the kernels of both sides take, and not more.
        with counted_memory() as most, suppress(BlockingIOError):
            while sent < 64 * LARGE:
                sent += one.send(BODY)
        assert sent < 64 * LARGE
        assert most[0] < LARGE // 2
        work.go_on.set()


def test_requests_wait_for_a_thread() -> None:
    """However long: no connection is closed for it."""
    work = Blocked()
    with (
        serving(work, Limits(threads=1, life=0.1)) as place,
        calling(place, GET) as first,
        calling(place, GET) as second,
    ):
        assert work.begun.acquire(timeout=TIME_LIMIT)
        second.settimeout(0.5)
        with pytest.raises(TimeoutError):
            second.recv(1)
        second.settimeout(TIME_LIMIT)
        work.go_on.set()
        assert [answer_at(one) for one in (first, second)] == [(200, b"done")] * 2


def test_who_breaks_off_makes_room_at_once() -> None:
    """And no thread begins to work for it."""
    work, read = Blocked(), threading.Semaphore(0)

    def reads(*_: str) -> bool:
        read.release()
        return True

    def is_room() -> bool:
        """Whether a connection gets an answer that needs no thread."""
        try:
            return answer(place, request("GET / HTTP/1.1", "Host: evil.net"))[0] == 421
        except (ConnectionError, IndexError):
            return False

    post = request("POST / HTTP/1.1", "Host: localhost", "Content-Length: 1") + b"x"
    limits = Limits(threads=1, connections_of_one=3)
    with serving(work, limits, reads) as place, calling(place, GET) as first:
        assert work.begun.acquire(timeout=TIME_LIMIT)
        with calling(place, post) as second, calling(place, post) as third:
            for one in (second, third):
                assert read.acquire(timeout=TIME_LIMIT)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            assert not is_room()
        wait_until(is_room, "that there is room")
        work.go_on.set()
        assert [answer_at(first), answer(place, GET)] == [(200, b"done")] * 2
    assert work.begun.acquire(blocking=False)
    assert not work.begun.acquire(blocking=False)


def test_it_ends_before_an_application_that_hangs() -> None:
    work, listener = Blocked(), bind("127.0.0.1", 0)
    place = listener.getsockname()
    server = Server(work, listener, Limits(), ())
    thread = threading.Thread(target=server.run)
    thread.start()
    # They are accepted in their order, so the idle one is when the other is answered.
    with calling(place, b"") as idle, calling(place, GET) as asking:
        assert work.begun.acquire(timeout=TIME_LIMIT)
        server.stop()
        thread.join()
        server.finish()
        assert [one.makefile("rb").read() for one in (asking, idle)] == [b"", b""]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(place, TIME_LIMIT)
    # A second signal may come whenever it likes.
    server.stop()
    work.go_on.set()


@pytest.mark.parametrize("_", range(20))
def test_a_connection_that_comes_at_the_end_is_closed(_: int) -> None:
    """It may be accepted, and not begun, in the step of the loop in which the server stops."""
    work, listener = Blocked(), bind("127.0.0.1", 0)
    server = Server(work, listener, Limits(), ())
    thread = threading.Thread(target=server.run)
    thread.start()
    with calling(listener.getsockname(), GET):
        assert work.begun.acquire(timeout=TIME_LIMIT)
        with calling(listener.getsockname(), b"") as idle:
            server.stop()
            thread.join()
            server.finish()
            with suppress(ConnectionResetError):
                assert idle.recv(1) == b""
    work.go_on.set()


def test_the_last_answers_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """To those whose requests came before the end."""
    monkeypatch.setattr("ganeti_steward.core.service.http_server._LAST_ANSWERS", TIME_LIMIT)
    work, listener = Blocked(), bind("127.0.0.1", 0)
    place = listener.getsockname()
    server = Server(work, listener, Limits(), ())
    thread = threading.Thread(target=server.run)
    thread.start()
    with calling(place, GET) as asking:
        assert work.begun.acquire(timeout=TIME_LIMIT)
        server.stop()
        thread.join()
        work.go_on.set()
        server.finish()
        assert answer_at(asking) == (200, b"done")


def test_a_fault_of_the_application(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: HttpRequest) -> HttpAnswer:
        raise ZeroDivisionError

    with serving(broken, Limits(threads=1)) as place:
        for _ in range(2):
            assert answer(place, GET) == (500, b"failed\n")
    assert [one.getMessage() for one in caplog.records] == ["a request failed"] * 2


def test_a_fault_of_the_server(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It closes the connection, is logged once a minute, and ends nothing."""

    def broken(_: bytes, __: str) -> HttpRequest:
        raise ZeroDivisionError

    with serving() as place:
        with monkeypatch.context() as patched:
            patched.setattr("ganeti_steward.core.service.http_server.parse_head", broken)
            for _ in range(3):
                with calling(place, GET) as one:
                    assert one.makefile("rb").read() == b""
        assert answer(place, GET) == (200, b"0")
    assert [one.getMessage() for one in caplog.records] == ["a connection failed"]


@pytest.fixture
def _by_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each loopback address is a caller of its own."""
    monkeypatch.setattr("ganeti_steward.core.service.http_server.caller", str)


ONE, OTHER, THIRD = "127.0.0.1", "127.0.0.2", "127.0.0.3"


@pytest.mark.usefixtures("_by_address")
def test_who_has_all_places_makes_room_for_himself() -> None:
    """His oldest connection goes, not one of another caller."""
    with (
        serving(limits=Limits(connections_of_one=2)) as place,
        calling(place, b"", OTHER) as others,
        calling(place, b"", ONE) as first,
        calling(place, b"GET", ONE) as second,
        calling(place, b"", ONE) as third,
    ):
        assert first.recv(1) == b""
        for one, rest in ((others, GET), (second, GET[3:]), (third, GET)):
            one.sendall(rest)
            assert answer_at(one) == (200, b"0")


@pytest.mark.usefixtures("_by_address")
def test_who_has_most_makes_room() -> None:
    """The oldest that waits of the caller with the most connections."""
    with (
        serving(limits=Limits(connections=3)) as place,
        calling(place, b"", OTHER) as others,
        calling(place, b"", ONE) as first,
        calling(place, b"", ONE) as second,
        calling(place, GET, THIRD) as third,
    ):
        assert answer_at(third) == (200, b"0")
        assert first.recv(1) == b""
        for one in (others, second):
            one.sendall(GET)
            assert answer_at(one) == (200, b"0")


def test_an_answer_that_is_read_stays_longer_than_who_waits() -> None:
    """Though it is older; without one that waits it goes."""
    limits = Limits(connections_of_one=2)
    with (
        serving(lambda _: HttpAnswer(b"x" * 2**25), limits) as place,
        calling(place, GET) as reading,
        calling(place, b"") as waiting,
    ):
        assert reading.recv(1) == b"H"
        with calling(place, GET) as more:
            assert waiting.recv(1) == b""
            assert more.recv(1) == b"H"
            with calling(place, b"GET") as last:
                with suppress(ConnectionResetError):
                    assert len(reading.makefile("rb").read()) < 2**25
                last.sendall(GET[3:])
                assert len(answer_at(last)[1]) == 2**25
            assert len(more.makefile("rb").read()) > 2**25


@pytest.mark.usefixtures("_by_address")
def test_no_room_while_all_are_worked_for() -> None:
    """A newcomer is closed, and those who wait for their answers get them."""
    work = Blocked()
    with (
        serving(work, Limits(threads=2, connections=2)) as place,
        calling(place, GET, ONE) as first,
        calling(place, GET, OTHER) as second,
    ):
        for _ in range(2):
            assert work.begun.acquire(timeout=TIME_LIMIT)
        with calling(place, b"", THIRD) as third:
            assert third.recv(1) == b""
        work.go_on.set()
        assert [answer_at(one) for one in (first, second)] == [(200, b"done")] * 2
