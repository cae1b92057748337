"""The confd client against the real confd, from the master node."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .cluster import MASTER, Lab, until
from .live import STEWARD

pytestmark = pytest.mark.usefixtures("_three_candidates")


def answer(lab: Lab, query: str) -> Any:
    return json.loads(lab.ok(f"{STEWARD} confd {query}").text)


def test_the_master(lab: Lab) -> None:
    name, _, address = answer(lab, "master")
    assert lab.ok("gnt-cluster getmaster").text.strip() == name == MASTER
    assert address in answer(lab, "nodes")
    assert answer(lab, f"role {name}") == 0
    assert answer(lab, "config /cluster/cluster_name") in lab.ok("gnt-cluster info").text


def test_the_master_candidates(lab: Lab) -> None:
    rows = [line.split("|") for line in lab.query("gnt-node list -o pip,role")]
    assert sorted(answer(lab, "candidates")) == sorted(ip for ip, role in rows if role in "MC")


def test_the_vote(lab: Lab) -> None:
    expected = f"master: 3 of 3 master candidates name {MASTER} (serial "

    def is_complete() -> bool:
        if lab.run(f"{STEWARD} confd vote").text.startswith(expected):
            return True
        # Ganeti does not copy its configuration again where a busy node was too slow for it.
        lab.ok("gnt-cluster redist-conf")
        return False

    until(is_complete, every=10)


def test_an_error(lab: Lab) -> None:
    done = lab.run(f"{STEWARD} confd config /no/such/path")
    assert done.status == 1
    assert "answers with an error" in done.text


def test_another_key(lab: Lab) -> None:
    """confd does not reply to a request it cannot verify."""
    key = lab.directory / "other.key"
    key.write_text("another key of the cluster\n")
    command = f"{STEWARD} confd master --key-file={key} --time-limit=1.5"
    done = lab.run(command)
    assert done.status == 1
    assert "no master candidate answered" in done.text
