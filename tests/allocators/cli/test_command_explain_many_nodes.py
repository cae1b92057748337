"""``gnt-steward explain`` on clusters with many nodes: one row for the same verdict, 80 columns."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import clusters
from front import capture

if TYPE_CHECKING:
    from front import Front


def hundred() -> Any:
    """A pair is wanted in a group of 100 nodes, two of which do not fit."""
    message = clusters.generate(
        *("--nodes=100", "--groups=1", "--mix=drbd=1", "--seed=4", "--per-node=1", "--fill=.2"),
        *("--request=allocate", "--new-template=drbd"),
    )
    message["request"].update(memory=512, vcpus=1)
    message["nodes"]["node007.example.com"]["drained"] = True
    message["nodes"]["node009.example.com"]["free_disk"] = 500
    return message


def test_a_hundred_nodes_in_eighty_columns(front: Front) -> None:
    done = front("explain", front.message(hundred()))
    lines = [line for line in done.out.splitlines()[1:] if not line.startswith("Info: ")]
    assert max(map(len, lines)) <= 80
    # The answer, three places, and what is refused: nothing of the 98 nodes that fit.
    assert len(lines) < 20
    assert " fit" not in "".join(lines)
    assert re.search(r"^Best places +#1 +#2 +#3$", done.out, re.MULTILINE)
    assert "disk_load_cv" not in done.out
    assert re.search(r"^node007 +primary +drained the node is drained$", done.out, re.MULTILINE)
    assert re.search(r"^node009 +primary +disk +needs \d+ MiB of disk", done.out, re.MULTILINE)
    every = front("explain", "-v", front.message(hundred())).out
    assert len(re.findall(r"^node\d+\.example\.com primary", every, re.MULTILINE)) == 100


def test_one_row_for_many_nodes_with_different_reasons(front: Front) -> None:
    message = hundred()
    for number in range(20, 40):
        message["nodes"][f"node{number:03}.example.com"]["free_disk"] = number
    done = front("explain", front.message(message))
    row = r"^21 nodes primary +disk +e\.g\. node009: needs \d+ MiB of disk"
    assert re.search(row, done.out, re.MULTILINE)


def test_one_node(front: Front) -> None:
    file = front.message(hundred())
    for name in ("node009", "node009.example.com"):
        done = front("explain", "--node", name, file)
        rows = re.findall(r"^(node\d+|\d+ nodes) ", done.out, re.MULTILINE)
        assert rows == ["node009", "node009"]
        assert "MiB of disk and 1 to spare, 500 MiB free" in " ".join(done.out.split())
    assert front("explain", "-n", "node009", "-n", "node007", file).out.count("node007 ") == 2
    unknown = front("explain", "-n", "node9", file)
    assert unknown.err == "gnt-steward explain: no node of this request is named 'node9'\n"


def test_names_that_differ_by_their_domain_only_stay_whole(front: Front) -> None:
    message = capture("allocate-ext")
    text = json.dumps(message).replace("node6.lab", "node5.com")
    done = front("explain", front.message(json.loads(text)))
    for name in ("node4", "node5.lab", "node5.com"):
        assert re.search(rf"^primary .*\b{name}( |$)", done.out, re.MULTILINE), done.out
