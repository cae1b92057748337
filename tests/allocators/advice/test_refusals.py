"""Generated refusals: what is suggested works, and what brute force finds is suggested."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from ask import need_hail, outcome
from refusals import ALLOCATIONS, MOVING, after, refusal, refused, single_moves
from thorough import often

from ganeti_steward.allocators.advice.advise import Advice, advise
from ganeti_steward.allocators.advice.case import MOVES, OPTION, TAG, Case, Suggestion, is_complete
from ganeti_steward.allocators.advice.proposals import Trials
from ganeti_steward.allocators.text_output import htools_text
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.iallocator.dispatch import dispatch
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.requests import Allocate

Message = dict[str, Any]

KINDS: Final = (*ALLOCATIONS, *MOVING)
#: Usually one of them, with which no search takes long.
SEEDS: Final = often(range(3, 4), range(9))
CASES: Final = [(kind, seed) for seed in SEEDS for kind in KINDS]

#: No search ends early.
ENDLESS: Final = 1e9


def advice_on(message: Message) -> Advice:
    cluster, request = read_message(orjson.dumps(message))
    return advise(Case(request, cluster), Trials(Config()), ENDLESS)


def answers(suggestion: Suggestion) -> bool:
    """Whether the configured chain answers the changed request in full."""
    request, cluster, options = suggestion.case[:3]
    found = dispatch(request, cluster, Config(), options, explain=False)
    return is_complete(found, request)


def hail_answers(message: Message, suggestion: Suggestion, path: Path) -> bool:
    """Whether hail does, which knows all of the changed cluster but single disks.

    Without its capacity test, which refuses every request on a cluster that fails it already.
    """
    case, request = suggestion.case, dict(message["request"])
    if isinstance(case.request, Allocate):
        instance = case.request.instance
        request |= {
            "memory": instance.memory,
            "vcpus": instance.vcpus,
            "disks": [{"size": disk.size, "mode": "rw"} for disk in instance.disks],
            "disk_space_total": instance.disk_space,
            "tags": list(instance.tags),
        }
        if case.request.group_name:
            request["group_name"] = case.request.group_name
    data, file = path / "cluster.data", path / "message.json"
    data.write_text(htools_text(case.cluster))
    file.write_text(json.dumps(message | {"request": request}))
    soft = ["--ignore-soft-errors"] if case.options.ignore_soft_errors else []
    command = [need_hail(), str(file), "-t", str(data), "--no-capacity-checks", *soft]
    done = subprocess.run(command, capture_output=True, check=True, timeout=300)
    answer = json.loads(done.stdout)
    return bool(answer["success"]) and not (len(answer["result"]) == 3 and answer["result"][1])


@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_suggestions(kind: str, seed: int, tmp_path: Path) -> None:
    message = refusal(seed, kind)
    advice = advice_on(message)
    assert not advice.bounded
    for suggestion in advice.suggestions:
        assert answers(suggestion), suggestion.text
        if kind in ALLOCATIONS:
            assert hail_answers(message, suggestion, tmp_path), suggestion.text
    (moves, *more) = [one for one in advice.suggestions if one.kind == MOVES] or [None]
    assert not more
    if moves is not None:
        # The jobs do what the suggestion says, and leave room in the message of Ganeti, too.
        changed = message
        for move in moves.moves:
            changed = after(changed, move.job)
            assert changed["instances"][move.instance]["nodes"] == [*move.after]
        assert not refused(changed)
    kinds = Counter(one.kind for one in advice.suggestions)
    found = next((job for _, job, then in single_moves(message) if not refused(then)), None)
    if found is not None:
        assert moves is not None, f"brute force: {found}"
        assert len(moves.moves) == 1
    else:
        assert moves is None or len(moves.moves) > 1, f"brute force does not find {moves.text}"
    for option in ("--no-capacity-checks", "--ignore-soft-errors"):
        if succeeds(message, option):
            assert kinds[OPTION], option
    for tag in message["request"].get("tags", ()):
        request = message["request"]
        tags = [other for other in request["tags"] if other != tag]
        if succeeds(message | {"request": request | {"tags": tags}}):
            assert kinds[TAG], tag


def succeeds(message: Message, *options: str) -> bool:
    _, request = read_message(orjson.dumps(message))
    return is_complete(outcome(message, *options), request)


def test_the_generated_refusals_can_often_be_helped_by_moves() -> None:
    """Otherwise the comparison above would compare nothing."""
    helped = sum(
        any(not refused(then) for _, _, then in single_moves(refusal(seed, "relocate")))
        for seed in range(6)
    )
    assert helped >= 2
