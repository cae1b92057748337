"""Reading JSON key by key: any value at any key is read or is a fault, never a crash."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import KINDS, Json, message, put
from thorough import often

from ganeti_steward.core.errors import BadInput
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.json_reader import LEAST, LIMIT, Faults, Section, describe

_ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["n1.test", "uuid-g", "drbd", "plain"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


def _paths(tree: Any, start: str = "") -> list[str]:
    """Every place of a message, as ``messages.put`` names it."""
    if not isinstance(tree, dict | list):
        return []
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    found = [(f"{start}{key}", value) for key, value in items]
    return [path for name, value in found for path in (name, *_paths(value, f"{name}/"))]


_PLACES = [(kind, path) for kind in KINDS for path in _paths(message(kind))]


@settings(max_examples=often(125, 500))
@given(st.sampled_from(_PLACES), _ANYTHING)
def test_any_value_anywhere(place: tuple[str, str], value: object) -> None:
    kind, path = place
    assert _message_of(json.dumps(put(message(kind), path, value)).encode()).isprintable()


def _message_of(raw: bytes) -> str:
    try:
        read_message(raw)
    except BadInput as err:
        return str(err)
    return ""


def _section(value: object) -> tuple[Section, Faults]:
    faults = Faults()
    return Section({"k": value}, "thing", "x", faults), faults


_READERS: list[Callable[[Section], object]] = [
    lambda section: section.integer("k"),
    lambda section: section.number("k"),
    lambda section: section.boolean("k"),
    lambda section: section.text("k"),
    lambda section: section.choice("k", ("a", "b")),
    lambda section: section.items("k"),
    lambda section: section.texts("k"),
    lambda section: section.section("k").data,
    lambda section: list(section.sections("k", "part")),
]


@pytest.mark.parametrize("read", _READERS)
@given(value=_ANYTHING)
def test_a_reader_gives_the_value_or_one_fault(
    read: Callable[[Section], object], value: object
) -> None:
    section, faults = _section(value)
    got = read(section)
    if not faults.found:
        assert got == value or type(got) is not type(value)
        return
    assert re.match(r"""thing 'x': key 'k': |part( '.*'| ".*")?: """, faults.found[0])
    with pytest.raises(BadInput):
        faults.check()


@pytest.mark.parametrize("read", _READERS)
def test_missing_key(read: Callable[[Section], object]) -> None:
    faults = Faults()
    read(Section({}, "thing", "x", faults))
    assert faults.found == ["thing 'x': key 'k' is missing"]


@pytest.mark.parametrize("value", [LIMIT, -LIMIT, LEAST, -LEAST, 0, -0.0, 1.5, float(LIMIT)])
def test_number_in_range(value: float) -> None:
    section, faults = _section(value)
    assert (section.number("k"), section.integer("k")) == (value, round(value))
    assert faults.found == []


@pytest.mark.parametrize(
    "value", [LIMIT + 1, -LIMIT - 1, LEAST / 2, -LEAST / 2, 1e308, float("inf"), float("nan")]
)
def test_number_out_of_range(value: float) -> None:
    section, faults = _section(value)
    section.number("k")
    section.integer("k")
    assert faults.found == [f"thing 'x': key 'k': the number {value} is out of range"] * 2


def test_optional_values() -> None:
    faults = Faults()
    section = Section({"null": None, "text": "a", "texts": ["a"]}, "thing", "x", faults)
    assert [section.optional_text(key) for key in ("gone", "null", "text")] == [None, None, "a"]
    assert [section.optional_texts(key) for key in ("gone", "null", "texts")] == [
        *(None, None),
        ("a",),
    ]
    assert (section.integer("gone", 3), section.number("gone", 0.5)) == (3, 0.5)
    assert (section.boolean("gone", True), section.text("gone", "a")) == (True, "a")
    assert (section.items("gone", []), section.texts("gone", [])) == ([], ())
    assert faults.found == []


def test_faults_name_the_whole_path() -> None:
    faults = Faults()
    top = Section({"a": {"b": [{}, 5]}}, "thing", "x", faults)
    inner = top.section("a")
    for number, item in enumerate(inner.items("b")):
        inner.entry("b", number, item).integer("c")
    assert faults.found == [
        "thing 'x': key 'a.b[0].c' is missing",
        "thing 'x': key 'a.b[1]': an object is expected, found the number 5",
    ]


def test_endless_faults_end() -> None:
    faults = Faults()
    top: Json = {"k": {str(number): None for number in range(10_000)}}
    for section in Section(top, "thing", "", faults).sections("k", "part"):
        section.text("name")
    assert 100 < len(faults.found) < 110


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "null"),
        (True, "true"),
        (1.5, "the number 1.5"),
        ("a\n'b'", "the text \"a\\n'b'\""),
        ("x" * 81, f"the text '{'x' * 77}...'"),
        ([1], "a list"),
        ({}, "an object"),
        (date(2000, 1, 1), "a date"),
    ],
)
def test_value_in_words(value: object, words: str) -> None:
    assert describe(value) == words
