"""Our own regular expressions on long texts: none takes more than about linear time.

A search that takes the cube of a text's length does not end here; one that takes its square does
not with ``--thorough``.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hanging import in_a_child
from thorough import often

import ganeti_steward
from ganeti_steward.diagnose.collectors.shared.results import matches
from ganeti_steward.plugins.aggregates.language.requests import Ask

ROOMS: Final = ("core", "allocators", "plugins", "diagnose")
#: Characters of a text.
LENGTH: Final = often(100_000, 2_000_000)
USUAL: Final = (" ", "a", "0", "-", ".", "\n", "1 ", "a-", "0.", "a_", "\\", '"')


def patterns(value: Any, levels: int = 3) -> Iterator[re.Pattern[Any]]:
    """Those in a value of a module."""
    if isinstance(value, re.Pattern):
        yield value
    elif levels and isinstance(value, tuple | list | frozenset | Mapping):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from patterns(one, levels - 1)


def all_patterns() -> dict[tuple[Any, int], tuple[re.Pattern[Any], bool]]:
    """Each once, and whether it is searched in texts, rather than matched at their beginning."""
    found: dict[tuple[Any, int], tuple[re.Pattern[Any], bool]] = {}
    for room in ROOMS:
        package = importlib.import_module(f"{ganeti_steward.__name__}.{room}")
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(info.name)
            source = inspect.getsource(module)
            for name, value in vars(module).items():
                for one in patterns(value):
                    searched = f"{name}.search(" in source or f"{name}.sub(" in source
                    key = one.pattern, one.flags
                    found[key] = one, searched or (key in found and found[key][1])
    return found


def texts(source: str) -> Iterator[str]:
    """Long ones of what is in a pattern, and of usual characters."""
    literal = set(re.sub(r"\\[A-Za-z]", "", source)) - set("\\^$()?*+|{}")
    for unit in sorted(literal | set(USUAL)):
        yield unit * (LENGTH // len(unit)) + "\0"


def tried(pattern: re.Pattern[Any], searched: bool) -> None:
    """Match it with all texts."""
    raw = isinstance(pattern.pattern, bytes)
    source = pattern.pattern.decode("latin-1") if raw else pattern.pattern
    for text in texts(source):
        subject = text.encode("latin-1", "replace") if raw else text
        pattern.match(subject)
        pattern.fullmatch(subject)
        if searched:
            pattern.search(subject)


@in_a_child
def test_time_of_long_texts() -> None:
    found = all_patterns()
    assert len(found) > 90
    assert sum(searched for _, searched in found.values()) > 5
    for pattern, searched in found.values():
        print(pattern.pattern, flush=True)
        tried(pattern, searched)


@in_a_child
def test_patterns_of_the_shell() -> None:
    """Those of tags and of the configuration, which Python turns into regular expressions."""
    pattern, text = "*a" * 60 + "b", "a" * LENGTH
    assert not Ask("os", pattern, ()).fits(text)
    assert Ask("os", pattern, ()).fits(f"{text}b")
    assert not matches(text, [pattern])
