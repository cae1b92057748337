"""Where a command takes its cluster from."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import clusters
import pytest
from daemons import luxid, rapi
from live import Ganeti

from ganeti_steward.allocators.text_output import htools_text
from ganeti_steward.core.commands.cluster_options import add_source_options, read_source
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti import sources, this_node
from ganeti_steward.core.ganeti.sources import Source
from ganeti_steward.core.model.cluster_reader import read_cluster


def source(*arguments: str, template: str | None = None) -> Source:
    parser = argparse.ArgumentParser()
    add_source_options(parser)
    return read_source(parser.parse_args(arguments), template)


def sent() -> dict[str, Any]:
    return clusters.generate("--nodes=4", "--groups=1", "--mix=drbd=1", "--seed=1")


@pytest.fixture
def message(tmp_path: Path) -> Path:
    file = tmp_path / "message.json"
    file.write_text(json.dumps(sent()))
    return file


@pytest.fixture(autouse=True)
def _no_luxid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever runs on this machine."""
    monkeypatch.setattr(sources, "SOCKET", "/nosuch/socket")
    monkeypatch.delenv("GNT_STEWARD_RAPI_USER", raising=False)
    monkeypatch.delenv("GNT_STEWARD_RAPI_PASSWORD", raising=False)


@pytest.mark.parametrize("option", [(), ("--file",), ("-I",)])
def test_a_message(message: Path, option: tuple[str, ...]) -> None:
    found = source(*option, str(message))
    assert found.cluster.nodes == read_cluster(sent()).nodes
    assert found.where == f"the file {message}"
    assert found.jobs is None
    assert found.backend["maxmem"] == 128


def test_the_request_does_not_matter(message: Path) -> None:
    for request in ({"type": "odd"}, None):
        message.write_text(json.dumps(sent() | {"request": request}))
        assert len(source(str(message)).cluster.nodes) == 4


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(sent()).encode())))
    found = source("-")
    assert (len(found.cluster.nodes), found.where) == (4, "standard input")


def test_text_format(tmp_path: Path) -> None:
    file = tmp_path / "cluster.data"
    file.write_text(htools_text(read_cluster(sent())))
    found = source("--text-data", str(file))
    assert found.cluster.nodes == read_cluster(sent()).nodes
    assert found.where == f"the file {file}"


def test_luxid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with luxid(tmp_path, Ganeti(sent()).luxi) as daemon:
        found = source("--luxi-socket", daemon.path)
        monkeypatch.setattr(sources, "SOCKET", daemon.path)
        assert source("-L").cluster.nodes == source().cluster.nodes == found.cluster.nodes
    assert found.cluster.nodes == read_cluster(sent()).nodes
    assert found.where == f"luxid at {daemon.path}"
    assert found.jobs is not None
    assert found.jobs.where == found.where
    assert found.backend["maxmem"] == 640


def test_rapi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "credentials"
    file.write_text("lab secret")
    file.chmod(0o600)
    with rapi(Ganeti(sent()).rapi) as daemon:
        found = source("-m", daemon.host, "--rapi-insecure", "--rapi-credentials", str(file))
        basic = {one.authorization for one in daemon.requests}
        assert len(basic) == 1
        monkeypatch.setenv("GNT_STEWARD_RAPI_USER", "lab")
        monkeypatch.setenv("GNT_STEWARD_RAPI_PASSWORD", "secret")
        source("--rapi", daemon.host, "--rapi-insecure")
    assert {one.authorization for one in daemon.requests} == basic != {None}
    assert found.cluster.nodes == read_cluster(sent()).nodes
    assert found.where == f"RAPI at {daemon.host}"
    assert found.jobs is not None


def test_silent_nodes_are_reported(tmp_path: Path) -> None:
    ganeti = Ganeti(sent())
    ganeti.nodes[1]["mfree"] = None
    name = ganeti.nodes[1]["name"]
    with luxid(tmp_path, ganeti.luxi) as daemon:
        notes = source("--luxi-socket", daemon.path).notes
    assert notes == (f"{name} does not report its free memory and is treated as unusable",)
    ganeti.nodes[1] |= dict.fromkeys(("mtotal", "mnode", "ctotal", "cnos", "dtotal", "dfree"))
    ganeti.nodes[2]["dfree"] = None
    with luxid(tmp_path, ganeti.luxi) as daemon:
        notes = source("--luxi-socket", daemon.path).notes
    assert notes == (
        f"{name} does not report its figures and is treated as unusable",
        f"{ganeti.nodes[2]['name']} does not report its total disk, free disk and takes no drbd "
        "and plain instances",
    )


def test_disk_figures_for_a_template(tmp_path: Path) -> None:
    with luxid(tmp_path, Ganeti(sent(), ("drbd", "file")).luxi) as daemon:
        found = source("--luxi-socket", daemon.path, template="file")
    assert found.cluster.nodes[0].total_disk == 7000


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ((), "no cluster is named, and there is no luxid here (/nosuch/socket)"),
        (("-L",), "there is no socket /nosuch/socket: luxid runs on the master only"),
        (("-L", "-m", "x"), "one cluster at a time: --luxi and --rapi were given"),
        (
            ("--text-data", "x", "y"),
            "one cluster at a time: --text-data and an iallocator message",
        ),
        (("--file", "x", "y"), "two messages are named, x and y"),
        (("/nosuch/file",), "/nosuch/file: No such file or directory"),
        (("--text-data", "/nosuch/file"), "/nosuch/file: No such file or directory"),
        (("-m", "x", "--rapi-ca", "y", "--rapi-insecure"), "exclude each other"),
        (("-m", "x:y"), "no RAPI daemon: HOST or HOST:PORT is expected, found 'x:y'"),
    ],
)
def test_faults(arguments: tuple[str, ...], fault: str) -> None:
    with pytest.raises(StewardError) as caught:
        source(*arguments)
    assert fault in str(caught.value)


@pytest.mark.parametrize("option", [(), ("-L",)])
@pytest.mark.parametrize(
    ("host", "fault"),
    [
        (
            "n1.lab",
            "luxid is stopped: there is no socket /nosuch/socket on this node, which is the "
            "master; start ganeti-luxid",
        ),
        (
            "n2.lab",
            "luxid runs on the master only, which is n1.lab: run the command there, or name its "
            "RAPI daemon (--rapi n1.lab) or a file (see --help)",
        ),
    ],
)
def test_luxid_is_stopped_or_elsewhere(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    fault: str,
    option: tuple[str, ...],
) -> None:
    """Not "no cluster is named": Ganeti's files on the node name the master."""
    (tmp_path / "ssconf_master_node").write_text("n1.lab\n")
    (tmp_path / "ssconf_node_list").write_text("n1.lab\nn2.lab\n")
    data, node, master = str(tmp_path), this_node.this_node, this_node.master_name
    monkeypatch.setattr(this_node, "this_node", lambda: node(data, host))
    monkeypatch.setattr(this_node, "master_name", lambda: master(data))
    with pytest.raises(StewardError) as caught:
        source(*option)
    assert str(caught.value) == fault


def test_nothing_listens(tmp_path: Path) -> None:
    """What a luxid that was killed leaves behind."""
    with luxid(tmp_path, lambda method, arguments: None) as daemon:
        Path(daemon.path).rename(tmp_path / "left")
        (tmp_path / "luxid.socket").touch()
    with pytest.raises(StewardError) as caught:
        source("--luxi-socket", str(tmp_path / "left"))
    text = f"luxid is stopped: nothing listens at {tmp_path}/left; start ganeti-luxid"
    assert str(caught.value) == text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("named", [False, True])
def test_permission_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool) -> None:
    """Also where the socket's directory is closed, so that it cannot be seen."""
    with luxid(tmp_path, Ganeti(sent()).luxi) as daemon:
        monkeypatch.setattr(sources, "SOCKET", daemon.path)
        tmp_path.chmod(0o700)
        assert source().cluster.nodes
        os.seteuid(65534)
        try:
            with pytest.raises(StewardError) as caught:
                source(*(["--luxi-socket", daemon.path] if named else []))
        finally:
            os.seteuid(0)
    assert str(caught.value) == (
        f"{daemon.path}: permission denied; root and Ganeti's daemons may call luxid"
    )


def test_faults_of_files_name_them(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("[]")
    with pytest.raises(StewardError, match=f"^the file {file}: the message: an object is expected"):
        source(str(file))
    with pytest.raises(StewardError, match=f"^the file {file}: no cluster in htools' text format"):
        source("--text-data", str(file))
    file.write_bytes(b"\xff|u1|preferred|\n\n\n\n\n")
    with pytest.raises(StewardError, match=f"^the file {file}: byte 0 is not UTF-8"):
        source("--text-data", str(file))
