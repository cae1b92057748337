"""The demo: it plays its story to the end, and leaves nothing behind."""

from __future__ import annotations

import re
import socket
import urllib.request
from pathlib import Path
from typing import Final

import pytest
from playing import below, playing, read_until, wait_for_the_end
from thorough import often

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.model.job_state import SUCCESS
from ganeti_steward.plugins.maintenance.daemon.luxi_queue import read_world
from ganeti_steward.plugins.model.operations import set_role
from ganeti_steward.plugins.simulation.demo.files import made_cluster
from ganeti_steward.plugins.simulation.demo.luxid import DemoLuxid
from ganeti_steward.plugins.simulation.luxid import served

PAGE: Final = Path(__file__).parents[4] / "docs" / "tutorial" / "demo.md"
SHOWN: Final = re.findall(r"^```\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(often(1, 2)))
def test_the_stories_of_the_page(place: Path, number: int) -> None:
    """Also the status page answers meanwhile."""
    shown, options = SHOWN[number], ((), ("--roll",))[number]
    lines = shown.splitlines()
    assert len(lines) > 10
    with playing(place, *options) as process:
        address = read_until(process, lines[2]).split()[-1]
        started = below(process)
        with urllib.request.urlopen(address, timeout=300) as answer:
            page = answer.read().decode()
        story, errors = process.communicate(timeout=600)
    assert (process.returncode, errors) == (0, "")
    assert "node0003" in page
    # A job may be seen before the daemon has recorded why it was submitted.
    for of_jobs in (True, False):
        some = [line for line in lines[3:] if line.startswith("job ") == of_jobs]
        places = [story.find(line) for line in some]
        assert -1 not in places, (story, some[places.index(-1)])
        assert places == sorted(places)
    assert options or "the cluster score is" in story
    assert len(started) >= 5
    wait_for_the_end(started)
    assert list(place.iterdir()) == []


def test_a_taken_port(place: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with playing(place, "--port", str(port)) as process:
            story, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    assert errors == (
        f"gnt-steward demo: cannot listen at 127.0.0.1 port {port}: Address already in use\n"
    )
    assert story == ""
    assert list(place.iterdir()) == []


def test_a_speed_that_cannot_be(place: Path) -> None:
    with playing(place, "--speed", "0") as process:
        errors = process.communicate(timeout=300)[1]
    assert process.returncode == 1
    assert "--speed 0: a number from 0.1 to 20 is expected" in errors


def test_luxid_reports_the_simulated_cluster(place: Path) -> None:
    now = [10**18]
    luxid = DemoLuxid(made_cluster(4), 1, lambda: now[0])
    path = str(place / "luxid")
    with served(path, luxid.answer):
        client = Luxi(path)
        world = read_world(client, 0)
        assert world.cluster.nodes == luxid.cluster.cluster.nodes
        assert world.cluster.instances == luxid.cluster.cluster.instances
        assert world.cluster.groups == luxid.cluster.cluster.groups
        (done,) = client.submit([[set_role("node0001", "offline")]], "a test")
        (number,) = done.numbers
        assert not luxid.state(number).ended
        now[0] += 60 * 10**9
        assert client.states([number])[0].status == SUCCESS
        after = read_world(client, 0)
        (node,) = [one for one in after.nodes.values() if one.name == "node0001"]
        assert node.offline
        assert after.cluster.nodes == luxid.cluster.cluster.nodes
        with pytest.raises(StewardError, match="Unknown method WaitForJobChange"):
            client.call("WaitForJobChange")
