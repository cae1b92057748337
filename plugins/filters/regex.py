"""Regular expressions of rules, evaluated by PCRE2 within limits (job-filters 2.4).

luxid uses PCRE; of this family PCRE2 is the version that is maintained, and part of every Debian.
Users can write an expression into a rule, and a text into a job, for which the search takes years.
So the steps of a search are limited by the length of the text, and the time of all searches of a
rule, and of all rules, together.
"""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from ganeti_steward.core.json_reader import quoted
from ganeti_steward.plugins.filters.regex_forms import (
    LONGEST,
    for_pcre2,
    for_python,
    literal_in,
)

#: Names of the library; the first one is that of every Linux.
_NAMES: Final = ("libpcre2-8.so.0", "libpcre2-8.so", "libpcre2-8.dylib")
_MISSING: Final = (
    "only simple regular expressions can be evaluated, because the library PCRE2 "
    f"({_NAMES[0]}, of 10.30 or later) is not installed"
)

# Options and results of PCRE2's interface for bytes.
_CASELESS: Final = 0x8
_MULTILINE: Final = 0x400
_LINE_FEED: Final = 2
_NO_MATCH: Final = -1

#: Bytes of a text that is searched.
_LONGEST: Final = 4096
#: Steps of a search from one place in a text: at most this, and at most `_WORK` divided by the
#: square of the text's length, because it can begin at each place, and one step can read the whole
#: text.  The worst expressions take a few seconds.
_STEPS: Final = 100_000
_WORK: Final = 10**9
#: KiB of memory of a search.
_HEAP: Final = 16 * 2**10
#: Seconds of CPU time that the slow searches of one rule take together, about; those of all rules.
_TOGETHER: Final = 1.0
ALTOGETHER: Final = 5.0
#: Seconds of CPU time of a slow search; usual ones take some microseconds.
_SLOW: Final = 1e-4
#: Texts of which an expression remembers whether it is in them.
_REMEMBERED: Final = 100


class Undecided(Exception):
    """It is not known whether an expression is true; the text says why."""


class Effort:
    """What the searches of one rule take together, and as one of all rules."""

    def __init__(
        self, clock: Callable[[], float] = time.thread_time, *, of_all: Effort | None = None
    ) -> None:
        """``clock``: CPU time of this thread in s; ``of_all``: what the rules take together."""
        self._clock, self._of_all = clock, of_all
        self._left = _TOGETHER

    def renew(self, seconds: float = _TOGETHER) -> None:
        """Begin again, with so much time."""
        self._left = seconds

    @property
    def is_over(self) -> bool:
        """Whether the time is over, of the rule or of all."""
        return self._left <= 0 or (self._of_all is not None and self._of_all.is_over)

    @property
    def work(self) -> int:
        """`_WORK`, and little of it when the time is over: usual searches go on."""
        return _WORK // 1000 if self.is_over else _WORK

    def spent_on(self, search: Callable[[], int]) -> int:
        """The result of a search, whose time counts where it is slow."""
        begun = self._clock()
        result = search()
        taken = self._clock() - begun
        if taken > _SLOW:
            self._left -= taken
            if self._of_all:
                self._of_all._left -= taken
        return result


class Regex:
    """One regular expression."""

    def __init__(self, text: str, effort: Effort | None = None, *, any_case: bool = False) -> None:
        """``effort``: of the rule that it belongs to; ``any_case``: also find a in A."""
        self._text, self._effort = text, effort or Effort()
        self._known: dict[str, bool] = {}
        self.fault = ""
        """why it is no regular expression; empty: it is one, or that cannot be known"""
        self._library = _library()
        # luxid hands it over as a C string, which ends at the first NUL.
        self._pattern = text.partition("\0")[0].encode(errors="surrogatepass")
        self._code = self._compiled(_CASELESS if any_case else 0) if self._library else None
        self._simple = None if self._library or any_case else for_python(self._pattern)

    def is_in(self, text: str) -> bool:
        """Whether it is found anywhere in the text; raises Undecided."""
        known = self._known.get(text)
        if known is None:
            known = self._search(text.encode(errors="surrogatepass"))
            if len(self._known) < _REMEMBERED:
                self._known[text] = known
        return known

    def _compiled(self, options: int) -> int | None:
        code = self._compiled_as(self._pattern, options)
        if code is None and (other := for_pcre2(self._pattern)) != self._pattern:
            fault, self.fault = self.fault, ""
            code = self._compiled_as(other, options)
            self.fault = fault if code is None else ""
        return code

    def _compiled_as(self, pattern: bytes, options: int) -> int | None:
        error, offset = ctypes.c_int(), ctypes.c_size_t()
        assert self._library
        context = self._library.pcre2_compile_context_create_8(None)
        self._library.pcre2_set_newline_8(context, _LINE_FEED)
        code: int | None = self._library.pcre2_compile_8(
            pattern,
            len(pattern),
            _MULTILINE | options,
            ctypes.byref(error),
            ctypes.byref(offset),
            context,
        )
        self._library.pcre2_compile_context_free_8(context)
        if code is None:
            self.fault = f"{self._message(error.value)} at character {offset.value}"
        else:
            weakref.finalize(self, self._library.pcre2_code_free_8, code).atexit = False
        return code

    def _message(self, error: int) -> str:
        assert self._library
        buffer = ctypes.create_string_buffer(256)
        self._library.pcre2_get_error_message_8(error, buffer, len(buffer))
        return buffer.value.decode(errors="replace")

    def _search(self, text: bytes) -> bool:
        if self._library is None:
            if self._simple is None or len(text) > LONGEST:
                raise Undecided(_MISSING)
            return self._simple.search(text) is not None
        if self.fault:
            raise Undecided(f"the regular expression {quoted(self._text)} is faulty: {self.fault}")
        if len(text) > _LONGEST:
            raise self._undecided(f"is not searched in texts of more than {_LONGEST} bytes")
        result = self._effort.spent_on(lambda: self._matched(text))
        if result < _NO_MATCH:
            # Not the memory that this search has taken.
            _searching.__dict__.clear()
            # The same words for all limits: the sentence is reported again when it changes.
            raise self._undecided("takes too long")
        return result != _NO_MATCH

    def _undecided(self, text: str) -> Undecided:
        return Undecided(f"the regular expression {quoted(self._text)} {text}")

    def _matched(self, text: bytes) -> int:
        """What PCRE2 returns; negative: not found, or a limit was reached."""
        library = self._library
        assert library
        steps = min(_STEPS, self._effort.work // (len(text) + 1) ** 2)
        own = _searching.__dict__.get("own") or _Searching(library)
        if steps != own.steps:
            library.pcre2_set_match_limit_8(own.context, steps)
            own.steps = steps
        result: int = library.pcre2_match_8(
            self._code, text, len(text), 0, 0, own.data, own.context
        )
        return result


def required_by(expression: str) -> bytes:
    """What every text of up to `LONGEST` bytes has in which it is found; empty: not known."""
    found = Regex(expression)
    is_decided = found._simple is not None if found._library is None else not found.fault
    return literal_in(found._pattern) if is_decided else b""


class _Searching:
    """What the searches of one thread work with; it keeps the memory of the largest."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.context = library.pcre2_match_context_create_8(None)
        library.pcre2_set_heap_limit_8(self.context, _HEAP)
        self.data = library.pcre2_match_data_create_8(1, None)
        self.steps = 0
        weakref.finalize(self, library.pcre2_match_context_free_8, self.context).atexit = False
        weakref.finalize(self, library.pcre2_match_data_free_8, self.data).atexit = False
        _searching.own = self


_searching: Final = threading.local()


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL | None:
    """PCRE2, once it is needed; None where it is not installed."""
    for name in _NAMES:
        with suppress(OSError, AttributeError):
            return _declared(ctypes.CDLL(name))
    return None


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    """With the types of the functions that are used; raises AttributeError without one of them."""
    pointer, size, number, text = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_uint32,
        ctypes.c_char_p,
    )
    signatures: dict[str, tuple[Any, Sequence[Any]]] = {
        "compile_context_create": (pointer, [pointer]),
        "compile_context_free": (None, [pointer]),
        "set_newline": (ctypes.c_int, [pointer, number]),
        "compile": (pointer, [text, size, number, pointer, pointer, pointer]),
        "code_free": (None, [pointer]),
        "get_error_message": (ctypes.c_int, [ctypes.c_int, text, size]),
        "match_context_create": (pointer, [pointer]),
        "match_context_free": (None, [pointer]),
        "set_match_limit": (ctypes.c_int, [pointer, number]),
        "set_heap_limit": (ctypes.c_int, [pointer, number]),
        "match_data_create": (pointer, [number, pointer]),
        "match_data_free": (None, [pointer]),
        "match": (ctypes.c_int, [pointer, text, size, size, number, pointer, pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"pcre2_{name}_8")
        function.restype, function.argtypes = result, arguments
    return library
