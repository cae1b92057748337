"""Requests for repairs: a good one, and every kind of bad one made of it."""

from __future__ import annotations

import json
from itertools import count
from random import Random
from typing import Any, Final

from ganeti_steward.core.ganeti.signing import sign
from ganeti_steward.core.ganeti.this_node import ThisNode

KEY: Final = b"0123456789abcdef0123456789abcdef01234567\n"
NODE: Final = ThisNode("node1.lab", "ce55f3c9-6d68-4ff5-92f7-a67577ccec32", "127.0.0.1")
RSALT: Final = "answer-with-this-salt"
COMMAND: Final = "replace-disk"
#: When commands are submitted: later than all that an agent has forgotten.
LATE: Final = 2**36

_NUMBERS: Final = count(1)


def message(**changed: Any) -> dict[str, Any]:
    """What a good request says; each has another id."""
    return {
        "purpose": "repair",
        "node": NODE.uuid,
        "command": COMMAND,
        "diagnose": {"status": "live-repair", "command": COMMAND, "details": ["sda"]},
        "rsalt": RSALT,
        "id": f"new-{next(_NUMBERS)}",
        "submitted": LATE,
    } | changed


def request(nonce: str, key: bytes = KEY, **changed: Any) -> bytes:
    """A signed request."""
    return sign(key, json.dumps(message(**changed)), nonce)


def question(**changed: Any) -> dict[str, Any]:
    """What a good question about a command says."""
    return {
        "purpose": "repair-question",
        "node": NODE.uuid,
        "id": "id-1",
        "submitted": 5,
        "rsalt": RSALT,
    } | changed


def without(member: str) -> str:
    return json.dumps({key: value for key, value in message().items() if key != member})


#: Member -> values it may not have.
WRONG: Final[dict[str, list[Any]]] = {
    "purpose": ["report", "repair-state", "Repair", "", None, ["repair"]],
    "node": ["node2.lab", "node1", NODE.uuid.upper(), "", None, 1, ["node1.lab"]],
    "command": ["", "other", "../replace-disk", "replace.disk", "a/b", "a b", "a\n", None],
    "rsalt": ["", "short", "x" * 65, 'salt{"a":', "nonce.1234567890", None, 12345678],
    "diagnose": [
        None,
        [],
        "live-repair",
        {},
        {"status": "Ok"},
        {"status": "live-repair"},
        {"status": "live-repair", "command": "other"},
        {"status": "evacuate", "command": COMMAND},
        {"status": "hook", "command": "other"},
    ],
}

#: What may be signed with the right key and a fresh nonce, and is no request all the same.
BAD_TEXTS: Final[dict[str, str]] = {
    "no JSON": "{",
    "cut": json.dumps(message())[:-1],
    "a list": json.dumps([message()]),
    "null": "null",
    "NaN": json.dumps(message(diagnose={"status": "live-repair", "command": float("nan")})),
    "twice": json.dumps(message())[:-1] + ', "node": "node1.lab"}',
    "deep": '{"diagnose":' + "[" * 100_000,
    "nested": json.dumps(message())[:-1] + ', "more": ' + "[" * 500 + "]" * 500 + "}",
    "infinite": json.dumps(message()).replace('["sda"]', "1e999"),
    "more members": json.dumps(message(more=1)),
    **{
        f"id {value!r}": json.dumps(message(id=value))
        for value in ("", "a b", "../x", "x" * 65, None, 1, ["id-1"])
    },
    **{
        f"submitted {value!r}": json.dumps(message(submitted=value))
        for value in (-1, 2**40, 1.5, True, None, "5")
    },
    "a question": json.dumps(question()),
    "confd's request": '{"protocol": 1, "type": 3, "rsalt": "11111111-2222-3333"}\n',
    "confd's reply": '{"protocol": 1, "status": 0, "answer": 3000000, "serial": 0}',
    "a report": json.dumps({"purpose": "report", "node": NODE.uuid, "data": {"status": "Ok"}}),
    "an answer": json.dumps(
        {"purpose": "repair-state", "node": NODE.uuid, "command": COMMAND, "status": 0}
    ),
    **{f"no {member}": without(member) for member in message()},
    **{
        f"{member} {value!r}": json.dumps(message(**{member: value}))
        for member, values in WRONG.items()
        for value in values
    },
}


def damaged(good: bytes, random: Random) -> bytes:
    """A good request that was damaged on the way, or by a caller without the key."""
    members: dict[str, str] = json.loads(good)
    way = random.randrange(9)
    if way == 0:
        return good[: random.randrange(len(good))]
    if way == 1:
        return good + random.choice([b"x", b"{}", b"\0", good])
    if way == 2:
        place = random.randrange(len(good))
        # Another letter in its place: what differs in upper and lower case only is not one.
        return good[:place] + bytes([(good[place] ^ 0x55) & 0x7F]) + good[place + 1 :]
    if way == 3:
        return random.randbytes(random.randrange(2000))
    if way == 4:
        members["hmac"] = random.randbytes(20).hex()
    elif way == 5:
        digits = list(members["hmac"])
        place = random.randrange(40)
        digits[place] = random.choice([one for one in "0123456789abcdef" if one != digits[place]])
        members["hmac"] = "".join(digits)
    elif way == 6:
        members["msg"] = members["msg"].replace(COMMAND, random.choice(["reboot", "x" * 2000]))
    elif way == 7:
        border = random.randrange(1, 20)
        members["salt"], members["msg"] = (
            members["salt"] + members["msg"][:border],
            members["msg"][border:],
        )
    else:
        members[random.choice(["key_selector", "more", "salt2"])] = "x"
    return json.dumps(members).encode()
