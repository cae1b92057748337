"""Which node this machine is, from Ganeti's own files."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

import pytest

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.this_node import ThisNode, own_address, this_node

UUID: Final = "ce55f3c9-6d68-4ff5-92f7-a67577ccec32"

#: A file as Ganeti writes it, key first; the certificate is any bytes, only its digest counts.
PEM: Final = """\
-----BEGIN PRIVATE KEY-----
bm8ga2V5
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
bm8gY2Vy
dGlmaWNhdGU=
-----END CERTIFICATE-----
"""
#: What sha1sum says to "no certificate", in Ganeti's form.
DIGEST: Final = "2A:6A:50:1E:58:58:4D:09:E5:23:B2:25:09:AB:A9:D9:18:56:1D:9D"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Ganeti's data directory on a master candidate."""
    (tmp_path / "ssconf_node_list").write_text("node1.lab\nnode2.lab\nnode10.lab\n")
    (tmp_path / "ssconf_node_primary_ips").write_text(
        "node1.lab 10.77.0.11\nnode2.lab 10.77.0.12\nnode10.lab fd00::10\n"
    )
    (tmp_path / "ssconf_master_candidates_certs").write_text(
        f"87cf495c-6da9-4a74-87fd-9bdd292c4956=2E:01\n{UUID}={DIGEST}\n"
    )
    (tmp_path / "client.pem").write_text(PEM)
    return tmp_path


def test_a_master_candidate(data: Path) -> None:
    node = this_node(str(data), "node1.lab")
    assert node == ThisNode("node1.lab", UUID, "10.77.0.11")
    assert node.identity == UUID
    assert own_address(node) == "10.77.0.11"


def test_a_name_without_domain(data: Path) -> None:
    assert this_node(str(data), "node10").name == "node10.lab"
    assert this_node(str(data), "node1").name == "node1.lab"


@pytest.mark.parametrize("gone", ["ssconf_master_candidates_certs", "client.pem"])
def test_another_node_goes_by_its_name(data: Path, gone: str) -> None:
    (data / gone).unlink()
    node = this_node(str(data), "node2.lab")
    assert node == ThisNode("node2.lab", "", "10.77.0.12")
    assert node.identity == "node2.lab"


@pytest.mark.parametrize(
    "content", ["", "x", PEM.replace("bm8g", "bm8"), PEM.replace("bm8g", "bm9g")]
)
def test_another_certificate(data: Path, content: str) -> None:
    (data / "client.pem").write_text(content)
    assert this_node(str(data), "node1.lab").uuid == ""


def test_by_which_names_it_is_called() -> None:
    node = ThisNode("node1.lab", UUID)
    assert node.is_called(UUID)
    assert node.is_called("node1.lab")
    assert not any(map(node.is_called, ("", "node1", "node2.lab", UUID.upper())))
    assert not ThisNode("node1.lab").is_called("")


def test_no_node_of_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getfqdn", lambda name: f"{name}.example")
    node = this_node(str(tmp_path), "lonely")
    assert node == ThisNode("lonely.example")


@pytest.mark.parametrize("last", ["node2.lab", "node2.lab ", "node2.lab\t"])
def test_a_file_that_was_cut(data: Path, last: str) -> None:
    (data / "ssconf_node_primary_ips").write_text(f"node1.lab 10.77.0.11\n{last}")
    assert this_node(str(data), "node1").address == "10.77.0.11"
    assert this_node(str(data), "node2") == ThisNode("node2.lab", UUID, "")


@pytest.mark.parametrize("host", ["x" * 64, "two..dots"])
def test_a_name_that_is_none_in_the_dns(tmp_path: Path, host: str) -> None:
    node = this_node(str(tmp_path), host)
    assert node == ThisNode(host)
    with pytest.raises(StewardError, match="the address of this node is unknown"):
        own_address(node)


def resolving(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Let every name lead to these addresses."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 0)) for one in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)


def test_the_address_a_name_leads_to(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, "127.0.1.1", "::1", "fe80::1%eth0", "192.0.2.7", "192.0.2.8")
    assert own_address(ThisNode("lonely")) == "192.0.2.7"


@pytest.mark.parametrize("addresses", [(), ("127.0.1.1",), ("0.0.0.0", "::", "fe80::1%eth0")])
def test_no_address(monkeypatch: pytest.MonkeyPatch, addresses: tuple[str, ...]) -> None:
    resolving(monkeypatch, *addresses)
    with pytest.raises(StewardError, match="the address of this node is unknown"):
        own_address(ThisNode("lonely"))
