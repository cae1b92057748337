"""Text in the man(7) language: what a page is put together from."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

_CODE = re.compile(r"`([^`]+)`")

#: Columns of a line of the source.
_WIDTH = 79
_WHOLE_WORDS = {"break_long_words": False, "break_on_hyphens": False}


def escaped(text: str) -> str:
    """Plain text: no character of it is markup."""
    return text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("^", r"\(ha")


def filled(text: str) -> str:
    """Plain text in lines that are filled; code in backquotes is bold."""
    parts = _CODE.split(text)
    return wrapped(
        "".join(bold(part) if at % 2 else escaped(part) for at, part in enumerate(parts))
    )


def wrapped(markup: str) -> str:
    """Markup in lines that fit; a new sentence begins a new line."""
    sentences = re.split(r"(?<=[.?!]) +(?=\\fB|[A-Z])", markup)
    lines = [part for one in sentences for part in textwrap.wrap(one, _WIDTH, **_WHOLE_WORDS)]
    return "\n".join(map(_no_request, lines))


def _no_request(text: str) -> str:
    """A line that begins with no request, whatever it begins with."""
    return rf"\&{text}" if text.startswith(".") else text


def bold(text: str) -> str:
    return rf"\fB{escaped(text)}\fR"


def italic(text: str) -> str:
    return rf"\fI{escaped(text)}\fR"


def heading(text: str) -> str:
    return f'.SH "{escaped(text.upper())}"'


def sub_heading(text: str) -> str:
    return f'.SS "{escaped(text)}"'


def paragraphs(text: str) -> Iterator[str]:
    """Paragraphs that a blank line divides; the first needs no macro."""
    for at, part in enumerate(text.strip().split("\n\n")):
        if at:
            yield ".PP"
        yield filled(" ".join(part.split()))


def tagged(tag: str, text: Iterable[str]) -> Iterator[str]:
    """A paragraph with a tag, which is markup already."""
    yield from (".TP", tag, *text)


def example(text: str) -> Iterator[str]:
    """Lines that are not filled."""
    yield ".EX"
    yield from (_no_request(escaped(one)) for one in text.split("\n"))
    yield ".EE"
