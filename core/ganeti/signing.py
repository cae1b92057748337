"""Messages signed with the cluster's HMAC key, in the form confd and its clients use.

A signed message is the JSON object ``{"msg": TEXT, "salt": TEXT, "hmac": HEX}`` where the hmac
is HMAC-SHA1 over salt and msg with the whole key file, its final newline included, as key.
All nodes share that key: a signature proves that a node of the cluster wrote the text, not which
one, so whatever must be sure (node, purpose, time) belongs into the text.
"""

from __future__ import annotations

import hmac
import json
import re
from typing import Any, Final, NamedTuple

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.json_reader import describe

#: The members of a signed message; confd takes exactly these.
_MEMBERS: Final = ("msg", "salt", "hmac")

_HEX: Final = re.compile(r"[0-9a-fA-F]{40}")

#: A salt that a caller may choose.  It has no character that JSON begins with, so that no part
#: of a message can be taken for its salt, or the other way round.
_SALT: Final = re.compile(r"[A-Za-z0-9_-]{8,64}")


#: What the agent gives for one repair.  The dot distinguishes it from the salts of callers: no
#: caller can have a report signed with a nonce.
NONCE_PREFIX: Final = "nonce."
_NONCE: Final = re.compile(r"nonce\.[A-Za-z0-9_-]{16,64}")


class BadMessage(StewardError):
    """A signed message that must not be accepted."""


class WrongSignature(BadMessage):
    """A message in the right form whose signature is not made with this key."""


class WrongSalt(BadMessage):
    """A message signed with another salt: made for another request, or replayed."""


class Signed(NamedTuple):
    """A message whose signature was found to be right."""

    text: str
    salt: str


def is_salt(text: str) -> bool:
    """Whether a caller may choose this salt."""
    return _SALT.fullmatch(text) is not None


def is_nonce(text: str) -> bool:
    """Whether this may be an agent's nonce."""
    return _NONCE.fullmatch(text) is not None


def digest(key: bytes, text: str, salt: str) -> str:
    """The signature: 40 hexadecimal digits in lower case.

    Raises BadMessage for what cannot be written as UTF-8.
    """
    try:
        content = salt.encode() + text.encode()
    except UnicodeEncodeError:
        raise BadMessage("the message has characters that are not Unicode text") from None
    return hmac.digest(key, content, "sha1").hex()


def sign(key: bytes, text: str, salt: str) -> bytes:
    """The signed message as JSON."""
    signed = {"msg": text, "salt": salt, "hmac": digest(key, text, salt)}
    return json.dumps(signed).encode()


def open_signed(key: bytes, raw: bytes) -> Signed:
    """Text and salt of a signed message.

    Raises BadMessage, or WrongSignature where it is only the signature that does not fit.
    Whether the salt is fresh is for the caller to check.
    """
    members = _members(raw)
    text, salt, given = (members[name] for name in _MEMBERS)
    if _HEX.fullmatch(given) is None:
        raise BadMessage("the hmac of the signed message is not 40 hexadecimal digits")
    # Upper case is right too.  The time it takes must not reveal where they differ.
    if not hmac.compare_digest(digest(key, text, salt), given.lower()):
        raise WrongSignature("the signature of the message is not made with the cluster's key")
    return Signed(text, salt)


def verify(key: bytes, raw: bytes, salt: str) -> str:
    """The text of a message signed with this very salt; raises BadMessage, or WrongSalt."""
    signed = open_signed(key, raw)
    if not hmac.compare_digest(signed.salt.encode(), salt.encode()):
        raise WrongSalt("the message is signed for another question (its salt is not the asker's)")
    return signed.text


def strict_json(text: str) -> Any:
    """A JSON value that every reader understands in the same way: no member twice, no NaN.

    Raises ValueError, also where it is nested too deeply (see `load_json`).
    """
    return load_json(text, read_object=_object)


def _members(raw: bytes) -> dict[str, str]:
    """The three texts of a signed message."""
    try:
        found = strict_json(raw.decode())
    except ValueError:
        # Not only JSONDecodeError: also bytes that are no text, and endless numbers.
        raise BadMessage("the signed message is not valid JSON") from None
    if not isinstance(found, dict):
        raise BadMessage(f"the signed message: an object is expected, found {describe(found)}")
    if sorted(found) != sorted(_MEMBERS):
        raise BadMessage("the signed message does not have exactly the members msg, salt and hmac")
    for name in _MEMBERS:
        if not isinstance(found[name], str):
            fault = f"a text is expected, found {describe(found[name])}"
            raise BadMessage(f"the signed message: key {name!r}: {fault}")
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is there twice")
    return members
