"""The daemon as a process releases held jobs; when it or a plugin fails, they stay held."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running import Site, site, wait_for

from ganeti_steward.core.ganeti.luxi import Luxi

A = "aaaaaaaa-1111-4111-8111-111111111111"

PLUGIN = """
import time
from ganeti_steward.core import hookimpl

@hookimpl
def steward_filter_action(action):
    if action == "HANG":
        while True:
            time.sleep(1)
    if action == "RAISE":
        raise ValueError("no moon today")
"""


class Held:
    """A cluster and its luxid."""

    def __init__(self, cluster: Site) -> None:
        self.cluster = cluster
        self.luxi = Luxi(str(cluster.path / "luxi.sock"))

    def hold(self, action: str) -> None:
        trail = [["steward:filter-action", action, 1]]
        self.luxi.call("ReplaceFilter", A, 50, [], "PAUSE", trail)

    def submit(self) -> None:
        self.luxi.submit([[{"OP_ID": "OP_TEST_DELAY", "duration": 0}]], "test")

    def approve(self, number: int) -> None:
        self.luxi.call("test.change", "cluster", "", {"tags": [f"maintd:approve:{number}"]})

    def statuses(self) -> list[str]:
        return [row["status"] for row in self.luxi.rows("job", ("status",))]

    def rules(self) -> list[Any]:
        return [row["action"] for row in self.luxi.rows("filter", ("action",))]

    def sentences(self) -> list[str]:
        found = [one["sentence"] for one in self.cluster.get("/1/daemon")["held"]]
        return [one for one in found if "holds job" in one]


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    with site(tmp_path) as made:
        yield Held(made)


def test_a_killed_daemon_leaves_jobs_held(held: Held) -> None:
    held.hold("APPROVE")
    held.submit()
    held.submit()
    with held.cluster.daemon() as process:
        held.cluster.logged("held=filter-action")
        assert "filter rule" not in held.cluster.plan()
        process.kill()
        process.wait(300)
    held.approve(2)
    assert held.statuses() == ["queued", "queued"]
    assert f"filter rule {A}: release job 2: the cluster has the tag" in held.cluster.plan()
    assert held.statuses() == ["queued", "queued"]
    with held.cluster.daemon():
        held.cluster.logged(f"incident={A} task=release-job reason=.release job 2: ")
        held.cluster.logged(f"incident={A} task=forget-job ")
        assert held.statuses() == ["queued", "success"]
        assert held.rules() == ["PAUSE"]


@pytest.mark.parametrize(
    ("action", "why"),
    [("RAISE", "plugin moon: failed: ValueError: no moon"), ("HANG", "plugin moon: ")],
)
def test_a_broken_plugin_holds_and_is_named(held: Held, action: str, why: str) -> None:
    (held.cluster.path / "moon.py").write_text(PLUGIN)
    config = held.cluster.config
    config.write_text(f'{config.read_text()}[plugins]\nload = ["moon"]\ntime-limit = 0.5\n')
    held.hold(action)
    held.submit()
    with held.cluster.daemon():
        held.cluster.begun()
        (sentence,) = wait_for(held.sentences, held.cluster.log.read_text)
        assert sentence.startswith(f"{action} holds job 1: {why}")
        held.hold("WINDOW 00:00-24:00")
        wait_for(lambda: held.statuses() == ["success"], held.cluster.log.read_text)
