"""Frames between parents and children: cut anywhere, refused where they are not as expected."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti_steward.core.process.frames import LONGEST, Frames, frame, packed, unpacked


class Head(NamedTuple):
    name: str
    number: int = 0


@given(contents=st.lists(st.binary(max_size=20), max_size=5), size=st.integers(1, 7))
def test_frames_that_come_in_pieces(contents: list[bytes], size: int) -> None:
    sent = b"".join(map(frame, contents))
    frames, read = Frames(), []
    for at in range(0, len(sent), size):
        frames.received += sent[at : at + size]
        while (content := frames.next()) is not None:
            read.append(content)
    assert read == contents
    assert frames.received == b""


def test_no_frame_yet() -> None:
    whole = frame(b"{}")
    for length in range(len(whole)):
        frames = Frames(whole[:length])
        assert frames.next() is None
        assert frames.received == whole[:length]


def test_the_longest() -> None:
    """Refused by its length, before any of it is kept."""
    with pytest.raises(ValueError, match="too long"):
        Frames((LONGEST + 1).to_bytes(4, "big")).next()


@given(name=st.text(), number=st.integers(-(2**53), 2**53), body=st.binary(max_size=50))
def test_there_and_back(name: str, number: int, body: bytes) -> None:
    assert unpacked(Head, packed(Head(name, number), body)) == (Head(name, number), body)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0\0\0",
        packed(Head("x"))[:-1],
        frame(b""),
        frame(b"nonsense"),
        frame(b"[" * 2000),
        frame(b"[]"),
        frame(b'{"name": 5, "number": 0}'),
        frame(b"\xff"),
    ],
)
def test_what_is_none(raw: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        unpacked(Head, raw)
