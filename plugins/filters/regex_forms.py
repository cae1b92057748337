"""Regular expressions in the forms that other libraries than luxid's take."""

from __future__ import annotations

import re
from typing import Final

#: Letters that mean themselves after a backslash in PCRE, and nothing in PCRE2: anywhere, and in
#: classes.
_PLAIN: Final = rb"FIJMOTYijmqy"
_PLAIN_IN_CLASS: Final = _PLAIN + rb"ABCGKRXZgkz"
#: One piece of an expression: quoted text, an escape, a class with a name, or one byte.
_PIECE: Final = re.compile(
    rb"\\Q.*?(?:\\E|\Z)|\\[pP]\{[^}]*\}|\\[pP].|\\.|\[:\^?[a-z]+:\]|.", re.DOTALL
)
#: What stands for several bytes within a class.
_SEVERAL: Final = re.compile(rb"\\[dDhHsSvVwWpP]|\[:")


def for_pcre2(pattern: bytes) -> bytes:
    """An expression of PCRE as PCRE2 takes it.

    PCRE takes a hyphen after something like ``\\w`` in a class for a hyphen, and unknown escapes
    for their letter.
    """
    pieces, found, opened = _PIECE.findall(pattern), [], -1
    for at, piece in enumerate(pieces):
        shown = piece
        if opened < 0:
            opened = at if piece == b"[" else -1
        elif piece == b"]" and at > opened + 1 + (pieces[opened + 1] == b"^"):
            opened = -1
        elif piece == b"-" and _SEVERAL.match(pieces[at - 1]):
            shown = b"\\-"
        plain = _PLAIN if opened < 0 else _PLAIN_IN_CLASS
        if len(piece) == 2 and piece[:1] == b"\\" and piece[1:] in plain:
            shown = piece[1:]
        found.append(shown)
    return b"".join(found)


#: One atom that means the same in Python: a letter or the like, an escape, a simple class.
_CLASS: Final = rb"\[\^?(?:[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9_ .:/@]|\\[dws])+-?\]"
_ATOM: Final = rb"(?:[A-Za-z0-9_ :/@,;=<>~%&\"'`!#-]|\\[.^$*+?()\[\]{}|/\\-]|\\[dDwWsS]|\.|" + (
    _CLASS + rb")"
)
_SIMPLE: Final = re.compile(
    rb"(?:[\^$|]|" + _ATOM + rb"[*+?]?|\((?!\?|\*)|\)(?![*+?{]))*", re.DOTALL
)
#: Quantifiers in an expression, and bytes in a text, so that a search ends in milliseconds.
_QUANTIFIERS: Final = 2
LONGEST: Final = 256


def for_python(pattern: bytes) -> re.Pattern[bytes] | None:
    """An expression that is simple enough to mean the same in Python; None where it is not.

    It can be searched in texts of up to `LONGEST` bytes.
    """
    if len(pattern) > LONGEST or not _SIMPLE.fullmatch(pattern):
        return None
    if sum(pattern.count(one) for one in (b"*", b"+", b"?")) > _QUANTIFIERS:
        return None
    try:
        return re.compile(pattern, re.MULTILINE)
    except re.error:
        return None


#: A letter or the like that stands for itself, and what can follow it or stand beside it.
_LITERAL: Final = re.compile(
    rb"\\([.^$*+?()\[\]{}|/\\-])|([A-Za-z0-9_ :/@,;=<>~%&\"'`!#-])", re.DOTALL
)
_OTHER: Final = re.compile(rb"\\[dDwWsS]|[.^$|]|\((?:\?:)?(?![?*])|\)|" + _CLASS, re.DOTALL)
_QUANTIFIER: Final = re.compile(rb"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})[+?]?")


def literal_in(pattern: bytes) -> bytes:
    """The longest text without which the expression is found nowhere; empty: none is known.

    Only outside of groups and alternatives, and only where all of the expression is understood.
    """
    runs, depth, at = [b""], 0, 0
    while at < len(pattern):
        literal = _LITERAL.match(pattern, at)
        piece = literal or _OTHER.match(pattern, at)
        if piece is None or (piece[0] == b"|" and not depth):
            return b""
        depth += (piece[0][:1] == b"(") - (piece[0] == b")")
        at = piece.end()
        quantifier = _QUANTIFIER.match(pattern, at)
        if literal and not depth and not quantifier:
            runs[-1] += literal[1] or literal[2]
        else:
            runs.append(b"")
        at = quantifier.end() if quantifier else at
    return max(runs, key=len)
