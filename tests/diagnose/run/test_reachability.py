"""Which nodes a master candidate reports as not answering, by real connections."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ganeti_steward.diagnose.run import reachability
from ganeti_steward.diagnose.run.reachability import unreached

OWN, LISTENS, REFUSES = "127.0.0.81", "127.0.0.82", "127.0.0.83"
#: Its kernel answers no attempt to connect: so many wait to be accepted already.
SILENT = "127.0.0.84"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachability, "_LIMIT", 0.5)


@pytest.fixture
def port() -> Iterator[int]:
    with ExitStack() as held:
        listens = held.enter_context(socket.create_server((LISTENS, 0)))
        port = listens.getsockname()[1]
        held.enter_context(socket.create_server((SILENT, port), backlog=0))
        for _ in range(4):
            one = held.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex((SILENT, port))
        yield port


def files(folder: Path, *others: str, candidates: tuple[str, ...] = (OWN,)) -> str:
    """Ganeti's files about this node and others; the data directory."""
    names = {"me.example.com": OWN, **{f"n{at}.example.com": one for at, one in enumerate(others)}}
    pairs = "".join(f"{name} {address}\n" for name, address in names.items())
    (folder / "ssconf_node_primary_ips").write_text(pairs)
    (folder / "ssconf_master_candidates_ips").write_text("\n".join(candidates))
    return str(folder)


def test_only_silence_is_reported(tmp_path: Path, port: int) -> None:
    data = files(tmp_path, LISTENS, REFUSES, SILENT)
    assert unreached(port, data, "me.example.com") == [SILENT]


def test_all_answer(tmp_path: Path, port: int) -> None:
    assert unreached(port, files(tmp_path, REFUSES, LISTENS), "me.example.com") == []


def test_one_that_nothing_answers_says_nothing(tmp_path: Path, port: int) -> None:
    """It may be cut off itself."""
    assert unreached(port, files(tmp_path, SILENT), "me.example.com") is None


@pytest.mark.parametrize("candidates", [(), (LISTENS,)])
def test_others_do_not_look(tmp_path: Path, port: int, candidates: tuple[str, ...]) -> None:
    data = files(tmp_path, LISTENS, SILENT, candidates=candidates)
    assert unreached(port, data, "me.example.com") is None


def test_no_other_node(tmp_path: Path, port: int) -> None:
    assert unreached(port, files(tmp_path), "me.example.com") is None


def test_no_node_of_a_cluster(tmp_path: Path, port: int) -> None:
    assert unreached(port, str(tmp_path), "me.example.com") is None


def test_addresses_that_cannot_be_used(tmp_path: Path, port: int) -> None:
    """They prove nothing about a machine."""
    data = files(tmp_path, LISTENS, "300.1.1.1")
    assert unreached(port, data, "me.example.com") is None


def test_many_nodes(tmp_path: Path, port: int) -> None:
    many = [f"127.0.{at}.{one}" for at in (1, 2) for one in range(1, 151)]
    assert unreached(port, files(tmp_path, *many, SILENT), "me.example.com") == [SILENT]
