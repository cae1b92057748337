"""Regular expressions of rules: what PCRE finds, and the limits of a search (job-filters 2.4)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final

import pytest
from hanging import in_a_child

from ganeti_steward.plugins.filters import regex
from ganeti_steward.plugins.filters.regex import Effort, Regex, Undecided, required_by
from ganeti_steward.plugins.filters.regex_forms import for_python

#: Needs more steps for a text than there are atoms: all ways to divide it are tried.
EVIL: Final = "^(a+)+$"
TEXT: Final = "a" * 40 + "!"

#: Expression -> a text in which it is found, and one in which it is not.
FOUND: Final = {
    "TEST_": ("OP_TEST_DELAY", "OP_test_DELAY"),
    "^b$": ("a\nb\nc", "ab\nbc"),
    "\\Ab": ("b", "a\nb"),
    "(?<name>a)\\k<name>": ("caab", "aba"),
    "\\Q.*\\E": ("a.*", "ab"),
    "\\p{Lu}": ("aB", "ab"),
    "\\hx": ("a x", "ax"),
    "a(?i)b": ("aB", "AB"),
    "^(\\((?1)*\\))$": ("(()())", "(()"),
    "[[:alpha:]]+\\d": ("ab1", "ab"),
    "[[a]": ("[", "b"),
    "a++b": ("aab", "aac"),
    "(?|(a)|(b))\\1": ("bb", "ab"),
    "b\0c": ("ab", "ac"),
    "a.b": ("a\0b", "a\nb"),
    "^[\\w-.]+$": ("web-1.x", "web/1"),
    "^[[:digit:]-.]+$": ("1-.", "/"),
    "^[]\\d-a]+$": ("]-a1", "b"),
    "a\\yb[\\j]": ("aybj", "a\\yb"),
    "\\Q[\\d-x]\\E\\y": ("[\\d-x]y", "1y"),
}

#: Expressions that need no PCRE2 -> a text in which they are found.
SIMPLE: Final = {
    "TEST_": "OP_TEST_DELAY",
    "^b$": "a\nb",
    "a.b": "axb",
    "^(web|db)[0-9]+\\.lab$": "db12.lab",
    "[^a-c_]x*": "d",
    "\\w\\s?-": "a-",
    "": "x",
    "b\0c": "ab",
}

FAULTY: Final = (
    "(",
    "*a",
    "a{99999999999}",
    "[z-a]",
    "\\p{Nothing}",
    "(?<n>a",
    "[[:nothing:]]",
    "[.-\\d]",
)


@pytest.mark.parametrize("expression", FOUND)
def test_what_is_found(expression: str) -> None:
    found = Regex(expression)
    inside, outside = FOUND[expression]
    assert (found.fault, found.is_in(inside), found.is_in(outside)) == ("", True, False)
    # What is remembered is the same.
    assert (found.is_in(inside), found.is_in(outside)) == (True, False)


@pytest.mark.parametrize("expression", FAULTY)
def test_faulty_ones(expression: str) -> None:
    """Whatever it is for, its outcome is not known."""
    found = Regex(expression)
    assert " at character " in found.fault
    with pytest.raises(Undecided, match="is faulty"):
        found.is_in("")


def test_any_case() -> None:
    assert Regex("test", any_case=True).is_in("OP_TEST_DELAY")


def test_other_text_than_ascii() -> None:
    assert Regex("\u00fc.").is_in("x\u00fcy")
    assert not Regex("\u00fc").is_in("\ud800")
    assert Regex("\ud800").is_in("a\ud800")


@in_a_child
def test_an_expression_that_takes_too_many_steps() -> None:
    with pytest.raises(Undecided, match=r"expression '\^\(a\+\)\+\$' takes too long$"):
        Regex(EVIL).is_in(TEXT)
    assert Regex(EVIL).is_in("a" * 40)
    assert not Regex(EVIL).is_in("!")


def evil_searches() -> Iterator[tuple[str, str]]:
    """Expressions without PCRE2's own shortcuts, with many steps from each place of a text."""
    for longest in (1, 12, 41, 255, 1000, 4096):
        for part in ("[^z]*+[z]", "\\X*+[z]", "(?i)(a*)\\1[z]", "\\p{L}*+[z]", "(?![^z]*+[z])[z]"):
            for count in (4, 8, 14):
                yield f"(*NO_START_OPT)(*NO_AUTO_POSSESS)(?:{'a?' * count}{part})", "a" * longest
    yield "(*NO_START_OPT)(?:" + "(" * 200 + "a?" + ")*" * 200 + "[z])", "a" * 4096
    yield "(a?|(?1))*[^a]", "a" * 30
    yield "(?R)", "a"


@in_a_child
def test_hostile_searches_end() -> None:
    """In a thread with the small stack that those of the daemon have, too."""
    outcomes = set[bool | None]()

    def search() -> None:
        for expression, text in evil_searches():
            try:
                outcomes.add(Regex(expression).is_in(text))
            except Undecided:
                outcomes.add(None)
        outcomes.add(Regex("(" * 250 + ")" * 250).is_in(""))

    threading.stack_size(256 * 2**10)
    thread = threading.Thread(target=search)
    thread.start()
    thread.join()
    assert outcomes == {True, False, None}


def test_a_long_text() -> None:
    with pytest.raises(Undecided, match="is not searched in texts of more than 4096 bytes"):
        Regex("a").is_in("a" * 5000)


def test_the_time_of_one_rule() -> None:
    """Searches that take long share it; afterwards only quick ones are decided."""
    now = iter(float(second) for second in range(1000))
    effort = Effort(lambda: next(now))
    slow, quick = Regex(EVIL, effort), Regex("b", effort)
    assert not slow.is_in("a" * 15 + "!")
    assert quick.is_in("ab")
    assert not quick.is_in("a" * 41)
    with pytest.raises(Undecided, match="takes too long"):
        slow.is_in("a" * 15 + "?")
    assert not Regex(EVIL, Effort(lambda: 0.0)).is_in("a" * 15 + "?")


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little is known then, also not whether an expression is faulty."""
    monkeypatch.setattr(regex, "_library", lambda: None)
    for expression in ("(", *FOUND):
        found = Regex(expression)
        assert found.fault == ""
        if expression not in SIMPLE:
            with pytest.raises(Undecided, match=r"libpcre2-8.so.0, .* is not installed"):
                found.is_in("a")
    with pytest.raises(Undecided):
        Regex("a").is_in("a" * 300)


@pytest.mark.parametrize("expression", SIMPLE)
def test_what_is_known_without_the_library(
    expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_it = Regex(expression)
    monkeypatch.setattr(regex, "_library", lambda: None)
    without = Regex(expression)
    for text in (*(text for each in FOUND.values() for text in each), *SIMPLE.values(), "", "a\n"):
        assert without.is_in(text) == with_it.is_in(text)
    assert without.is_in(SIMPLE[expression])


@pytest.mark.parametrize(
    "expression",
    ["a*b*c*", "(a+)+", "[[:alpha:]]", "[[a]", "a{2}", "(?i)a", "\\Ab", "b\\Z", "a++", "\\1"],
)
def test_what_is_not_known_without_it(expression: str) -> None:
    assert for_python(expression.encode()) is None


def test_a_library_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        def __init__(self, name: str) -> None:
            self.name = name

    monkeypatch.setattr(regex.ctypes, "CDLL", Old)
    assert regex._library.__wrapped__() is None


#: Expression -> what every text has in which it is found; empty: that is not known.
REQUIRED: Final = {
    "^web12[a-z]+$": b"web12",
    "ab+cde?f": b"cd",
    "a{2}bcd{0}ef": b"bc",
    "(web|db)[0-9]{2}\\.example\\.com": b".example.com",
    "(?:a|(b|c))+xy(z)": b"xy",
    "web|db": b"",
    "(?i)web": b"",
    "web(?#comment)": b"",
    "(*ACCEPT)web": b"",
    "we(?!b)": b"",
    "\\Qweb.\\E": b"",
    "\\x41web": b"",
    "[[:alpha:]]web": b"",
    "web(": b"",
    "web{99999999999}": b"",
    "web\0db": b"web",
    "\u00fcweb": b"",
    "": b"",
}


@pytest.mark.parametrize("expression", REQUIRED)
def test_what_a_text_must_have(expression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert required_by(expression) == REQUIRED[expression]
    monkeypatch.setattr(regex, "_library", lambda: None)
    without = required_by(expression)
    is_simple = for_python(expression.partition("\0")[0].encode()) is not None
    assert without == (REQUIRED[expression] if is_simple else b"")


def test_the_time_of_all_rules() -> None:
    """It ends before that of each rule where many rules are slow."""
    now = iter(float(second) for second in range(1000))
    of_all = Effort()
    of_all.renew(1.0)
    first, second = (Effort(lambda: next(now), of_all=of_all) for _ in range(2))
    assert not Regex(EVIL, first).is_in("a" * 15 + "!")
    with pytest.raises(Undecided, match="takes too long"):
        Regex(EVIL, second).is_in("a" * 15 + "!")
    of_all.renew(1.0)
    second.renew()
    assert not Regex(EVIL, second).is_in("a" * 15 + "!")
