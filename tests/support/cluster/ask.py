"""Asking Steward and hail the same question."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson
from installed import need

from ganeti_steward.core.config.values import Config
from ganeti_steward.core.iallocator.dispatch import answer_message
from ganeti_steward.core.iallocator.message import write_answer
from ganeti_steward.core.model.answer import Outcome
from ganeti_steward.core.model.explanation import Explanation
from ganeti_steward.core.model.options import parse_options

Message = dict[str, Any]

HAIL: Final = "/usr/lib/ganeti/iallocators/hail"


def outcome(
    message: Message, *options: str, config: Config | None = None, explain: bool = False
) -> Outcome:
    """Steward's outcome, in process."""
    raw = orjson.dumps(message)
    return answer_message(raw, parse_options(options), config or Config(), explain=explain)


def steward(message: Message, *options: str) -> Message:
    """Steward's answer as Ganeti would read it."""
    answer: Message = json.loads(write_answer(outcome(message, *options)))
    return answer


def places(message: Message, *options: str) -> set[tuple[str, ...]]:
    """All places that are legal."""
    (explained,) = outcome(message, *options, explain=True).explanations
    assert isinstance(explained, Explanation)
    return {place.nodes for group in explained.groups for place in group.places}


def hail(message: Message, path: Path, *options: str) -> Message:
    """hail's answer; the message passes through a file in ``path``."""
    file = path / "message.json"
    file.write_bytes(orjson.dumps(message))
    done = subprocess.run(
        [need_hail(), str(file), *options], capture_output=True, check=True, timeout=300
    )
    answer: Message = json.loads(done.stdout)
    return answer


def need_hail() -> str:
    """Where hail is; skips the test where it is not installed."""
    return need(HAIL)


def announced_score(answer: Message, place: Sequence[str]) -> float:
    """The score that an answer's info gives for a place."""
    before = answer["info"].split(f" for node(s) {'/'.join(place)}")[0]
    return float(before.rsplit("score: ", 1)[1].split(",")[0])
