"""The table of the kernel's messages: what the collector makes of each, and what is recorded.

`contrib/manual/kernel_messages.py` completes the table from the sources.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from asserting import some
from collected import RECORDED, collect, faults
from kernel_messages import made, read, unpacked

from ganeti_steward.diagnose.collectors.kernel import KINDS, MessageKind
from ganeti_steward.diagnose.testing import RecordedMachine

ROWS: Final = read()["message"]
RELEASES: Final = ("6.1", "6.12")
_CONVERSION: Final = re.compile(
    r"%(?P<zeros>[-+ #]*0)?(?P<flags>[-+ #]*)(?P<width>[0-9]*)(?:\.(?:[0-9]+|\*))?"
    r"(?:hh|h|ll|l|L|z)?(?P<kind>p[A-Za-z]*|[a-zA-Z%])"
)


def priority(row: dict[str, Any]) -> int:
    """That of the message, in all kernels the same."""
    (found,) = {row[name][2] for name in RELEASES if name in row}
    assert isinstance(found, int)
    return found


def lines_of(form: str) -> re.Pattern[str]:
    """What all lines of a format match."""

    def converted(one: re.Match[str]) -> str:
        least = max(1, int(one["width"] or 0) if one["zeros"] else 1)
        return {
            **dict.fromkeys("di", f"-?[0-9]{{{least},}}"),
            **dict.fromkeys("xX", f"{'0x' * ('#' in one['flags'])}[0-9a-f]{{{least},}}"),
            "u": f"[0-9]{{{least},}}",
            "%": "%",
        }.get(one["kind"], ".*")

    texts = [re.escape(text) for text in _CONVERSION.split(form)[:: _CONVERSION.groups + 1]]
    between = [converted(one) for one in _CONVERSION.finditer(form)]
    return re.compile("".join(a + b for a, b in zip(texts, [*between, ""], strict=True)))


def is_of(row: dict[str, Any], line: str) -> bool:
    """Whether a line is a row's format filled in, with the row's words."""
    words = [lines_of(word) for _, word in row.get("words", ())]
    return bool(lines_of(row["format"]).fullmatch(line)) and all(one.search(line) for one in words)


def matching(level: int, line: str, kinds: tuple[MessageKind, ...] = KINDS) -> list[MessageKind]:
    """All kinds that a message at a priority is of."""
    return [kind for kind in kinds if level <= kind.priority and kind.pattern.match(line)]


def test_the_table_has_each_pattern() -> None:
    found = [kind for row in ROWS for kind in matching(priority(row), row["line"])]
    for kind in some(KINDS):
        assert kind in found, f"messages.toml: no message is of {kind.pattern.pattern}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["line"])[:60])
def test_a_message_is_of_the_kind_it_is_meant_for(row: dict[str, Any], tmp_path: Path) -> None:
    names = {kind[:3:2] for kind in matching(priority(row), row["line"])}
    assert names == ({(row["family"], row["fault"])} if "family" in row else set())
    expected = {f"kernel:{row['source']}": [row["fault"]]} if "family" in row else {}
    # Priorities of programs are 8 and more.
    for level, found in ((priority(row), expected), (priority(row) + 8, {}), (7, {})):
        machine = RecordedMachine(
            tmp_path,
            kernel_log=[f"{level},{number},7,-;{row['line']}\n" for number in range(5)],
            files={"/proc/uptime": "1000.00 900.00\n"},
        )
        statuses = dict.fromkeys(
            ("hung_status", "lockup_status", "corrected_status"), "live-repair"
        )
        assert faults(collect("kernel", machine, corrected_above=4, **statuses)) == found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["line"])[:60])
def test_a_line_is_its_format_filled_in(row: dict[str, Any]) -> None:
    assert is_of(row, row["line"])
    assert set(RELEASES) & set(row), "no kernel has it"


def groups(pattern: str) -> Iterator[tuple[int, int, list[int]]]:
    """Beginning and end of what is in each group without a name, and where its choices end."""
    opened: list[tuple[int, list[int]]] = []
    for one in re.finditer(r"\\.|\[[^]]*\]|\((?:\?(?::|P<\w+>))?|\||\)", pattern):
        if one[0].startswith("("):
            opened.append((one.end(), []))
        elif one[0] == "|":
            opened[-1][1].append(one.start())
        elif one[0] == ")":
            start, choices = opened.pop()
            yield start, one.start(), choices


def weaker(pattern: str) -> Iterator[str]:
    """A pattern without one of its choices, and with and without what need not be there."""
    for start, end, choices in groups(pattern):
        if pattern[end + 1 : end + 2] == "?":
            yield pattern[: start - 3] + pattern[end + 2 :]
            yield pattern[: end + 1] + pattern[end + 2 :]
        edges = [start - 1, *choices, end]
        for first, last in pairwise(edges):
            # Nothing matches this.
            yield pattern[: first + 1] + "(?!)" + pattern[last:]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.pattern.pattern)[:60])
def test_each_word_of_a_pattern_is_in_a_message(kind: MessageKind) -> None:
    lines = [row["line"] for row in ROWS if matching(priority(row), row["line"], (kind,))]
    assert lines
    for pattern in weaker(kind.pattern.pattern):
        assert not all(re.match(pattern, line) for line in lines), f"as good: {pattern}"


def recorded_messages() -> Iterator[tuple[str, int, str]]:
    """File, priority and text of the messages of the kernel in all recordings."""
    for path in sorted(RECORDED.rglob("*.json")):
        for record in re.findall(r'"([0-9]+,[0-9]+,[^"]*;(?:\\.|[^"\\])*)"', path.read_text()):
            fields, _, text = json.loads(f'"{record}"').partition(";")
            if (level := int(fields.partition(",")[0])) < 8:
                # The first line of a message, without the details below it.
                yield path.name, level, re.split(r"\n|\\x0a", text)[0]


def test_what_is_recorded_is_what_the_kernel_prints() -> None:
    for name, level, text in some(recorded_messages()):
        # A driver that no kernel has.
        if not text.startswith("acme "):
            rows = [row for row in ROWS if priority(row) == level and is_of(row, text)]
            assert rows, f"{name}: {level}, {text}"


@pytest.mark.thorough
@pytest.mark.parametrize("release", RELEASES)
def test_the_table_is_what_the_sources_have(release: str, tmp_path: Path) -> None:
    try:
        tree = unpacked(release, tmp_path)
    except subprocess.CalledProcessError:
        pytest.skip(f"apt has no linux-source-{release}")
    assert made({release: tree}) == ROWS
