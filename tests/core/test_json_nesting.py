"""JSON texts that are nested too deeply."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ganeti_steward.core.ganeti.signing import strict_json
from ganeti_steward.core.json_nesting import DEEPEST, check_nesting


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
    with pytest.raises(RecursionError):
        check_nesting(text)
    with pytest.raises(RecursionError):
        strict_json(text)


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
