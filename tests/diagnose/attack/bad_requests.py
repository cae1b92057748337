"""Requests that no honest caller sends, as bytes on a connection."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from repair_requests import BAD_TEXTS, COMMAND, KEY, RSALT, message

from ganeti_steward.core.ganeti.signing import sign
from ganeti_steward.core.ganeti.this_node import this_node

if TYPE_CHECKING:
    from agents import Agent

#: The statuses that answer what is broken; 0 stands for no answer.
BROKEN: Final = (400, 403, 404, 405, 411, 413, 414, 431, 501, 505, 0)


def post(body: bytes, path: str = "/1/repair", more: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


def get(path: str, more: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode()


def chunked(*chunks: bytes, more: str = "") -> bytes:
    head = f"POST /1/repair HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n{more}\r\n"
    return head.encode() + b"".join(chunks)


def chunk(body: bytes) -> bytes:
    return f"{len(body):x}\r\n".encode() + body + b"\r\n"


#: Lists and objects within one another, open and closed, and what hides them.
DEEP: Final[dict[str, bytes]] = {
    "2000 open lists": b"[" * 2000,
    "2000 lists in strings": b'["' * 2000,
    "100000 open lists": b"[" * 100_000,
    "lists up to the limit": b"[" * (2**20),
    "closed lists": b"[" * 5000 + b"]" * 5000,
    "objects": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "mixed": b'[{"a":' * 3000,
    "behind strings": b'["\\"]]]]",' * 1500 + b"[" * 1500,
    "in a signed message": b'{"msg":' + b"[" * 3000 + b',"salt":"x","hmac":"y"}',
    "as the salt": b'{"msg":"","salt":' + b"{" * 3000,
    "after white space": b" " * 500_000 + b"[" * 2000,
    "after a byte order mark": b"\xef\xbb\xbf" + b"[" * 2000,
    "too long": b" " * (2**20 + 1),
}

#: What the server or the agent refuses for its form; nothing of it is a request for a repair.
TORN: Final[dict[str, bytes]] = {
    "nothing": b"",
    "one byte": b"P",
    "no line end": b"POST /1/repair HTTP/1.1",
    "half a head": b"POST /1/repair HTTP/1.1\r\nContent-Length: 10\r\n",
    "half a body": post(b"x" * 1000)[:-500],
    "no version": b"POST /1/repair\r\n\r\n",
    "unknown version": b"POST /1/repair HTTP/9.9\r\n\r\n",
    "unknown method": b"BREW /1/repair HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "lower case": b"post /1/repair http/1.1\r\n\r\n",
    "zero bytes": b"\0" * 5000 + b"\r\n\r\n",
    "no text": bytes(range(128, 256)) * 10 + b"\r\n\r\n",
    "a long path": get("/" + "a" * 100_000),
    "many headers": get("/", "X-A: b\r\n" * 5000),
    "a huge header": get("/1/repair", "X-A: " + "b" * 200_000 + "\r\n"),
    "a header without a colon": get("/nowhere", "nonsense\r\n"),
    "a folded header": get("/nowhere", "X-A: b\r\n c\r\n"),
    "zero byte in a header": get("/nowhere", "X-A: b\0c\r\n"),
    "negative length": b"POST /1/repair HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "a length in letters": b"POST /1/repair HTTP/1.1\r\nContent-Length: ten\r\n\r\n",
    "two lengths": b"POST /1/repair HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a huge length": b"POST /1/repair HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n",
    "length and chunks": chunked(chunk(b"{}"), b"0\r\n\r\n", more="Content-Length: 2\r\n"),
    "no chunk": chunked(b"zz\r\n"),
    "a negative chunk": chunked(b"-5\r\nabcde\r\n0\r\n\r\n"),
    "a huge chunk": chunked(b"ffffffffffffffff\r\nabc"),
    "unknown coding": get("/nowhere", "Transfer-Encoding: gzip\r\n"),
    "TLS": bytes.fromhex("16030100a5010000a10303") + b"x" * 160,
    "a proxy's request": b"CONNECT 192.0.2.1:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a broken address": b"GET http://[x HTTP/1.1\r\n\r\n",
    "a path upwards": get("/1/../../../etc/passwd"),
    "a report by POST": post(b"{}", "/1/report/node/diagnose"),
    "a salt with a quote": get("/1/report/node/diagnose?salt=%22%7B%22a%22"),
    "a salt that is a nonce": get("/1/report/node/diagnose?salt=nonce.0123456789abcdef"),
    "a thousand salts": get("/1/report/node/diagnose?" + "salt=x&" * 1000),
}


def signed(agent: Agent, caller: str) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Requests for repairs in a good form that must not be done, with how to make them."""
    key = {
        "another key": b"f" * 40,
        "the key without its line end": KEY.strip(),
        "the key in upper case": KEY.upper(),
    }
    for name, other in key.items():
        yield name, lambda other=other: agent.request(other, caller)
    node = {"another node": "node2.lab", "no node": "", "every node": "*", "a list": [this_node()]}
    for name, value in node.items():
        yield name, lambda value=value: agent.request(caller=caller, node=value)
    for name in ("../replace-disk", "/bin/sh", "missing", "replace-disk\n", ""):
        wanted: dict[str, Any] = {"status": "live-repair", "command": name}
        yield (
            f"the command {name!r}",
            lambda name=name, wanted=wanted: agent.request(
                caller=caller, command=name, diagnose=wanted
            ),
        )
    for name in ("twice", "deep", "nested", "infinite", "NaN", "a report", "confd's request"):
        yield name, lambda name=name: sign(KEY, BAD_TEXTS[name], agent.nonce(caller))
    yield "an unknown nonce", lambda: sign(KEY, _good(), "nonce.0123456789abcdef0123456789")
    yield "a caller's salt", lambda: sign(KEY, _good(), RSALT)
    yield "no signature", lambda: json.dumps({"msg": _good(), "salt": agent.nonce(caller)}).encode()
    yield "a list of requests", lambda: b"[" + agent.request(caller=caller) + b"]"
    yield "two requests", lambda: agent.request(caller=caller) + agent.request(caller=caller)


def _good() -> str:
    return json.dumps(message(node=this_node().identity, command=COMMAND))
