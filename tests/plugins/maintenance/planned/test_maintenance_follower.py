"""What ``maintenance run`` prints of the rounds, and when it takes the maintenance as over."""

from __future__ import annotations

from typing import Any

import pytest
from upkept import Upkept

from ganeti_steward.plugins.maintenance.cli.planned.maintenance_run import Follower
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.task import Held


class Following:
    """A follower, the maintenance of node2, and a clock that the test sets."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._cluster, self._capsys, self.clock = Upkept(), capsys, 1000.0
        self.incident = self._cluster.request("node2")
        node = self._cluster.nodes["uuid-node2"]
        self.follower = Follower(node, lambda: self.clock)
        self.follower.follow(self.incident)

    def round(self, *sentences: str, incident: Incident | None = None, **more: Any) -> bool:
        """Whether it is over after a round in which it waits for these."""
        held = tuple(Held(self.incident.uuid, "wait", one) for one in sentences)
        known = {self.incident.uuid: incident or self.incident}
        outcome = Round(0, 0, self._cluster.world(), incidents=known, held=held)
        return self.follower(outcome._replace(**more))

    @property
    def printed(self) -> list[str]:
        """The lines since the last look."""
        out = self._capsys.readouterr().out.splitlines()
        return [line.removeprefix("node2: ").split("; what helps: ")[0] for line in out]


@pytest.fixture
def following(capsys: pytest.CaptureFixture[str]) -> Following:
    return Following(capsys)


def test_figures_alone_are_no_news_for_a_minute(following: Following) -> None:
    assert not following.round("disks are in sync at 10 %")
    assert following.printed == ["requested", "disks are in sync at 10 %"]
    following.clock += 59
    following.round("disks are in sync at 11 %")
    assert following.printed == []
    following.clock += 1
    following.round("disks are in sync at 12 %", "its agent is silent")
    assert following.printed == ["disks are in sync at 12 %", "its agent is silent"]
    following.clock += 600
    following.round("disks are in sync at 12 %")
    assert following.printed == []


def test_a_round_that_failed_or_is_undecided_ends_nothing(following: Following) -> None:
    assert not following.round(world=None, incidents={}, fault="luxid does not answer")
    assert following.printed == ["the round failed, it is tried again: luxid does not answer"]
    assert not following.round(incidents={}, undecided="no candidate answers")
    over = following.incident._replace(status="completed", acknowledged=True)
    assert not following.round(incident=over, fault="luxid does not answer")
    assert following.round(incident=over)
    assert following.follower.ended() == 0


@pytest.mark.parametrize("status", ["failed", "canceled"])
def test_another_end(following: Following, status: str) -> None:
    ended = following.incident._replace(status=status, note="because")
    assert following.round(incident=ended)
    assert following.printed == [f"{status}: because"]
    assert following.follower.ended() == 4


def test_a_record_that_is_gone(following: Following) -> None:
    assert following.round(incidents={})
    assert following.follower.ended() == 4
    assert following.printed[-1] == "its record is gone"
