"""Random regular expressions, beside the library that luxid of Debian uses."""

from __future__ import annotations

import ctypes
import random
from collections import Counter
from collections.abc import Sequence
from typing import Final

import pytest
from thorough import seeds

from ganeti_steward.plugins.filters import regex
from ganeti_steward.plugins.filters.regex import Regex, Undecided, required_by

_MULTILINE: Final = 2
_NO_MATCH: Final = -1
_PARTS: Final = (
    *("a", "b", "B", "1", "-", ".", "_", "\\.", "\\d", "\\w", "\\W", "\\s", "\\h", "^", "$", "\\b"),
    *("(", ")", "(?:", "(?i)", "(?<n>", "(?>", "|", "*", "+", "?", "*+", "+?", "{2}", "{1,}"),
    *("{,2}", "[", "]", "[^", "[\\w-.]", "[[:alpha:]-.]", "[a-b]", "[.-\\d]", "[\\B]", "[]a]"),
    *("[[:upper:]]", "\\Q.\\E", "\\p{Lu}", "\\y", "\\j", "\\A", "\\z", "\\Z", "\\R", "\\1"),
    *("\\k<n>", "(?=", "(?!", "#"),
)
_TEXTS: Final = (
    *("", "a", "ab", "aB1", "-", "b.a", "a\nb", "OP_a", "11", "y", "a b", "]", "#", "{2}", "R"),
)


class Pcre:
    """PCRE, as luxid calls it."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libpcre.so.3")
        except OSError:
            pytest.skip("libpcre3 is not installed")
        self._library.pcre_compile.restype = ctypes.c_void_p

    def compiled(self, pattern: bytes) -> int | None:
        error, offset = ctypes.c_char_p(), ctypes.c_int()
        code: int | None = self._library.pcre_compile(
            pattern, _MULTILINE, ctypes.byref(error), ctypes.byref(offset), None
        )
        return code

    def is_in(self, code: int, text: bytes) -> bool:
        number: int = self._library.pcre_exec(
            ctypes.c_void_p(code), None, text, len(text), 0, 0, None, 0
        )
        assert number >= _NO_MATCH
        return number != _NO_MATCH


def expressions(seed: int, parts: Sequence[str] = _PARTS) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choices(parts, k=rng.randrange(1, 7))) for _ in range(100)]


def compared(seed: int) -> Counter[str]:
    """How many pairs were the same, unknown, or another way."""
    library, found = Pcre(), Counter[str]()
    for expression in expressions(seed):
        ours, code = Regex(expression), library.compiled(expression.encode())
        if code is None:
            found["refused"] += 1
            continue
        for text in _TEXTS:
            theirs = library.is_in(code, text.encode())
            try:
                same = ours.is_in(text) == theirs
            except Undecided:
                found["unknown"] += 1
                continue
            if not same:
                print(repr(expression), repr(text), theirs)
            found["same" if same else "different"] += 1
    return found


@pytest.mark.parametrize("seed", seeds(10, 200))
def test_what_is_found_is_what_pcre_finds(seed: int) -> None:
    found = compared(seed)
    assert found["different"] == 0
    assert found["unknown"] < found["same"] / 20


@pytest.mark.parametrize("seed", seeds(10, 200))
def test_what_is_found_without_pcre2(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Less is known, and nothing wrong."""
    monkeypatch.setattr(regex, "_library", lambda: None)
    found = compared(seed)
    assert found["different"] == 0
    assert found["same"] > 0


def test_much_is_known_without_pcre2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex, "_library", lambda: None)
    assert sum(compared(seed)["same"] for seed in range(10)) > 1000


@pytest.mark.parametrize("seed", seeds(10, 200))
def test_what_is_found_has_what_it_must_have(seed: int) -> None:
    """Rules are looked up by it, so a text without it is not even searched."""
    rng, known = random.Random(seed), 0
    for expression in expressions(seed, (*_PARTS, *"aB1._" * 30)):
        required, ours = required_by(expression), Regex(expression)
        known += bool(required)
        for text in (*_TEXTS, *("".join(rng.choices("aB1-._", k=12)) for _ in range(20))):
            try:
                assert not ours.is_in(text) or required in text.encode(), (expression, text)
            except Undecided:
                assert required == b"", expression
    assert known > 20
