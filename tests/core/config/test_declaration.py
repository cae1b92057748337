"""Declarations of sections: which keys they have, and reading a section by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import pytest

from ganeti_steward.core.config.declaration import REQUIRED, keys, read_section
from ganeti_steward.core.config.kinds import Each, ValueKind, list_of, number, whole, word
from ganeti_steward.plugins.aggregates.config import table_of

NOTHING: Mapping[str, str] = {}


class Rack(NamedTuple):
    """[rack]: everything a declaration may have."""

    row: str
    height: Annotated[int, whole(1, 48), "Height units."] = 42
    load_factor: float = 0.5
    locked: bool = False
    doors: tuple[str, ...] = ()
    colours: Annotated[
        Mapping[str, str],
        Each(("top", "side"), word(str.isalpha, "colour", hint="letters only"), "grey"),
        "The colours.",
    ] = NOTHING


def read(given: Any) -> tuple[Rack | None, list[str]]:
    faults: list[str] = []
    return read_section(Rack, "plugin.rack", given, faults), faults


def test_keys() -> None:
    found = keys(Rack)
    assert [(key.name, key.default, key.kind.text, key.text) for key in found] == [
        ("row", REQUIRED, "text", ""),
        ("height", 42, "whole number 1-48", "Height units."),
        ("load-factor", 0.5, "number", ""),
        ("locked", False, "boolean", ""),
        ("doors", (), "list of texts", ""),
        ("top", "grey", "colour", "The colours."),
        ("side", "grey", "colour", "The colours."),
    ]


def test_values() -> None:
    given = {"row": "b", "height": 7, "load-factor": 1, "doors": ["a", "a"], "top": "red"}
    assert read(given) == (Rack("b", 7, 1, False, ("a", "a"), {"top": "red"}), [])


def test_defaults() -> None:
    assert read({"row": "b", "side": "grey"}) == (Rack("b"), [])


def test_every_fault_is_named() -> None:
    section, faults = read(
        {"height": 49, "load_factor": 1, "locked": 1, "doors": "a", "top": "#f00", "a\nb": 0}
    )
    assert section is None
    known = "(known: row, height, load-factor, locked, doors, top, side)"
    assert faults == [
        "plugin.rack: has no row",
        "plugin.rack.height: 49 is not between 1 and 48",
        f"plugin.rack.load_factor: no such key {known}",
        "plugin.rack.locked: true or false is expected, found the number 1",
        "plugin.rack.doors: a list of texts is expected, found the text 'a'",
        "plugin.rack.top: '#f00' is not a colour (letters only)",
        f"plugin.rack.'a\\nb': no such key {known}",
    ]


def test_no_section() -> None:
    assert read(7) == (None, ["plugin.rack: a section is expected, found the number 7"])


class Odd(NamedTuple):
    when: complex = 0j


@pytest.mark.parametrize(
    ("declaration", "text"),
    [
        (Odd, "Odd.when of type <class 'complex'> needs a kind of key"),
        (dict, "must be a NamedTuple class, not a type"),
        ("rack", "must be a NamedTuple class, not the text 'rack'"),
        (tuple, "must be a NamedTuple class, not a type"),
    ],
)
def test_no_declaration(declaration: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        keys(declaration)


@pytest.mark.parametrize(
    ("kind", "text", "good", "bad", "fault"),
    [
        (number(), "number", -1.5, "1", "a number is expected, found the text '1'"),
        (number(0), "number from 0", 3, -1, "a number from 0 is expected, found the number -1"),
        (number(0.1, 9), "number 0.1-9", 9, 9.5, "9.5 is not between 0.1 and 9"),
        (whole(0), "whole number from 0", 0, 0.5, "a whole number from 0 is expected, found "),
        (whole(1, 2**20), "whole number 1-1048576", 5, 0, "0 is not between 1 and 1048576"),
        (list_of(whole(1, 2)), "list: each a whole number 1-2", [], [3], "holds the number 3"),
        (table_of(whole()), "table: name = whole number", {"a": 1}, {"a": ""}, "a: a whole number"),
    ],
)
def test_kind(kind: ValueKind, text: str, good: object, bad: object, fault: str) -> None:
    assert (kind.text, kind.fault(good)) == (text, "")
    assert fault in kind.fault(bad)
