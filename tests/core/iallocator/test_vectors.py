"""The golden messages: the same outcome as hail, but for deliberate differences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import messages
import pytest
from paths import DATA

from ganeti_steward.allocators.jobs.operations import migrate, replace_secondary

VECTORS = sorted((DATA / "vectors").glob("*.json"))

Json = dict[str, Any]

_SWAPPED = [["i1.test", "group00", ["n3.test", "n1.test"]]]
_REPLACED_FIRST = [[replace_secondary("i1.test", "n3.test"), migrate("i1.test")]]

#: Vector -> (result, why it is not hail's).
DIFFERENT: dict[str, tuple[object, str]] = {
    "22-alloc-offline-secondary-blocks": (
        ["n3.test", "n2.test"],
        "an instance that already could not leave its node blocks nothing: capacity means "
        "that the placement must not make it worse",
    ),
    "33-evacuate-all-offline-primary": (
        [
            [["i1.test", "group00", ["n2.test", "n4.test"]]],
            [],
            [[migrate("i1.test"), replace_secondary("i1.test", "n4.test")]],
        ],
        "only the offline node is being left: one copy of the disks instead of two",
    ),
    "37-evacuate-to-drained-secondary": (
        [_SWAPPED, [], _REPLACED_FIRST],
        "nothing fails over to a drained node: the secondary is replaced first",
    ),
    "38-evacuate-no-memory": (
        [_SWAPPED, [], _REPLACED_FIRST],
        "a full secondary is replaced first",
    ),
    "43-multi-allocate-group-partial": (
        [],
        "all or nothing also with group_name; Ganeti rejects hail's pairs of name and reason",
    ),
    "44-multi-allocate-order": (
        [
            [
                ["new0001.test", ["n2.test"]],
                ["new0002.test", ["n1.test"]],
                ["new0003.test", ["n2.test"]],
                ["new0004.test", ["n3.test"]],
            ],
            [],
        ],
        "a batch is planned as a whole, so the last and largest one finds a place, too",
    ),
}


def test_every_difference_is_one_of_a_vector() -> None:
    assert set(DIFFERENT) < {file.stem for file in VECTORS}


@pytest.mark.parametrize("file", VECTORS, ids=lambda file: file.stem)
def test_vector(file: Path) -> None:
    vector: Json = json.loads(file.read_bytes())
    assert vector["exit"] == 0
    answer = messages.answer(vector["input"], *vector["options"])
    hail = vector["response"]
    if file.stem in DIFFERENT:
        result, _ = DIFFERENT[file.stem]
        assert (answer["success"], answer["result"]) == (result != [], result), vector["why"]
        assert result != hail["result"]
    else:
        assert (answer["success"], _verdict(answer)) == (hail["success"], _verdict(hail))


def _verdict(answer: Json) -> object:
    """The result; of instances that cannot be moved the names, the reasons have other words."""
    result = answer["result"]
    if len(result) != 3:
        return result
    moved, failed, jobs = result
    return moved, [name for name, _ in failed], jobs
