"""Colours of words on a terminal; a file, a pipe, ``NO_COLOR`` and ``TERM=dumb`` get none."""

from __future__ import annotations

import os
import sys
from typing import Final, TextIO

#: Codes of the terminal's own colours, which its user has chosen to be readable.
GOOD: Final = "32"
WARN: Final = "33"
BAD: Final = "31;1"


def understands_codes(stream: TextIO) -> bool:
    """Whether the stream is a terminal that can do more than print lines."""
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def painted(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text in a colour, where ``stream`` (default: standard output) shows any.

    ``colour``: one of the codes above; empty: as it is.  Line ends stay outside.
    """
    out = sys.stdout if stream is None else stream
    body = text.rstrip("\n")
    if not body or not colour or os.environ.get("NO_COLOR") or not understands_codes(out):
        return text
    return f"\x1b[{colour}m{body}\x1b[0m{text[len(body) :]}"
