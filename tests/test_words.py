"""Words the project does not use: each has a plainer one that every reader knows."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]

#: A word, also as part of a name, and the words to use in its place.
WORDS: Final = {
    "told|tells?|telling": "reported, returned, prints, logs",
    "said": "reported, returned, a result",
    "asked|asks": "requested, required, queried, called",
    "guests?": "demand, instance",
    "boards?": "group model",
    "fates?": "deltas",
    "opinions?": "preferences",
    "departures?": "move rules",
    "settled": "final score, placed",
    "growth": "headroom, added instances",
    "patience": "time limit, disk timeout",
    "guards?": "timed call, isolation",
    "strangers?": "foreign",
    "inhabitants?": "instances on",
    "doubts?": "unknowns",
    "untold": "missing data",
    "wish(?:es)?": "requirement, desired location",
    "whoever": "everybody who, a program that",
    "anew": "again, newly",
    "mend(?:s|ed|ing)?": "fix, repair",
    "nobody|somebody": "no user, another process, unknown",
    "besides": "in addition to, apart from, also",
    "believes?|believed|believable|make-believe": "takes effect, plausible, simulated",
}

#: Line -> why it may hold such a word.
EXCEPTIONS: Final = {
    r"Xen guest|xen-cpu-avg-load": "hail's option and Ganeti's collector for Xen domains",
    r"TypeGuard": "a name of Python's typing",
}

#: The folders with everything that is written by hand, and recorded data among it.
FOLDERS: Final = ("core", "allocators", "plugins", "diagnose", "docs", "tests")
_RECORDED: Final = ROOT / "tests" / "data"


@cache
def files() -> dict[str, str]:
    """Everything that is written by hand: path -> text, read once for all words."""
    found = [
        *ROOT.glob("*.md"),
        *(file for file in (ROOT / "contrib").rglob("*") if file.suffix != ".pyc"),
        *(file for name in FOLDERS for file in (ROOT / name).rglob("*.*")),
    ]
    written = (".py", ".md", ".sh", "")
    return {
        str(file.relative_to(ROOT)): file.read_text(errors="replace")
        for file in sorted(found)
        if file.is_file() and _RECORDED not in file.parents and file != Path(__file__)
        if file.suffix in written or "contrib" in file.parts
    }


@cache
def index() -> dict[str, set[str]]:
    """Sequence of letters and hyphens in lower case -> the files it occurs in."""
    found = defaultdict[str, set[str]](set)
    for file, text in files().items():
        for sequence in set(re.findall(r"[a-z-]+", text.lower())):
            found[sequence].add(file)
    return found


def holding(words: str) -> list[str]:
    """The files with one of the words, whatever stands around it."""
    anywhere = re.compile(words)
    found = [one for sequence, one in index().items() if anywhere.search(sequence)]
    return sorted(set[str]().union(*found))


def uses(text: str, words: str) -> list[tuple[int, str]]:
    """Lines with one of the words, alone, between underscores or as a part of CamelCase."""
    lower, title = words, "|".join(word[0].upper() + word[1:] for word in words.split("|"))
    alone = re.compile(
        rf"(?<![A-Za-z])(?:(?:{lower}|{title})(?![a-z])|(?i:{lower})(?![A-Za-z]))|(?:{title})(?![a-z])"
    )
    return [
        (number, line.strip())
        for number, line in enumerate(text.splitlines(), 1)
        if alone.search(line) and not any(re.search(one, line) for one in EXCEPTIONS)
    ]


@pytest.mark.parametrize("words", WORDS)
def test_words(words: str) -> None:
    found = [
        f"{file}:{number}: {line}"
        for file in holding(words)
        for number, line in uses(files()[file], words)
    ]
    assert not found, f"use instead: {WORDS[words]}\n" + "\n".join(found)


def test_uses() -> None:
    text = "a = told\nb = i_told_you\nclass AllTold:\n# tolerated\nTOLDED = 1\nTOLD\nXen guest"
    assert [number for number, _ in uses(text, "told|guests?")] == [1, 2, 3, 6]
