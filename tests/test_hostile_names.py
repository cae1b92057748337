"""Names from Ganeti that would change a terminal, or look like lines of ours, in all commands."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import clusters
import pytest
from standin import StandIn
from standin_server import serving

if TYPE_CHECKING:
    from front import Front

#: Escape sequences, the one-byte form of their beginning, DEL, and characters that turn the
#: direction of what follows.
HOSTILE: Final = "x\x1b]0;owned\x07\x9b2J\x7f\u202egnp\u2066"
#: The same, and a line that is not ours.
LINES: Final = f"{HOSTILE}\nFORGED all is well\r"
BAD: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")

#: Words of a command that print names; GROUP stands for the one of a group, NODE of a node.
COMMANDS: Final = (
    "balance",
    "balance --print-commands",
    "balance -o +score --no-headers",
    "balance --separator |",
    "group-evacuate GROUP",
    "group-evacuate GROUP --print-commands",
    "group-evacuate EMPTY",
    "check",
    "check --verbose",
    "check --machine-readable",
    "check --separator |",
    "capacity",
    "capacity --print-nodes",
    "capacity --separator |",
    "capacity -t drbd --memory 128 -c 1 --disk 0:size=1g",
    "place -t drbd --memory 128 -c 1 --disk 0:size=1g new.test",
    "place -t drbd --memory 900t -c 1 --disk 0:size=1g new.test",
    "aggregate list",
    "aggregate check",
    "filter list",
    "filter lint",
    "leftovers",
    "maintenance list",
    "maintd plan",
    "incident list",
)


def cluster(*, all_names: bool) -> dict[str, Any]:
    """Three groups, one of them empty, with such names, or also nodes, instances and tags.

    Ganeti takes any text for a group's name only.
    """
    made = clusters.generate("--nodes=6", "--groups=2", "--mix=drbd=1", "--seed=7", "--fill=.3")
    groups = made["nodegroups"]
    groups["3e9d4d6c-4f1c-4a0b-9f50-0a1f6a5f2b11"] = {**next(iter(groups.values()))}
    for number, group in enumerate(groups.values()):
        group["name"] = f"group{number}{LINES}"
    for node in [*made["nodes"].values()][1:3]:
        node["drained"] = True
    if all_names:
        made["cluster_tags"] = [HOSTILE, f"maintd:pause:{HOSTILE}", f"htools:iextags:{HOSTILE}"]
        for one in (*groups.values(), *made["nodes"].values(), *made["instances"].values()):
            one["tags"] = [HOSTILE, f"{HOSTILE}:x", f"steward:member-of:{HOSTILE}"]
        text = json.dumps(made)
        for name in (*made["nodes"], *made["instances"]):
            text = text.replace(f'"{name}"', json.dumps(f"{name}{HOSTILE}"))
        made = json.loads(text)
    return made


def served(front: Front, message: dict[str, Any], words: str) -> tuple[str, str]:
    """What a command prints on both streams."""
    stand_in = StandIn(message)
    groups = [group["name"] for group in message["nodegroups"].values()]
    names = {"GROUP": groups[0], "EMPTY": groups[-1]}
    given = [names.get(word, word) for word in words.split()]
    with serving(Path(front.path), stand_in) as luxi:
        done = front(*given, "--luxi-socket", luxi.path)
    return done.out, done.err


@pytest.mark.parametrize("json_too", [False, True])
@pytest.mark.parametrize("all_names", [False, True])
@pytest.mark.parametrize("words", COMMANDS)
def test_names_do_not_change_a_terminal(
    front: Front, words: str, all_names: bool, json_too: bool
) -> None:
    message = cluster(all_names=all_names)
    out, err = served(front, message, f"{words} --json" if json_too else words)
    print(out, err)
    for text in (out, err):
        assert not BAD.search(text), ascii(text)
        assert not re.search(r"^FORGED", text, re.MULTILINE), text
    if json_too and out:
        json.loads(out)
