"""JSON texts that are nested too deeply."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ganeti_steward.core.ganeti.signing import strict_json
from ganeti_steward.core.json_nesting import (
    DEEPEST,
    HalfPair,
    TooDeep,
    check_nesting,
    is_deep,
    load_json,
    load_lenient,
)
from ganeti_steward.plugins.texts import text_member


def nested(levels: int, inner: str = "1") -> str:
    """A text with lists and objects in turn."""
    text = inner
    for level in range(levels):
        text = f'{{"key":{text}}}' if level % 2 else f"[{text}]"
    return text


@pytest.mark.parametrize(
    "text",
    [
        nested(DEEPEST),
        f"[{','.join([nested(DEEPEST - 1)] * 20)}]",
        f"[{','.join(['[]'] * 10 * DEEPEST)}]",
        json.dumps(["[{" * DEEPEST, '\\"[{' * DEEPEST, "\n[" * DEEPEST, '"']),
    ],
    ids=["deepest", "side by side", "flat", "brackets in strings"],
)
def test_accepted(text: str) -> None:
    check_nesting(text)
    assert strict_json(text) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        nested(DEEPEST + 1),
        f"[{nested(10)},{nested(DEEPEST)}]",
        nested(DEEPEST, inner='["]]]"]'),
        nested(DEEPEST, inner=r'{"\\":"\""}'),
        "[" * 100_000,
        '{"a":' * 100_000,
    ],
    ids=["list", "second", "closed in a string", "escapes", "open lists", "open objects"],
)
def test_refused(text: str) -> None:
    for check in (check_nesting, strict_json, load_json):
        with pytest.raises(TooDeep):
            check(text)
        with pytest.raises(TooDeep):
            check_nesting(text.encode())


def test_the_deepest_text_can_be_parsed_in_a_small_thread() -> None:
    """With the stack that the agent gives its threads; a process of its own, as it may crash."""
    source = (
        "import json, sys, threading; "
        "from ganeti_steward.core.ganeti.signing import strict_json; "
        "threading.stack_size(256 * 1024); texts = sys.stdin.read().splitlines(); "
        "work = lambda: print([len(strict_json(text)) for text in texts]); "
        "thread = threading.Thread(target=work); thread.start(); thread.join()"
    )
    texts = "\n".join(["[" * DEEPEST + "]" * DEEPEST, nested(DEEPEST)])
    done = subprocess.run(
        [sys.executable, "-c", source], input=texts, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "[1, 1]\n"), done.stderr


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[1e999]", "the number 1e999 is too large"),
        ("[-1e999]", "the number -1e999 is too large"),
        ("[NaN]", "NaN is not JSON"),
        ("[Infinity]", "Infinity is not JSON"),
        ("[" + "1" * 5000 + "]", "Exceeds the limit"),
        (b'["\xff"]', "invalid start byte"),
        ("[1]".encode("utf-16-le"), "Expecting value|Extra data"),
    ],
)
def test_numbers_and_bytes_that_are_no_json(text: str | bytes, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        load_json(text)


def test_brackets_that_utf_16_would_hide() -> None:
    """Read as bytes, the first character would begin a string that hides all that follows."""
    text = '["\u2200", ' + "[" * 3000
    with pytest.raises(ValueError, match=r"utf-8|nested|Expecting"):
        load_json(text.encode("utf-16-le"))


def test_too_long_a_text_is_refused_before_it_is_parsed() -> None:
    assert load_json(b"[1,2]", longest=5) == [1, 2]
    with pytest.raises(ValueError, match="longer than 5 bytes"):
        load_json(b"[1,2]]", longest=5)


def test_no_other_module_parses_json_without_these_limits() -> None:
    """Except orjson, which has a limit of its own; recorded machines are no input of others."""
    top = Path(__file__).parents[2]
    parsing = {
        str(file.relative_to(top))
        for room in ("core", "allocators", "plugins", "diagnose")
        for file in (top / room).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr in ("load", "loads", "JSONDecoder")
        and isinstance(node.value, ast.Name)
        and node.value.id == "json"
    }
    assert parsing == {"core/json_nesting.py", "diagnose/testing.py"}


def test_orjson_refuses_deep_texts_in_a_small_thread() -> None:
    """It crashed in old versions; a process of its own, as it may crash."""
    source = """
import threading, orjson
def work():
    for text in ("[" * 2000, "[" * 100000 + "]" * 100000, '{"a":' * 100000):
        try:
            orjson.loads(text)
        except orjson.JSONDecodeError:
            print("refused")
threading.stack_size(256 * 1024)
thread = threading.Thread(target=work); thread.start(); thread.join()
"""
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "refused\n" * 3), done.stderr


@pytest.mark.parametrize(
    ("text", "lenient"),
    [
        (r'"\ud800"', "\ufffd"),
        (r'"\udfffx"', "\ufffdx"),
        (r'"\ud83d\ud83d\ude00"', "\ufffd\U0001f600"),
        (r'"\\\ud800"', "\\\ufffd"),
    ],
)
def test_half_of_a_pair(text: str, lenient: str) -> None:
    """No encoding has it, so that what holds it could not be written anywhere."""
    with pytest.raises(HalfPair):
        load_json(text)
    assert load_lenient(text.encode()) == lenient


@pytest.mark.parametrize("text", [r'"\ud83d\ude00"', r'"\\ud800"', r'"\u0041\n"', '"é😀"'])
def test_whole_characters(text: str) -> None:
    assert load_json(text) == load_lenient(text.encode()) == json.loads(text)


def test_a_text_with_half_of_a_pair() -> None:
    with pytest.raises(HalfPair):
        load_json('"\udcff"')


def test_one_bad_value_does_not_hide_the_others() -> None:
    deep = nested(DEEPEST + 100, inner='"]{"')
    text = (
        f'{{"a":{deep},"b":[{deep},"[",{nested(DEEPEST - 2)}],"c":[1e999,NaN,{"9" * 5000}],"d":7}}'
    )
    found = load_lenient(text.encode() + b" ")
    assert found["d"] == 7
    assert found["b"][1:] == ["[", json.loads(nested(DEEPEST - 2))]
    assert is_deep(found["a"], DEEPEST - 2)
    assert not is_deep(found["a"], DEEPEST - 1)
    assert [str(one) for one in found["c"]] == ["inf", "nan", "inf"]


@pytest.mark.parametrize(
    "text", ["[" * 9000, f"[{nested(600)},{'[' * 600}", "]", "", nested(600)[:-1]]
)
def test_what_is_not_json(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        load_lenient(text.encode())


def test_levels() -> None:
    for levels in (0, 1, 2, 7):
        value = json.loads(nested(levels))
        assert not is_deep(value, levels)
        assert levels == 0 or is_deep(value, levels - 1)


@pytest.mark.parametrize(
    ("text", "found"),
    [('{"a":"b","c":1e999,"d":"\\ud800"}', "b"), ('{"a":5}', ""), ("[]", ""), ("{", "")],
)
def test_a_member_of_what_may_be_faulty(text: str, found: str) -> None:
    assert text_member(text, "a") == found
