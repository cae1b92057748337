"""To which nodes DRBD of this node is connected, by the kernel's own table."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ganeti_steward.diagnose.run.report import drbd_peers


@contextmanager
def connected(family: socket.AddressFamily, address: str, port: int) -> Iterator[None]:
    """A connection to a port of DRBD."""
    with ExitStack() as held:
        server = held.enter_context(socket.socket(family))
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((address, port))
        server.listen()
        held.enter_context(socket.create_connection((address, server.getsockname()[1])))
        held.enter_context(server.accept()[0])
        yield


def free_port(family: socket.AddressFamily, address: str) -> int:
    """A port of DRBD's range that is not used."""
    for port in range(11000, 15000):
        with socket.socket(family) as one:
            if one.connect_ex((address, port)):
                return port
    raise AssertionError("every port of DRBD is in use")


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "127.0.0.77"), (socket.AF_INET6, "::1")]
)
def test_an_established_connection(family: socket.AddressFamily, address: str) -> None:
    if family == socket.AF_INET6 and not Path("/proc/net/if_inet6").exists():
        pytest.skip("the kernel has no IPv6")
    with connected(family, address, free_port(family, address)):
        found = drbd_peers()
    assert found is not None
    assert address in found
    assert found == sorted({*found})


def test_another_port_is_not_drbd() -> None:
    with connected(socket.AF_INET, "127.0.0.78", 0):
        assert "127.0.0.78" not in (drbd_peers() or ())


def test_a_port_that_only_listens_is_not_a_connection() -> None:
    port = free_port(socket.AF_INET, "127.0.0.79")
    with socket.create_server(("127.0.0.79", port)):
        assert "127.0.0.79" not in (drbd_peers() or ())


def test_a_table_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "odd").write_text("sl local\n 0: here\n")
    assert drbd_peers([str(tmp_path / "odd")]) is None
    assert drbd_peers([str(tmp_path)]) is None
    assert drbd_peers([str(tmp_path / "none")]) == []
