"""What requests that are refused cost the agent, counted in bytes that it looks at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from repair_bench import FORGER, Bench
from repair_requests import request

from ganeti_steward.core.ganeti import signing
from ganeti_steward.diagnose.agent import repairs
from ganeti_steward.diagnose.agent.repairs import REQUEST_LIMIT


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


class Work:
    """What the agent does to examine requests, in bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.scanned, self.parsed, self.signed = 0, 0, 0
        scan, parse, sign_text = repairs.salt_of, signing.load_json, signing.digest

        def scanned(raw: bytes) -> str:
            self.scanned += len(raw)
            return scan(raw)

        def parsed(text: str, **more: Any) -> Any:
            self.parsed += len(text)
            return parse(text, **more)

        def signed(key: bytes, text: str, salt: str) -> str:
            self.signed += len(text)
            return sign_text(key, text, salt)

        monkeypatch.setattr(repairs, "salt_of", scanned)
        monkeypatch.setattr(signing, "load_json", parsed)
        monkeypatch.setattr(signing, "digest", signed)


#: What costs a parser much, as long as a request may be.
COSTLY: Final = {
    "lists": b"[" * REQUEST_LIMIT,
    "objects": (b'{"a":' * REQUEST_LIMIT)[:REQUEST_LIMIT],
    "texts": (b'["",' + b'"",' * REQUEST_LIMIT)[:REQUEST_LIMIT],
    "escapes": b'{"msg":"' + b"\\\\" * (REQUEST_LIMIT // 2 - 30) + b'","salt":"x","hmac":"y"}',
    "numbers": b'{"msg":[' + b"1," * (REQUEST_LIMIT // 2 - 30) + b'1],"salt":"x","hmac":"y"}',
    "open": b'{"msg":"' + b"x" * (REQUEST_LIMIT - 8),
}


@pytest.mark.parametrize("kind", COSTLY)
def test_what_ninety_callers_cost(bench: Bench, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """One look at the bytes of the first request of each, and none at those that follow."""
    work = Work(monkeypatch)
    forgers = [f"203.0.113.{number}" for number in range(90)]
    for forger in forgers:
        for _ in range(5):
            assert bench.ask(COSTLY[kind], forger) is None
    assert work.scanned == 90 * len(COSTLY[kind])
    assert (work.parsed, work.signed) == (0, 0)
    bench.wait(1.5)
    for forger in forgers:
        bench.ask(COSTLY[kind], forger)
        bench.wait(0.01)
        assert not bench.repairs.listens_to(forger)
    assert work.scanned == 2 * 90 * len(COSTLY[kind])


def test_what_a_wrong_signature_costs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a nonce the signature is computed once; what is signed is never read."""
    raw = request(bench.nonce(FORGER), b"another key of no cluster")
    text = json.loads(raw)["msg"]
    work = Work(monkeypatch)
    for _ in range(5):
        assert bench.ask(raw, FORGER) is None
    assert work.scanned == work.parsed == len(raw)
    assert work.signed == len(text)
