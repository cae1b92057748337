"""How a demo ends before, or after, its story: no process is left."""

from __future__ import annotations

import os
import signal
import urllib.request
from pathlib import Path

import pytest
from playing import below, playing, read_until, wait_for_the_end

pytestmark = pytest.mark.thorough

END = "is empty and offline"
BUSY = "job 3: "


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_the_middle(place: Path, number: signal.Signals) -> None:
    with playing(place) as process:
        read_until(process, BUSY)
        started = below(process)
        process.send_signal(number)
        errors = process.communicate(timeout=300)[1]
    assert process.returncode == 1
    assert errors == "interrupted; everything is ended and removed\n"
    assert len(started) >= 5
    wait_for_the_end(started)
    assert list(place.iterdir()) == []


def test_a_signal_at_the_start(place: Path) -> None:
    with playing(place) as process:
        read_until(process, "starting the agents")
        process.send_signal(signal.SIGTERM)
        errors = process.communicate(timeout=300)[1]
    assert (process.returncode, errors) == (1, "interrupted; everything is ended and removed\n")
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("part", ["starting the agents", "the status page", BUSY])
def test_no_process_survives_a_kill(place: Path, part: str) -> None:
    with playing(place) as process:
        read_until(process, part)
        started = below(process)
        process.kill()
        process.communicate(timeout=300)
    wait_for_the_end(started)
    assert len(list(place.iterdir())) == 1


def test_the_page_is_kept(place: Path) -> None:
    with playing(place, "--keep") as process:
        address = read_until(process, "the status page").split()[-1]
        read_until(process, "stay until Ctrl-C")
        started = below(process)
        with urllib.request.urlopen(address, timeout=300) as answer:
            assert "repairready" in answer.read().decode()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)
    assert process.returncode == 0
    wait_for_the_end(started)
    assert list(place.iterdir()) == []


def test_two_side_by_side(place: Path) -> None:
    with playing(place) as one, playing(place) as other:
        for process in (one, other):
            story, errors = process.communicate(timeout=900)
            assert (process.returncode, errors) == (0, "")
            assert END in story
    assert list(place.iterdir()) == []


def test_a_dead_agent_ends_it(place: Path) -> None:
    with playing(place) as process:
        read_until(process, "the status page")
        started = below(process)
        agent = next(one for one in started if "node0002" in one.cmdline())
        agent.kill()
        errors = process.communicate(timeout=300)[1]
    assert process.returncode == 1
    assert errors == "gnt-steward demo: an agent has ended: status -9\n"
    wait_for_the_end(started)
    assert list(place.iterdir()) == []


def test_any_user_may_play_it(place: Path) -> None:
    if os.geteuid():
        pytest.skip("the other tests are run by such a user")
    user = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    with playing(place, prefix=user) as process:
        story, errors = process.communicate(timeout=600)
    assert (process.returncode, errors) == (0, "")
    assert END in story
