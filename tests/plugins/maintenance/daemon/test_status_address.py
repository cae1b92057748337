"""Where the status is served."""

from __future__ import annotations

from pathlib import Path

import pytest

from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.options import DaemonOptions


def options(path: Path, cluster: str, **more: str) -> DaemonOptions:
    (path / "ssconf_node_list").write_text("node1.lab\nnode2.lab\n")
    (path / "ssconf_node_primary_ips").write_text("node1.lab 192.0.2.11\nnode2.lab 192.0.2.12\n")
    (path / "ssconf_master_ip").write_text(cluster)
    return DaemonOptions(data=str(path), host="node1.lab", **more)


@pytest.mark.parametrize(
    ("cluster", "also"),
    [
        ("192.0.2.1\n", "192.0.2.1"),
        ("2001:db8::1\n", "2001:db8::1"),
        # A cluster may use the master's own address.
        ("192.0.2.11\n", ""),
        ("", ""),
    ],
)
def test_the_addresses_of_master_and_cluster(tmp_path: Path, cluster: str, also: str) -> None:
    """The one of the cluster stays the same when another node becomes the master."""
    found = options(tmp_path, cluster).place(Maintd())
    assert found == ("192.0.2.11", 1816, also)


def test_an_address_that_is_named_is_the_only_one(tmp_path: Path) -> None:
    named = options(tmp_path, "192.0.2.1\n", address="127.0.0.1")
    assert named.place(Maintd()) == ("127.0.0.1", 1816, "")
    configured = options(tmp_path, "192.0.2.1\n")
    assert configured.place(Maintd(address="127.0.0.2", port=7)) == ("127.0.0.2", 7, "")


def test_the_names_it_may_be_called_by(tmp_path: Path) -> None:
    (tmp_path / "ssconf_cluster_name").write_text("cluster.lab\n")
    assert options(tmp_path, "192.0.2.1\n").names() == {
        *("node1.lab", "node1", "cluster.lab", "cluster", "192.0.2.11", "192.0.2.1"),
    }


def test_a_node_without_the_files_of_ganeti(tmp_path: Path) -> None:
    alone = DaemonOptions(data=str(tmp_path), host="node1.lab", address="127.0.0.1")
    assert alone.place(Maintd()) == ("127.0.0.1", 1816, "")
