"""``gnt-steward maintd``: its sub-commands, replay and the drawing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from recorded import Recorded
from worlds import NOW, SECOND, incident, instance, node, uuid_of, world

from ganeti_steward.core.errors import StewardError
from ganeti_steward.plugins.maintenance.cli.maintd import silent_lines
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.recording import MomentLines
from ganeti_steward.plugins.maintenance.edges.poll import Poll
from ganeti_steward.plugins.maintenance.edges.served_status import status_lines
from ganeti_steward.plugins.maintenance.edges.status import Status
from ganeti_steward.plugins.maintenance.engine.decision import Inputs
from ganeti_steward.plugins.maintenance.engine.transitions import mermaid
from ganeti_steward.plugins.maintenance.page.http import StatusApplication, StatusServer
from ganeti_steward.plugins.model.incident import Incident, Submission
from ganeti_steward.plugins.model.progress import Emptied
from ganeti_steward.plugins.model.task import Held
from ganeti_steward.plugins.model.world import Reported, Silent

if TYPE_CHECKING:
    from front import Front


def test_the_diagram(front: Front) -> None:
    assert front("maintd", "--diagram").out == mermaid()


@pytest.mark.parametrize("option", ["--no-voting", "--yes-do-it"])
def test_both_options_or_none(front: Front, option: str) -> None:
    done = front("maintd", option)
    assert done.status == 1
    assert "only possible together" in done.err


# Replay


def recorded(path: Path, *moments: tuple[Inputs, Maintd]) -> str:
    lines = MomentLines()
    (path / "record").write_bytes(b"".join(lines.line(*one) for one in moments))
    return str(path / "record")


def seen(now: int, incidents: tuple[Incident, ...] = (), **more: Any) -> Inputs:
    """A node that reports a fault, with one instance that can go elsewhere."""
    original = b'{"disk":"sda","status":"evacuate"}'
    return Inputs(
        world(
            [node("n1", master=True), node("n2"), node("n3"), node("n4")],
            [instance("i1", "n2", "n3")],
            incidents,
            {"n2": Reported(original, "evacuate", "", now)},
            now=now,
        ),
        **more,
    )


def test_replay_prints_decisions_with_reasons(front: Front, tmp_path: Path) -> None:
    later = NOW + 400 * SECOND
    file = recorded(tmp_path, (seen(NOW), Maintd()), (seen(later), Maintd(mode="act")))
    lines = [json.loads(line) for line in Path(file).read_text().splitlines()]
    del lines[1]["world"]["incidents"]
    Path(file).write_text("\n".join(map(json.dumps, lines)))
    done = front("maintd", "--replay", file)
    assert (done.status, done.err) == (0, "")
    first, second = done.out.split("moment 2: ")
    assert first.startswith("moment 1: 2026-01-07 ")
    assert "  new -> noted " in first
    assert "of n2: node n2 reports evacuate\n" in first
    assert "held (hold) " in first
    assert "held (observe) " in first
    assert "mode act\n  noted -> pending " in second
    assert "  start drain " in second
    assert "    job OP_NODE_SET_PARAMS\n    uses n2\n" in second


def test_replay_of_a_quiet_moment(front: Front, tmp_path: Path) -> None:
    quiet = Inputs(world([node("n1")]))
    file = recorded(tmp_path, (quiet, Maintd()))
    assert front("maintd", "--replay", file).out.endswith("mode observe\n  nothing is done\n")


def test_replay_names_a_broken_line(front: Front, tmp_path: Path) -> None:
    file = tmp_path / "broken"
    file.write_text("{}\n")
    done = front("maintd", "--replay", str(file))
    assert done.status == 1
    assert done.err == ("gnt-steward maintd: line 1: an object with the object world is expected\n")
    assert "No such file" in front("maintd", "--replay", str(tmp_path / "none")).err


# Status


@pytest.fixture
def server() -> Iterator[StatusServer]:
    server = StatusServer(StatusApplication(Status(NOW), lambda: 60, lambda: NOW), "127.0.0.1", 0)
    server.start()
    yield server
    server.stop()


def test_status(front: Front, server: StatusServer) -> None:
    psu = (
        b'{"details":[{"details":"psu 2 failed","source":"command:psu","status":"evacuate"}],'
        b'"status":"evacuate"}'
    )
    one = incident("n2", note="drained")._replace(original=psu)
    move = Submission("s", "move", ("n2", "n3"), ("inst16",), NOW, jobs=(7,))
    moving = incident("n2", number=2, status="pending", open=(move,), note="move 1 of 3")
    observed = {
        uuid_of("n1"): Reported(b"{}", "Ok", "", NOW),
        uuid_of("n2"): Reported(psu, "evacuate", "", NOW),
        uuid_of("n3"): Silent(NOW, "no answer"),
    }
    server.publish(
        Status(
            NOW,
            mode="act",
            pause="new disks",
            incidents=(one, moving),
            emptied={moving.uuid: Emptied(3, 6)},
            held=(
                Held(
                    "cluster",
                    "pause",
                    "maintenance is paused: new disks",
                    since=NOW,
                    until=NOW + 60 * 10**9,
                ),
            ),
            nodes={uuid_of(name): name for name in ("n1", "n2", "n3")},
            poll=Poll(observed, polls=3, ended=NOW, seconds=0.5),
            rounds=2,
            round_ended=NOW,
            round_seconds=1.25,
            round_fault="luxid is not running",
        )
    )
    done = front("maintd", "status", "--bind", "127.0.0.1", "--port", str(server.port))
    assert done.status == 0
    for part in (
        "mode:       act\n",
        "paused:     new disks\n",
        ", took 1.2 s, failed: luxid is not running\n",
        "nodes:      1 healthy, 1 ill, 1 silent\n",
        "  n2: reports evacuate: command:psu: psu 2 failed\n",
        "  n3: silent since 2026-01-07 ",
        f"  {one.uuid} n2 evacuate noted: command:psu: psu 2 failed; drained\n",
        f"  {moving.uuid} n2 evacuate pending: 3 of 6 moved, moving inst16\n",
        "  (pause) cluster: maintenance is paused: new disks; since 2026-01-07 ",
        " at most; what helps: gnt-steward maintd resume, or gnt-steward maintenance resume\n",
    ):
        assert part in done.out


def test_status_before_the_first_round(front: Front, server: StatusServer) -> None:
    where = ("--bind", "127.0.0.1", "--port", str(server.port))
    text = front("maintd", "status", *where).out
    assert "last round: none yet\n" in text
    assert "incidents:  not read yet\n" in text
    found = json.loads(front("maintd", "status", "--json", *where).out)
    assert found["daemon"]["round"]["number"] == 0
    assert found["incidents"] is None


def test_no_daemon_answers(front: Front) -> None:
    done = front("maintd", "status", "--bind", "127.0.0.1", "--port", "1")
    assert done.status == 1
    assert done.err == (
        "gnt-steward maintd: the maintenance daemon at 127.0.0.1 port 1 does not answer: "
        "Connection refused\n"
    )


def test_no_master_is_known(front: Front) -> None:
    done = front("maintd", "status")
    assert "the master is not known on this machine; name its address (--bind)" in done.err


# Plan


def test_nodes_without_a_report_are_named() -> None:
    """They are not healthy: a plan that does nothing there says nothing of them."""
    observed = {
        uuid_of("n1"): Reported(b"{}", "Ok", "", NOW),
        uuid_of("n2"): Silent(NOW, "refused"),
    }
    nodes = [node("n1"), node("n2"), node("n3"), node("n4", offline=True)]
    before = world(nodes)._replace(observations=observed)
    assert list(silent_lines(before)) == [
        "no report of 2 of 3 online nodes: what is broken there is not seen",
        "  n2: silent, refused",
        "  n3: not polled",
    ]
    seen_all = {uuid_of(f"n{n}"): Reported(b"{}", "Ok", "", NOW) for n in range(1, 4)}
    assert list(silent_lines(before._replace(observations=seen_all))) == []


# Pause and resume


@pytest.mark.parametrize("way", ["luxi", "rapi"])
def test_pause_and_resume(front: Front, tmp_path: Path, way: str) -> None:
    cluster = Recorded()
    cluster.cluster_tags = ["mine"]
    with cluster.reached(tmp_path, way) as options:
        done = front("maintd", "pause", "new  disks", *options)
        assert done.out.startswith("Set maintd:pause:new-disks on the cluster")
        assert cluster.cluster_tags == ["mine", "maintd:pause:new-disks"]
        front("maintd", "pause", "power", *options)
        done = front("maintd", "resume", *options)
        assert done.out == (
            "Removed maintd:pause:new-disks, maintd:pause:power from the cluster.\n"
        )
        assert cluster.cluster_tags == ["mine"]
        assert "Nothing to do" in front("maintd", "resume", *options).out


@pytest.mark.parametrize(
    ("reason", "fault"),
    [
        ("", "cannot be a reason"),
        ("why?", "'why?' cannot be a reason: letters"),
        ("ü", "cannot be a reason"),
        ("x" * 116, "longer than 115 characters"),
    ],
)
def test_no_reason_for_a_pause(front: Front, reason: str, fault: str) -> None:
    done = front("maintd", "pause", reason, "--luxi-socket", "/nowhere")
    assert done.status == 1
    assert fault in done.err


@pytest.mark.parametrize(
    "status", [{}, {"daemon": []}, {"daemon": {"round": 5}}, {"daemon": None, "incidents": 5}]
)
def test_the_status_of_another_program(status: dict[str, Any]) -> None:
    with pytest.raises(StewardError, match="this is not the status of a maintenance daemon"):
        status_lines(status)
