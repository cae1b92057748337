"""Rules with one fault each, as users write them: refused with the place, nothing is written."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from thorough import dice, often

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.json_reader import Faults
from ganeti_steward.plugins.filters import rule_text

if TYPE_CHECKING:
    from front import Front
    from ruled import Ruled

GOOD: Final[list[Any]] = [
    [["jobid", [">", "id", "watermark"]]],
    [["opcode", ["|", ["=", "OP_ID", "OP_TEST_DELAY"], ["=~", "OP_ID", "^OP_TAGS"]]]],
    [["reason", ["&", ["=", "source", "gnt:user"], ["=", "reason", "pink bunny"]]]],
    [
        ["opcode", ["&", ["!", ["?", "no_locks"]], ["=[]", "tags", "t1"], ["<", "repeat", 3]]],
        ["jobid", ["!", ["<=", "id", 17]]],
    ],
]
LEAVES: Final = {"=", "<", "<=", ">", "=~", "=[]", "?"}


def faulty(value: Any, path: str = "predicates") -> Iterator[tuple[str, Any, list[Any], int]]:
    """Place of a fault, what makes it, and where that goes: a list and an index."""
    for at, part in enumerate(value):
        here = f"{path}[{at}]"
        if isinstance(part, list):
            yield here, "x", value, at
            yield here, 7, value, at
            yield from faulty(part, here)
            if part[0] in LEAVES:
                yield here, part[:-1], value, at
                yield here, [*part, "more"], value, at
        elif at == 0:
            yield from ((here, wrong, value, at) for wrong in ("xor", "OPCODE", "!~", 3, None))
        elif at == 1:
            yield from ((here, wrong, value, at) for wrong in (5, None, True, {}))
        else:
            yield from ((here, wrong, value, at) for wrong in (None, True, 0.5, [], {}))


def mutated(chance: random.Random) -> tuple[str, Any]:
    """Predicates with a fault, and its place."""
    tree = copy.deepcopy(chance.choice(GOOD))
    place, wrong, owner, at = chance.choice(list(faulty(tree)))
    owner[at] = wrong
    return place, tree


def parsed_predicates(text: str) -> tuple[Any, ...]:
    faults = Faults()
    found = rule_text.parsed_predicates(text, faults)
    faults.check()
    return found


@pytest.mark.parametrize("good", GOOD)
def test_without_the_fault_they_are_taken(good: Any) -> None:
    assert parsed_predicates(json.dumps(good)) == tuple(good)


def test_each_fault_is_named_with_its_place() -> None:
    chance = dice(5)
    for _ in range(often(300, 5000)):
        place, predicates = mutated(chance)
        with pytest.raises(StewardError) as refused:
            parsed_predicates(json.dumps(predicates))
        assert str(refused.value).startswith(f"{place}: "), predicates


def test_nothing_is_written(front: Front, cluster: Ruled, tmp_path: Path) -> None:
    chance = dice(7)
    with cluster.reached(tmp_path, "luxi") as options:
        for _ in range(often(120, 1000)):
            place, predicates = mutated(chance)
            done = front("filter", "add", f"--predicates={json.dumps(predicates)}", *options)
            assert (done.status, done.out) == (1, ""), predicates
            assert done.err.startswith(f"gnt-steward filter: {place}: "), (predicates, done.err)
            assert len(done.err.splitlines()) == 1
    assert cluster.rules == []


def test_damaged_text_ends_in_a_sentence() -> None:
    """Whatever a user types is either taken or refused."""
    chance, refused = dice(3), list[str]()
    number = often(500, 20_000)
    for _ in range(number):
        text = list(json.dumps(chance.choice(GOOD)))
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(text))
            text[at : at + chance.randint(0, 2)] = chance.choice('[]{}",\\:0e-\u00e9 tn\n')
        try:
            parsed_predicates("".join(text))
        except StewardError as err:
            refused.append(str(err))
    assert len(refused) > number // 4
    assert all(text.startswith("predicates") for text in refused)
