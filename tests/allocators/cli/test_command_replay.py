"""``gnt-steward replay``: kept requests answered again, compared, listed."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from front import capture
from paths import CAPTURES

if TYPE_CHECKING:
    from front import Front

DRBD = str(CAPTURES / "allocate-drbd.in.json")
BATCH = str(CAPTURES / "multi-allocate-two.in.json")

TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"

NEVER = """\
from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.site_rules import PRIMARY, Ban


@hookimpl
def steward_constrain(cluster):
    return [Ban(node.name, PRIMARY, "never", "is never used") for node in cluster.nodes]
"""


@pytest.fixture
def kept(front: Front) -> Front:
    """A site that keeps its requests."""
    front.configure(keep=3)
    return front


def names(front: Front) -> list[str]:
    return sorted(entry.name for entry in front.history.iterdir())


def test_same(kept: Front) -> None:
    given = kept.allocate(DRBD)
    done = kept("replay")
    assert (done.status, done.out) == (0, given.out)
    (name,) = names(kept)
    assert re.fullmatch(
        rf"The answer to {name} \(allocate new1.lab, {TIME}\) is the same as then.\n", done.err
    )


@pytest.mark.parametrize(
    "file", sorted(CAPTURES.glob("*.in.json")), ids=lambda path: path.name.split(".")[0]
)
def test_every_type_is_the_same(kept: Front, file: object) -> None:
    given = kept.allocate(str(file))
    done = kept("replay")
    assert (done.status, done.out) == (0, given.out)


def test_shadow(kept: Front) -> None:
    given = kept.allocate(DRBD)
    kept.configure('[shadow]\nallocate = ["balanced", "nosuch"]', keep=3)
    assert kept("replay").out == given.out
    done = kept("replay", "--shadow")
    answer, *compared = done.out.splitlines()
    assert (done.status, answer) == (0, given.out.strip())
    place = "/".join(json.loads(answer)["result"])
    begun = "request=allocate name=new1.lab same="
    assert compared[0].startswith(
        f"compared=balanced {begun}yes answered={place} shadow={place} score="
    )
    assert compared[1].startswith(
        f"compared=nosuch {begun}no answered={place} shadow=failed score="
    )
    assert "info=plugin nosuch: is not a loaded allocator" in compared[1]


def test_shadow_of_an_error(kept: Front) -> None:
    """There is nothing to compare with."""
    kept.allocate(DRBD, "--simulate=x")
    kept.configure('[shadow]\nallocate = ["balanced"]', keep=3)
    done = kept("replay", "--shadow")
    assert (done.status, done.out.count("\n")) == (0, 1)
    assert done.out.startswith("Error: ")


def test_different(kept: Front) -> None:
    given = kept.allocate(DRBD)
    kept.plugin("never", NEVER)
    kept.configure('[plugins]\nload = ["never"]', keep=3)
    done = kept("replay")
    assert done.status == 1
    assert json.loads(done.out)["success"] is False
    assert "3 never" in done.out
    (name,) = names(kept)
    assert done.err.startswith(f"The answer to {name} (allocate new1.lab, ")
    assert done.err.endswith(f") was different then: {given.out.strip()}\n")


def test_options_of_then(kept: Front) -> None:
    given = kept.allocate(DRBD, "--restrict-allocation-to=node4.lab,node5.lab", "--unknown")
    assert "options ignored: --unknown" in given.out
    assert kept("replay").out == given.out


def test_by_name(kept: Front) -> None:
    first, second = kept.allocate(DRBD), kept.allocate(BATCH)
    older, newer = names(kept)
    assert kept("replay").out == second.out
    assert kept("replay", older).out == first.out
    assert kept("replay", newer).out == second.out
    done = kept("replay", "nosuch")
    assert (done.status, done.out) == (1, "")
    assert done.err == (
        f"gnt-steward replay: history {kept.history}: no request is kept as 'nosuch'\n"
    )


def test_error_of_then(kept: Front) -> None:
    """A request that could not be read is kept, and is as unreadable today."""
    message = capture("allocate-drbd")
    del message["request"]
    given = kept.allocate(kept.message(message))
    assert given.status == 1
    done = kept("replay")
    assert done.status == 0
    assert done.out.startswith("Error: ")
    assert done.out == given.err


def test_nothing_kept(front: Front) -> None:
    front.allocate(DRBD)
    done = front("replay")
    assert (done.status, done.out) == (1, "")
    assert done.err.endswith("no request is kept there\n")
    listed = front("replay", "--list")
    assert (listed.status, listed.out.split()) == (
        0,
        ["#", "Time", "Type", "Instance", "Answer", "Name"],
    )


def test_list(kept: Front) -> None:
    refused = capture("allocate-drbd")
    refused["request"]["memory"] = 10**6
    kept.allocate(DRBD)
    kept.allocate(BATCH)
    kept.allocate(kept.message(refused))
    done = kept("replay", "--list", "--separator=|")
    assert done.status == 0
    headings, *lines = [line.split("|") for line in done.out.splitlines()]
    assert headings == ["#", "Time", "Type", "Instance", "Answer", "Name"]
    assert [line[-1] for line in lines] == names(kept)
    assert [line[0] for line in lines] == ["3", "2", "1"]
    assert all(re.fullmatch(TIME, line[1]) for line in lines)
    assert [line[2:-1] for line in lines] == [
        ["allocate", "new1.lab", "success"],
        ["multi-allocate", "m1.lab,m2.lab", "success"],
        ["allocate", "new1.lab", "failure"],
    ]
    assert kept("replay", "--list", "--no-headers").out.count("\n") == 3


def test_only_the_last_are_kept(kept: Front) -> None:
    for _ in range(3):
        kept.allocate(DRBD)
    oldest = names(kept)[0]
    kept.allocate(BATCH)
    assert len(names(kept)) == 3
    assert oldest not in names(kept)
    assert oldest not in kept("replay", "--list").out


def test_list_of_the_unreadable(kept: Front) -> None:
    """One spoiled entry does not hide the others."""
    kept.allocate(kept.message({"request": []}))
    kept.allocate(DRBD)
    kept.allocate(BATCH)
    _, spoiled, _ = names(kept)
    (kept.history / spoiled / "call.json").write_text("{")
    lines = kept("replay", "--list", "--separator=|", "--no-headers").out.splitlines()
    assert [line.split("|")[2:-1] for line in lines] == [
        ["-", "-", "error"],
        ["-", "-", "unreadable"],
        ["multi-allocate", "m1.lab,m2.lab", "success"],
    ]
    done = kept("replay", spoiled)
    assert done.status == 1
    assert f"{spoiled} cannot be read" in done.err


def test_kept_for_root_only(kept: Front) -> None:
    kept.allocate(DRBD)
    (name,) = names(kept)
    paths = [kept.history, kept.history / name, *(kept.history / name).iterdir()]
    assert {oct(path.stat().st_mode & 0o077) for path in paths} == {"0o0"}
