"""Signed messages: the recorded vectors, Ganeti's own code both ways, every malformed input."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from asserting import some
from ganeti_signing import ganeti
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import often

from ganeti_steward.core.ganeti.signing import (
    BadMessage,
    Signed,
    WrongSignature,
    digest,
    is_salt,
    open_signed,
    sign,
    verify,
)

KEY: Final = b"secretkey\n"
SALT: Final = "a-salt_of-1700000000"
RSALT: Final = "11111111-2222-3333-4444-555555555555"

#: What a report may hold.
OBJECTS: Final[list[dict[str, Any]]] = [
    {"purpose": "report", "data": {"status": "Ok"}},
    {"text": 'a "quoted" \\ back\nslash\ttab', "ä": "ü€\U0001f600", "list": [1, None, True, {}]},
    {},
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "b64ac9e1799ecb11a4ce82cb2a4f70761f86d7e2"),
        ('"query": {"3": [0, 1, 2]}, ', "9c4594d9b5fb8aa3cd2bb3c5d17812f960fe68d4"),
    ],
)
def test_recorded_vectors(query: str, expected: str) -> None:
    """Made by Ganeti 3.0.2."""
    text = f'{{"protocol": 1, "type": 3, {query}"rsalt": "{RSALT}"}}\n'
    assert digest(KEY, text, "1700000000") == expected
    assert json.loads(sign(KEY, text, "1700000000")) == {
        "msg": text,
        "salt": "1700000000",
        "hmac": expected,
    }


def test_ganeti_takes_what_is_signed_here() -> None:
    calls = [["load", KEY.decode(), sign(KEY, json.dumps(one), SALT).decode()] for one in OBJECTS]
    assert ganeti(*calls) == [[one, SALT] for one in OBJECTS]


def test_ganeti_refuses_another_key() -> None:
    """So that the test above could fail."""
    raw = sign(b"secretkey", "{}", SALT).decode()
    assert ganeti(["load", KEY.decode(), raw]) == ["Invalid Signature"]


def test_what_ganeti_signed_is_taken_here() -> None:
    for one, raw in some(
        zip(OBJECTS, ganeti(*(["sign", KEY.decode(), one, SALT] for one in OBJECTS)), strict=True)
    ):
        assert json.loads(verify(KEY, raw.encode(), SALT)) == one
        with pytest.raises(WrongSignature):
            verify(KEY.strip(), raw.encode(), SALT)


@given(st.binary(min_size=1), st.text(), st.text())
def test_signed_and_opened(key: bytes, text: str, salt: str) -> None:
    try:
        raw = sign(key, text, salt)
    except BadMessage:
        assert any("\ud800" <= letter <= "\udfff" for letter in text + salt)
        return
    assert open_signed(key, raw) == Signed(text, salt)
    assert verify(key, raw, salt) == text


def test_upper_case_is_right_too() -> None:
    members = json.loads(sign(KEY, "{}", SALT))
    members["hmac"] = members["hmac"].upper()
    assert verify(KEY, json.dumps(members).encode(), SALT) == "{}"


def test_another_salt() -> None:
    with pytest.raises(BadMessage, match="another question"):
        verify(KEY, sign(KEY, "{}", SALT), SALT + "x")
    with pytest.raises(BadMessage, match="another question"):
        verify(KEY, sign(KEY, "{}", SALT), "sälz")


def changed(**members: Any) -> bytes:
    return json.dumps(json.loads(sign(KEY, '{"a": 1}', SALT)) | members).encode()


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        ("{}".encode("utf-16"), "not valid JSON"),
        (b"plj0{}", "not valid JSON"),
        (sign(KEY, "{}", SALT)[:-1], "not valid JSON"),
        (sign(KEY, "{}", SALT) + b"x", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"1" * 10_000, "not valid JSON"),
        (sign(KEY, "{}", SALT)[:-1] + b', "msg": "{}"}', "not valid JSON"),
        (b"NaN", "not valid JSON"),
        (b"null", "an object is expected, found null"),
        (b'["msg", "salt", "hmac"]', "an object is expected, found a list"),
        (b"{}", "exactly the members"),
        (changed(more=1), "exactly the members"),
        (changed(msg=None), "key 'msg': a text is expected, found null"),
        (changed(salt=1700000000), "key 'salt': a text is expected, found the number"),
        (changed(hmac=["a"]), "key 'hmac': a text is expected, found a list"),
        (changed(hmac=""), "40 hexadecimal"),
        (changed(hmac="0" * 39), "40 hexadecimal"),
        (changed(hmac="0" * 41), "40 hexadecimal"),
        (changed(hmac="0" * 40 + "\n"), "40 hexadecimal"),
        (changed(hmac="٠" * 40), "40 hexadecimal"),
        (changed(msg="\ud800"), "not valid JSON"),
        (changed(salt="\udfff"), "not valid JSON"),
        (changed(hmac="0" * 40), "not made with the cluster's key"),
        (changed(msg='{"a": 2}'), "not made with the cluster's key"),
        (changed(salt=SALT[:-1]), "not made with the cluster's key"),
        (changed(salt=""), "not made with the cluster's key"),
    ],
)
def test_malformed(raw: bytes, fault: str) -> None:
    with pytest.raises(BadMessage, match=fault) as error:
        verify(KEY, raw, SALT)
    assert "\n" not in str(error.value)


@settings(max_examples=often(75, 300))
@given(st.data())
def test_every_changed_byte_is_noticed(data: st.DataObject) -> None:
    raw = bytearray(sign(KEY, '{"purpose": "repair"}', SALT))
    place = data.draw(st.integers(0, len(raw) - 1))
    before = json.loads(raw)
    raw[place] = data.draw(st.integers(0, 255))
    try:
        after = json.loads(raw.decode())
    except ValueError:
        after = None
    if after == before:
        return
    if isinstance(after, dict) and after | {"hmac": str(after.get("hmac")).lower()} == before:
        assert verify(KEY, bytes(raw), SALT) == '{"purpose": "repair"}'
        return
    with pytest.raises(BadMessage):
        verify(KEY, bytes(raw), SALT)


def test_the_border_of_salt_and_text() -> None:
    """A salt that a caller may choose cannot take over a part of the message, nor give one."""
    text = '{"purpose": "report"}'
    whole = SALT + text
    signature = digest(KEY, text, SALT)
    for border in range(len(whole) + 1):
        salt, moved = whole[:border], whole[border:]
        assert digest(KEY, moved, salt) == signature
        if border != len(SALT):
            assert not is_salt(salt) or not moved.startswith("{")


@pytest.mark.parametrize("salt", ["12345678", "A-z_0123456789", "x" * 64])
def test_salts(salt: str) -> None:
    assert is_salt(salt)


@pytest.mark.parametrize(
    "salt",
    ["", "1234567", "x" * 65, "12345678\n", '12345678{"', "12345678.", "ä2345678", "1234 678"],
)
def test_no_salts(salt: str) -> None:
    assert not is_salt(salt)
