"""What parents and children exchange: frames of JSON by `core.typed_json`.

A frame is four bytes with its length, then JSON.  A child may be foreign, so each is read with
care: what is not of the type that the reader expects is an error.
"""

from __future__ import annotations

import json
from typing import Any, Final

from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.typed_json import from_json, to_json

#: Bytes of one frame; explanations of a large batch take some tens of MB.
LONGEST: Final = 2**28

_HEAD: Final = 4


def frame(content: bytes) -> bytes:
    """A frame with this JSON."""
    return len(content).to_bytes(_HEAD, "big") + content


class Frames:
    """Bytes that come little by little, cut into frames."""

    def __init__(self, received: bytes = b"") -> None:
        self.received = bytearray(received)
        """what is no whole frame yet"""

    def next(self) -> bytes | None:
        """The next whole frame, None while it is not there; raises ValueError."""
        if len(self.received) < _HEAD:
            return None
        end = _HEAD + int.from_bytes(self.received[:_HEAD], "big")
        if end > LONGEST:
            raise ValueError("the message is too long")
        if len(self.received) < end:
            return None
        content = bytes(self.received[_HEAD:end])
        del self.received[:end]
        return content


def packed(head: Any, body: bytes = b"") -> bytes:
    """A frame with a NamedTuple, and the bytes it is about."""
    return frame(json.dumps(to_json(type(head), head)).encode()) + body


def unpacked(kind: Any, raw: bytes) -> tuple[Any, bytes]:
    """The value of a type in the first frame, and the bytes behind it; raises ValueError."""
    frames = Frames(raw)
    content = frames.next()
    if content is None:
        raise ValueError("the frame is not complete")
    return from_json(kind, load_json(content)), bytes(frames.received)
