"""Kept requests: of which cluster, which number, what they were about, and who may see them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from front import capture
from paths import CAPTURES

from ganeti_steward.allocators import kept_requests as commands
from ganeti_steward.core.config.values import History
from ganeti_steward.core.ganeti.this_node import cluster_name
from ganeti_steward.core.iallocator import history
from ganeti_steward.core.iallocator.history import About, Call, about

if TYPE_CHECKING:
    from front import Front

DRBD = str(CAPTURES / "allocate-drbd.in.json")
BATCH = str(CAPTURES / "multi-allocate-refused.in.json")


@pytest.fixture
def logged(front: Front) -> Front:
    """A site with a history and a log."""
    front.write_configuration(
        f"""
        [history]
        keep = 3
        directory = "{front.history}"
        [log]
        file = "{front.path}/steward.log"
        """
    )
    return front


def log(front: Front) -> list[str]:
    """The log, emptied."""
    file = front.path / "steward.log"
    lines = file.read_text().splitlines()
    file.unlink()
    return lines


def listed(front: Front) -> list[list[str]]:
    """Number, type, instances and answer of each."""
    out = front("replay", "--list", "--no-headers", "--separator=|").out
    rows = [line.split("|") for line in out.splitlines()]
    return [[row[0], *row[2:5]] for row in rows]


def test_the_last_request_of_an_instance(logged: Front) -> None:
    for file in (DRBD, BATCH, DRBD, BATCH):
        logged.allocate(file)
    ((_, _, instance, _), *_) = [row for row in listed(logged) if row[1] == "allocate"]
    found = logged("explain", "--last", instance)
    assert f"Kept request: allocate {instance}, " in found.out
    assert logged("explain", "--last", instance.split(".")[0]).out == found.out
    assert logged("explain", "--last", "inst").status == 1


def test_the_log_names_type_and_instance(logged: Front) -> None:
    logged.allocate(DRBD)
    (line,) = log(logged)
    assert " INFO request type=allocate instance=new1.lab status=0 ms=" in line
    message = capture("allocate-drbd")
    del message["request"]["memory"]
    assert logged.allocate(logged.message(message)).status == 1
    (line,) = log(logged)
    assert " INFO request type=allocate instance=new1.lab status=1 ms=" in line
    assert logged.allocate("/nowhere").status == 1
    (line,) = log(logged)
    assert " INFO request type=- instance=- status=1 ms=" in line


def test_a_batch_that_fits_in_part(logged: Front) -> None:
    """All or nothing, unless the cluster or the configuration allows a part; always a warning."""
    refused = logged.allocate(BATCH)
    assert json.loads(refused.out)["success"] is False
    warning, line = log(logged)
    what = "type=multi-allocate instance=m3.lab,m4.lab"
    assert f" WARNING {what} instances without a place: 1 (success=False)" in warning
    assert f" INFO request {what} status=0 " in line
    partial = logged.allocate(BATCH, "--partial-batches")
    assert json.loads(partial.out)["result"] == [[["m3.lab", ["node6.lab"]]], ["m4.lab"]]
    warning, _ = log(logged)
    assert f" WARNING {what} instances without a place: 1 (success=True)" in warning
    with logged.config_file.open("a") as file:
        file.write("[allocators]\npartial-batches = true\n")
    assert logged.allocate(BATCH).out == partial.out
    assert " WARNING " in log(logged)[0]
    assert listed(logged) == [
        ["3", "multi-allocate", "m3.lab,m4.lab", "failure (1 left out)"],
        ["2", "multi-allocate", "m3.lab,m4.lab", "partial (1 left out)"],
        ["1", "multi-allocate", "m3.lab,m4.lab", "partial (1 left out)"],
    ]
    assert logged.allocate(BATCH, "--partial-batches=no").out == refused.out
    assert "option --partial-batches: 'yes' or 'no' is expected, found 'few'" in (
        logged.allocate(BATCH, "--partial-batches=few").err
    )


def test_an_evacuation_that_leaves_some(logged: Front) -> None:
    """Ganeti moves none of the instances then."""
    logged.allocate(str(CAPTURES / "change-group-file-refused.in.json"))
    assert [row[1:] for row in listed(logged)] == [
        ["change-group", "inst2.lab", "none moved (1 left out)"]
    ]


def test_each_cluster_has_its_own(logged: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last request is that of this cluster, and the others do not push it out."""
    message, other = capture("allocate-drbd"), capture("allocate-ext")
    message["cluster_name"], other["cluster_name"] = "here.lab", "there.lab"
    first = logged.allocate(logged.message(message)).out
    for _ in range(4):
        logged.allocate(logged.message(other))
    monkeypatch.setattr(commands, "cluster_name", lambda: "here.lab")
    assert [row[0] for row in listed(logged)] == ["1", "-", "-", "-"]
    assert logged("replay").out == first
    assert logged("replay", "2").err.endswith(": there is no request 2, 1 are kept\n")
    monkeypatch.setattr(commands, "cluster_name", lambda: "new.lab")
    assert logged("explain", "--last").err == (
        f"gnt-steward explain: history {logged.history}: no request of new.lab is kept there, "
        "only of here.lab, there.lab\n"
    )
    # By name everything can be had, and without a cluster everything is numbered.
    name = history.names(History(directory=str(logged.history)))[0]
    assert name.endswith("-here.lab")
    assert logged("replay", name).out == first
    monkeypatch.setattr(commands, "cluster_name", lambda: "")
    assert [row[0] for row in listed(logged)] == ["4", "3", "2", "1"]


def test_the_name_of_this_cluster(tmp_path: Path) -> None:
    assert cluster_name(str(tmp_path)) == ""
    (tmp_path / "ssconf_cluster_name").write_text("cluster.lab\n")
    assert cluster_name(str(tmp_path)) == "cluster.lab"


@pytest.mark.parametrize("cluster", ["", "..", "../x", "a/b", "a b", "x" * 300, "-x", "a\n"])
def test_a_name_that_cannot_be_used(tmp_path: Path, cluster: str) -> None:
    """It comes from a message, and the name of a directory is made of it."""
    config = History(keep=3, directory=str(tmp_path / "history"))
    history.record(config, Call(5, 7, (), 0), b"{}", b"{}", cluster)
    assert os.listdir(config.directory) == [f"{5:020d}-7"]
    assert history.cluster_of(f"{5:020d}-7") == ""


def test_entries_of_an_older_version(logged: Front) -> None:
    """What they were about is in the request itself."""
    logged.allocate(DRBD)
    (name,) = history.names(History(directory=str(logged.history)))
    file = logged.history / name / history.CALL
    call = json.loads(file.read_text())
    known = {key: call[key] for key in ("started", "pid", "arguments", "status")}
    file.write_text(json.dumps(known))
    (logged.history / name).rename(logged.history / re.sub("-[^-]*lab$", "", name))
    assert listed(logged) == [["1", "allocate", "new1.lab", "success"]]
    assert logged("explain", "--last").out.startswith("Kept request: allocate new1.lab, ")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("command", [("explain", "--last"), ("replay",), ("replay", "--list")])
def test_without_permission(
    front: Front, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """Not that no request is kept."""
    with TemporaryDirectory() as place:
        config, kept = Path(place, "steward.toml"), Path(place, "kept", "history")
        kept.mkdir(parents=True)
        kept.parent.chmod(0o700)
        Path(place).chmod(0o755)
        config.write_text(f'[history]\ndirectory = "{kept}"\n[log]\nfile = ""\n')
        monkeypatch.setenv("GNT_STEWARD_CONFIG", str(config))
        # What it imports may lie where no other user can read.
        before = front(*command)
        assert "permission" not in before.err
        os.seteuid(65534)
        try:
            done = front(*command)
        finally:
            os.seteuid(0)
    assert (done.status, done.out) == (1, "")
    assert done.err == (
        f"gnt-steward {command[0]}: history {kept}: permission denied (only root can read it)\n"
    )


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"type": "relocate", "name": "a"}, About("relocate", "a")),
        ({"type": "x y", "name": "a\nb"}, About("'x_y'", r"'a\nb'")),
        ({"type": 5, "name": None}, About("", "")),
        ({"type": "change-group", "instances": ["a", "b"]}, About("change-group", "a,b")),
        ({"instances": [{"name": "a"}, {}, 5]}, About("", "a,?,?")),
        ({"instances": list("abcdefgh")}, About("", "a,b,c,d,e,+3")),
        ({"instances": []}, About("", "")),
        (7, About()),
        (None, About()),
    ],
)
def test_whatever_was_sent(request_: object, expected: About) -> None:
    assert about({"request": request_}) == expected
    named = about({"request": request_, "cluster_name": "c"})
    assert named == expected._replace(cluster="c")
