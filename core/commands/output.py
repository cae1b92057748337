"""What all commands print goes through here: nothing in it can change a terminal.

Names and texts of others can hold escape sequences, and characters that turn the direction of what
follows.  They are shown with a backslash, ``u`` and four digits, which is also how JSON writes
them: the output of ``--json`` means the same.  Only ends of lines and tabulators pass, and the
control characters of `ours`.
"""

from __future__ import annotations

import io
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Final, TextIO

#: Text that needs no second look.
_PLAIN: Final = re.compile(r"[ -~\n\t]*")
#: No text of others has it.
_MARK: Final = f"\x1a{secrets.token_hex(8)}:"
_OURS: Final = re.compile(rf"{_MARK}([0-9a-f]+);")


def ours(text: str) -> str:
    """The text with control characters that are to reach the output as they are."""
    return "".join(char if char.isprintable() else f"{_MARK}{ord(char):x};" for char in text)


def shown(text: str) -> str:
    """The text as it is written: without what changes a terminal."""
    if _PLAIN.fullmatch(text):
        return text
    # Every second piece is the number of a character of `ours`.
    pieces = _OURS.split(text)
    pieces[::2] = ["".join(map(_shown, piece)) for piece in pieces[::2]]
    pieces[1::2] = [chr(int(number, 16)) for number in pieces[1::2]]
    return "".join(pieces)


def _shown(char: str) -> str:
    if char.isprintable() or char in "\n\t":
        return char
    units = char.encode("utf-16-be", errors="surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


class _Output(io.TextIOBase):
    """A stream of text in the place of another one."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(shown(text))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding


@contextmanager
def checked_output() -> Iterator[None]:
    """Let standard output and standard error show nothing that changes a terminal meanwhile."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that the terminal cannot show is no reason to stop.
            stream.reconfigure(errors="backslashreplace")
    with redirect_stdout(_Output(sys.stdout)), redirect_stderr(_Output(sys.stderr)):
        yield
