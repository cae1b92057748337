"""Values by their types: exact in both directions, and strict."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti_steward.core.typed_json import from_json, to_json


class Small(NamedTuple):
    number: int
    share: float = 0.5
    words: tuple[str, ...] = ()


class Other(NamedTuple):
    text: str


@dataclass(frozen=True, slots=True)
class Classed:
    name: str
    parts: Mapping[str, float]
    best: Small | None = None


class Words(Enum):
    GOOD = "good"
    ONE = 1


class Bare:
    AS_JSON: ClassVar[str] = "data"
    data: Mapping[str, Any]

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bare)

    def __hash__(self) -> int:
        return 0


class Holder(NamedTuple):
    bare: Bare = Bare({})


class Large(NamedTuple):
    either: Small | Other
    maybe: Small | Other | None
    by_number: Mapping[int, tuple[str, int]]
    some: frozenset[str]
    listed: list[dict[str, Any]]
    sequence: Sequence[Classed]
    flag: bool
    original: bytes
    free: list[str] | str | Mapping[str, object]


TEXT = st.text(max_size=5)
FLOATS = st.floats(allow_nan=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e300, 1e300) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
SMALL = st.builds(Small, st.integers(), FLOATS, st.lists(TEXT, max_size=3).map(tuple))
EITHER = SMALL | st.builds(Other, TEXT)
CLASSED = st.builds(Classed, TEXT, st.dictionaries(TEXT, FLOATS, max_size=3), st.none() | SMALL)
LARGE = st.builds(
    Large,
    either=EITHER,
    maybe=st.none() | EITHER,
    by_number=st.dictionaries(st.integers(), st.tuples(TEXT, st.integers()), max_size=3),
    some=st.frozensets(TEXT, max_size=3),
    listed=st.lists(st.dictionaries(TEXT, JSON, max_size=3), max_size=3),
    sequence=st.lists(CLASSED, max_size=2).map(tuple),
    flag=st.booleans(),
    original=st.just(b'{"a":[1,2.5,null]}'),
    free=st.just({"count": 1}) | st.just("text") | st.just(["a"]),
)


@given(LARGE, st.booleans())
def test_there_and_back(value: Large, whole: bool) -> None:
    text = json.dumps(to_json(Large, value, whole=whole))
    assert from_json(Large, json.loads(text)) == value


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, 0.1, 5e-324, 1.8e308, 3])
def test_every_float(number: float) -> None:
    text = json.dumps(to_json(float, number), allow_nan=False)
    found = from_json(float, json.loads(text))
    assert found == number or (math.isnan(found) and math.isnan(number))


def test_what_is_written() -> None:
    assert to_json(Small, Small(1)) == {"number": 1}
    assert to_json(Small, Small(1), whole=True) == {"number": 1, "share": 0.5, "words": []}
    assert to_json(Small | Other, Other("x")) == {"kind": "other", "text": "x"}
    assert to_json(frozenset[str], {"b", "a"}) == ["a", "b"]
    assert to_json(Mapping[int, str], {5: "a"}) == {"5": "a"}
    assert to_json(tuple[Words, ...], (Words.ONE, Words.GOOD)) == [1, "good"]
    assert from_json(tuple[Words, ...], [1, "good"]) == (Words.ONE, Words.GOOD)
    assert to_json(Classed, Classed("a", {})) == {"name": "a", "parts": {}, "best": None}


def test_one_attribute_stands_for_its_object() -> None:
    """Whatever it compares equal to."""
    written = to_json(Holder, Holder(Bare({"a": 1})))
    assert written == {"bare": {"a": 1}}
    assert from_json(Holder, written).bare.data == {"a": 1}


@pytest.mark.parametrize(
    ("kind", "data", "fault"),
    [
        (Small, [], "an object is expected, found a list"),
        (Small, {}, "key 'number' is missing"),
        (Small, {"number": 1, "x\n": 2}, "key 'x\\n' is unknown"),
        (Small, {"number": True}, "key 'number': a whole number is expected, found true"),
        (Small, {"number": 1, "share": "1"}, "key 'share': a number is expected, found the text"),
        (Small, {"number": 1, "share": []}, "key 'share': a number is expected, found a list"),
        (Small, {"number": 1, "words": "ab"}, "key 'words': a list is expected, found the text"),
        (Small | Other, {"text": "x"}, "key 'kind': one of small, other is expected, found null"),
        (Small | Other, {"kind": []}, "key 'kind': one of small, other is expected, found a list"),
        (Small | None, 5, "an object is expected, found the number 5"),
        (Mapping[int, str], {"x": "a"}, "key 'x' is not a whole number"),
        (Mapping[str, int], {"x": "a"}, "key 'x': a whole number is expected, found the text 'a'"),
        (tuple[str, int], ["a"], "a list of 2 entries is expected, found 1"),
        (frozenset[str], [[]], "a text is expected, found a list"),
        (bytes, "e30=", "an object is expected, found the text 'e30='"),
        (Words, "bad", "a Words is expected, found the text 'bad'"),
        (Words, True, "a Words is expected, found true"),
        (Words, [], "a Words is expected, found a list"),
        (None, 0, "null is expected, found the number 0"),
        (Classed, {"name": "a"}, "key 'parts' is missing"),
    ],
)
def test_faults_of_what_is_read(kind: Any, data: Any, fault: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        from_json(kind, data)
    assert str(caught.value).startswith(fault)


class Derived(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("kind", "value", "fault"),
    [
        (str, Derived("x"), "a text is expected, found the text 'x'"),
        (str, b"x", "a text is expected, found a bytes"),
        (float, True, "a number is expected, found true"),
        (Small, (1, 0.5, ()), "a Small is expected, found a tuple"),
        (Small, Other("x"), "a Small is expected, found a Other"),
        (Small, Small("x"), "key 'number': a whole number is expected"),  # type: ignore[arg-type]
        (Small | Other, 5, "one of Small, Other is expected, found the number 5"),
        (tuple[Small, ...], Other("x"), "a list is expected, found a Other"),
        (Words, "good", "a Words is expected, found the text 'good'"),
        (Any, {"a": [b"x"]}, "JSON is expected, found a bytes"),
        (Any, math.nan, "JSON is expected, found the number nan"),
        (Any, {5: 5}, "a text is expected, found the number 5"),
        (frozenset[str], ["a"], "a set is expected, found a list"),
        (frozenset[str], {5}, "a text is expected, found the number 5"),
        (Mapping[str, int], [], "a mapping is expected, found a list"),
        (Mapping[str, int], {5: 5}, "key '5': a text is expected, found the number 5"),
    ],
)
def test_faults_of_what_is_written(kind: Any, value: Any, fault: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        to_json(kind, value)
    assert str(caught.value).startswith(fault)
