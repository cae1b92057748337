"""Sixty commands that misbehave: nothing of them is left, and no other finding is lost."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from misbehaving import KINDS, Node
from other_user import let_everybody_reach_python
from thorough import often
from whitelists import safe_directory

#: The user without rights, on every Linux.
ORDINARY = 65534


@pytest.fixture
def node() -> Iterator[Node]:
    """Where root may run commands, and everybody reach them."""
    if os.geteuid() != 0:
        with tempfile.TemporaryDirectory() as path:
            yield Node(Path(path))
        return
    with safe_directory() as place:
        yield Node(place)


def check(node: Node, number: int) -> None:
    """Run every so many kinds; what is reported about each, and that nothing is left."""
    kinds = KINDS[::number]
    node.prepare(kinds)
    report = node.run()
    unknown = {one["source"]: one["reason"] for one in report["unknown"]}
    found = {one["source"] for one in report["data"]["details"]}
    good = {f"nagios:good{n}" for n in range(0, len(kinds), 5)}
    faulty = {f"nagios:{kind.name}" for kind in kinds if kind.is_heard and kind.output == "fault"}
    assert found == good | faulty
    silent = {f"nagios:{kind.name}" for kind in kinds if not kind.is_heard}
    assert silent <= set(unknown), "Ok, though it was never heard"
    reasons = {reason for source, reason in unknown.items() if source in silent}
    assert reasons <= {"killed after 1 s", "was ended by SIGKILL"}
    others = {source for source in unknown if source.startswith("nagios:")} - silent
    assert not others, unknown
    node.check_quiet()


def test_as_it_is(node: Node) -> None:
    check(node, 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_as_an_ordinary_user(node: Node, request: pytest.FixtureRequest) -> None:
    """The mechanism needs no rights."""
    let_everybody_reach_python(request)
    node.user = ORDINARY
    check(node, often(5, 1))


def test_one_after_the_other(node: Node) -> None:
    """The same report, whichever run beside each other."""
    kinds = [kind for kind in KINDS if kind.is_heard][::4]
    node.prepare(kinds, parallel=1)
    alone = node.run()
    config = node.path / "steward.toml"
    config.write_text(config.read_text().replace("parallel = 1", "parallel = 16"))
    for _ in range(often(1, 10)):
        beside = node.run()
        assert (beside["data"], beside["unknown"]) == (alone["data"], alone["unknown"])
    node.check_quiet()
