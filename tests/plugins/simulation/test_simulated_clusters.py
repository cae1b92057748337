"""Simulations: the daemon keeps its invariants, and one seed gives one result."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

import pytest
from simulations import HARD, Checked, configured, drawn_case
from thorough import often, seeds
from worlds import incident, with_cluster_tags

from ganeti_steward.plugins.maintenance.config import OBSERVE, Maintd
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.model.incident import PENDING, Attempt
from ganeti_steward.plugins.model.task import Held
from ganeti_steward.plugins.simulation.assumptions import (
    DAY,
    HOUR,
    SECOND,
    Assumptions,
)
from ganeti_steward.plugins.simulation.daemon import next_deadline, opening
from ganeti_steward.plugins.simulation.hardware import drawn
from ganeti_steward.plugins.simulation.made_cluster import BEGIN, made_world
from ganeti_steward.plugins.simulation.results import Results
from ganeti_steward.plugins.simulation.run import Simulation
from ganeti_steward.plugins.simulation.timeline import Side, svg


@pytest.mark.parametrize("seed", seeds(4, 500))
def test_the_daemon_keeps_its_invariants(seed: int) -> None:
    simulation = drawn_case(seed)
    found = simulation.run()
    assert not found.faults
    assert 0 < found.availability <= 1
    assert found.most_under_repair <= simulation.config.most_nodes


class EveryRound(Checked):
    """Runs the daemon's round after each interval, like the real one."""

    def _round(self) -> None:
        super()._round()
        interval = int(self.config.poll_interval * SECOND)
        self.schedule.after(interval - self.schedule.now % interval, self._again)

    def _again(self) -> None:
        # A round that is due within seconds would do the same a moment later.
        if self._next_round is None or self._next_round - self.schedule.now > 2 * SECOND:
            self._wake(0)


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_rounds_that_are_left_out_would_change_nothing(seed: int) -> None:
    start, config = made_world(5, 20, seed), configured(most_nodes=2, storm_share=1)
    assumed = HARD._replace(days=often(2, 4), seed=seed, ailments=200)
    found = [kind(start, config, assumed).run() for kind in (Simulation, EveryRound)]
    assert found[1].rounds > found[0].rounds
    assert sum(found[0].moves.values()) > 0
    short, whole = (one._replace(rounds=0, brakes={}) for one in found)
    assert short == whole


def result(**settings: object) -> Results:
    start, assumed = made_world(8, 16, 1), HARD._replace(days=3, storms=0, ailments=60)
    return Simulation(start, configured(**settings), assumed).run()


def test_observe_does_nothing_and_act_saves_instances() -> None:
    observed, acted = result(mode=OBSERVE), result(storm_share=1, most_nodes=3)
    assert not any(observed.moves.values())
    assert not observed.most_under_repair
    assert sum(acted.moves.values()) > 0
    assert acted.availability > observed.availability
    assert acted.copied > 0


def test_routine_work_is_done_in_the_rounds() -> None:
    """The disks of instances whose secondary is switched off get a new one, as tags allow."""
    start = made_world(5, 10, 1)
    tagged = with_cluster_tags(start, ["ganeti:watcher:autorepair:fix-storage"])
    assumed = Assumptions(days=4, seed=1, deaths=60, ailments=0, repairable=0, flaps=0, storms=0)
    simulation = Checked(tagged, configured(routine=("harep",), dead_after=0), assumed)
    found = simulation.run()
    assert found.deaths > 0
    assert not found.incidents
    assert found.moves["replace-disks"] > 0
    assert any(
        ":success:" in tag for one in simulation.cluster.instances.values() for tag in one.tags
    )
    alone = Checked(start, configured(routine=("harep",), dead_after=0), assumed).run()
    assert not any(alone.moves.values())


def test_the_failures_do_not_depend_on_the_rest() -> None:
    hard = HARD._replace(days=100)
    whole = drawn(["a", "b"], hard)
    assert whole == sorted(whole)
    of_a = [one for one in whole if one.node == "a" and one.kind != "storm"]
    alone = [one for one in drawn(["a"], hard) if one.kind != "storm"]
    assert of_a == alone
    assert Counter(one.kind for one in whole).keys() == {
        "death", "ailment", "repairable", "flap", "storm", "cut-off"
    }  # fmt: skip
    assert drawn(["a"], hard._replace(seed=2)) != drawn(["a"], hard)


def test_without_failures_nothing_happens() -> None:
    calm = Assumptions(deaths=0, ailments=0, repairable=0, flaps=0, storms=0, cut_offs=0)
    found = Simulation(made_world(4, 8, 1), configured(), calm).run()
    assert (found.availability, found.incidents, found.rounds) == (1.0, 0, 0)
    assert "at most 0" in svg([Side("", "act", found)])


def test_the_next_opening_of_a_window() -> None:
    # The start is a Monday at midnight.
    assert opening(["22:00-06:00"], BEGIN + 12 * HOUR, 0) == BEGIN + 22 * HOUR
    assert opening(["22:00-06:00"], BEGIN + 12 * HOUR, 3600) == BEGIN + 21 * HOUR
    assert opening(["Sun 08:00-09:00"], BEGIN, 0) == BEGIN + 6 * DAY + 8 * HOUR
    late = BEGIN + 8 * HOUR + 30 * SECOND
    assert opening(["Mon 08:00-09:00"], late, 0) == BEGIN + 7 * DAY + 8 * HOUR


def test_what_has_seconds_left_is_decided_after_them() -> None:
    held = Held("node1", "changing", "in 60 s", (("opened", 1), ("left", 60)))
    assert next_deadline(Round(0, 0, held=(held,)), Maintd(), 5 * SECOND) == 66 * SECOND
    assert next_deadline(Round(0, 0), Maintd(), 5 * SECOND) is None


def test_what_has_failed_is_decided_again_when_it_may_be_tried_again() -> None:
    failed = Attempt("inst1", 1, 20 * SECOND, "a reason")
    one = incident("node1", status=PENDING, progressed=20 * SECOND, attempts=(failed,))
    now, settings = 21 * SECOND, Maintd(retry_delay=30)
    assert next_deadline(Round(0, 0, incidents={one.uuid: one}), settings, now) == 50 * SECOND


def test_the_time_line_is_an_svg_document() -> None:
    found = result()
    root = ElementTree.fromstring(svg([Side("", "act", found)], "<lab>", "2026-01-07"))
    assert root.tag.endswith("svg")
    texts = "".join(root.itertext())
    assert f"instances down, at most {max(one.down for one in found.spans)}" in texts
    assert "8 nodes and 16 instances, mode act, seed " in texts
    assert "cluster <lab>, 2026-01-07" in texts
    assert f"{found.copied:.0f} GiB copied" in texts


def test_two_configurations_have_one_scale() -> None:
    found = result()
    calm = found._replace(spans=tuple(one._replace(down=0, ill=1) for one in found.spans))
    picture = svg([Side("a.toml", "act", found), Side("b.toml", "observe", calm)])
    root = ElementTree.fromstring(picture)
    first, second = root.findall("{http://www.w3.org/2000/svg}g")
    assert int(root.get("width", "")) == 2 * int(
        ElementTree.fromstring(svg([Side("", "act", found)])).get("width", "")
    )
    assert "mode act beside observe, seed " in picture
    scale = str(max(one.ill for one in found.spans))
    for side, name in ((first, "a.toml, mode act"), (second, "b.toml, mode observe")):
        texts = [one.text or "" for one in side]
        assert any(one.startswith(name) for one in texts)
        assert scale in texts
    assert any((one.text or "").endswith("fault, at most 1") for one in second)
