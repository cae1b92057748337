"""``gnt-steward simulate``: its figures as text, data and picture, and what it refuses."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import clusters
import pytest
from paths import CAPTURES
from standin import StandIn
from standin_server import serving

from ganeti_steward.core.ganeti import sources
from ganeti_steward.plugins.simulation.cli import simulate

if TYPE_CHECKING:
    from front import Front

SMALL = (
    "simulate", "--act", "--nodes", "6", "--instances", "12", "--days", "20",
    "--ailments", "10", "--storms", "0",
)  # fmt: skip


def test_one_seed_gives_one_result_whatever_the_order_of_sets(front: Front, tmp_path: Path) -> None:
    outputs = []
    for number in range(2):
        plot = tmp_path / f"{number}.svg"
        done = front.run(*SMALL, "--json", "--plot", str(plot), PYTHONHASHSEED=str(number))
        assert (done.status, done.err) == (0, "")
        outputs.append((done.out, plot.read_text()))
    assert outputs[0] == outputs[1]
    found = json.loads(outputs[0][0])
    assert sum(found["moves"].values()) > 0
    assert found["faults"] == []


def test_the_figures_for_people(front: Front) -> None:
    front.configure("[maintd]\nwindows = ['Sat 08:00-10:00']\n")
    done = front(*SMALL, "--seed", "3")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("20 days of 6 nodes and 12 instances, seed 3, mode act\n")
    words = [line.split("  ")[0] for line in done.out.splitlines()]
    assert {"availability", "moves", "nodes under repair", "incidents stuck"} <= {*words}
    assert "\nwindow " in done.out
    assert not logging.root.manager.disable


def test_the_mode_that_is_configured(front: Front, tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text("[maintd]\nmode = 'observe'\n")
    done = front("simulate", "--days", "2", "--nodes", "4", "--config", str(file))
    assert done.status == 0
    assert done.err.startswith("Note: the mode is observe")
    assert "mode observe\n" in done.out


def test_two_configurations_side_by_side(front: Front, tmp_path: Path) -> None:
    """Each has what it has alone: the failures are the same."""
    calm, plot = tmp_path / "calm.toml", tmp_path / "both.svg"
    calm.write_text("[maintd]\nmode = 'observe'\n")
    base = (*(one for one in SMALL if one != "--act"), "--config")
    acting = str(tmp_path / "act.toml")
    Path(acting).write_text("[maintd]\nmode = 'act'\n")
    done = front(*base, acting, "--compare", str(calm), "--json", "--plot", str(plot))
    assert done.status == 0
    both = json.loads(done.out)
    assert [(one.pop("config"), one.pop("mode")) for one in both] == [
        (acting, "act"), (str(calm), "observe")
    ]  # fmt: skip
    alone = [json.loads(front(*base, one, "--json").out) for one in (acting, str(calm))]
    assert both == alone
    assert both[0] != both[1]
    assert "mode act beside observe, seed 1" in plot.read_text()
    picture = ElementTree.parse(plot).getroot()
    assert picture.get("style") == "max-width:100%;height:auto"
    text = front(*base, acting, "--compare", str(calm)).out
    assert text.startswith(f"{acting}:\n20 days of 6 nodes")
    assert f"\n\n{calm}:\n20 days of 6 nodes" in text
    more = sum(both[1]["downtime"].values()) - sum(both[0]["downtime"].values())
    assert more > 0.1
    assert text.endswith(
        f"\n\n{calm} instead of {acting}: instances were down for {more:.1f} h more\n"
    )


def test_a_cluster_from_a_file(front: Front) -> None:
    file = CAPTURES / "allocate-drbd.in.json"
    done = front("simulate", "--act", "--days", "5", "--file", str(file), "--ailments", "50")
    assert done.status == 0
    assert "5 days of " in done.out
    both = front("simulate", "--file", str(file), "--nodes", "3")
    assert both.status == 1
    assert "another one is named, too" in both.err


def test_no_measured_load_is_queried(front: Front) -> None:
    front.configure("[maintd]\nroutine = ['rebalance']\n[rebalance]\nload-data = 'mond'\n")
    done = front("simulate", "--act", "--days", "1", "--nodes", "3", "--instances", "2")
    assert done.status == 0
    assert done.err == (
        "Note: simulated nodes have no measured CPU load, so [rebalance] ignores it\n"
    )


def test_a_live_cluster(front: Front, tmp_path: Path) -> None:
    message = clusters.generate("--nodes=5", "--groups=1", "--mix=drbd=3,plain=1", "--seed=5")
    stand_in = StandIn(message)
    with serving(tmp_path, stand_in):
        socket = str(tmp_path / "luxi.sock")
        done = front("simulate", "--act", "--days", "5", "--luxi-socket", socket, "--deaths", "50")
    assert (done.status, done.err) == (
        0,
        f"Note: the simulation starts with the cluster of luxid at {socket}\n",
    )
    up = sum(one["admin_state"] == "up" for one in message["instances"].values())
    assert f"5 days of 5 nodes and {up} instances" in done.out
    # Free space is read by a job that changes nothing.
    submitted = [job[0]["OP_ID"] for jobs in stand_in.submissions for job in jobs]
    assert set(submitted) <= {"OP_NODE_QUERY_STORAGE"}


def test_luxid_is_the_default_where_it_runs(
    front: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = clusters.generate("--nodes=5", "--groups=1", "--mix=drbd=3,plain=1", "--seed=5")
    with serving(tmp_path, StandIn(message)):
        for module in (simulate, sources):
            monkeypatch.setattr(module, "SOCKET", str(tmp_path / "luxi.sock"))
        live = front("simulate", "--act", "--days", "1")
        made = front("simulate", "--act", "--days", "1", "--nodes", "6")
    assert live.out.startswith("1 days of 5 nodes and "), live.err
    assert made.out.startswith("1 days of 6 nodes and 60 instances"), made.err


def test_a_made_cluster_where_no_luxid_runs(
    front: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulate, "SOCKET", str(tmp_path / "no-socket"))
    done = front("simulate", "--act", "--days", "1")
    assert done.out.startswith("1 days of 20 nodes and 200 instances"), done.err


@pytest.mark.parametrize(
    ("arguments", "faults"),
    [
        (("--days", "0", "--repaired", "2"), ("--days 0: more than 0", "--repaired 2: a share")),
        (("--oob-fails", "1.5"), ("--oob-fails 1.5: a share",)),
        (("--cut-off-hours", "0"), ("--cut-off-hours 0: more than 0",)),
        (("--storms", "-1"), ("--storms -1: 0 or more",)),
        (("--days", "inf"), ("--days inf: more than 0",)),
        (("--ailments", "nan"), ("--ailments nan: 0 or more",)),
        (("--nodes", "1"), ("a made cluster has at least 2 nodes",)),
        (("--nodes", "4", "--instances", "-3"), ("--instances -3",)),
        (("--days", "1", "--plot", os.curdir), (f"{os.curdir}: ",)),
        (("--config", "/nonexistent/x"), ("the file does not exist",)),
    ],
)
def test_what_cannot_be_simulated(
    front: Front, arguments: tuple[str, ...], faults: tuple[str, ...]
) -> None:
    done = front("simulate", *arguments)
    assert done.status == 1
    for fault in faults:
        assert fault in done.err
