"""``gnt-steward confd`` against servers on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confd_servers import KEY, Cluster, good, reply, silent

from ganeti_steward.core.ganeti.this_node import this_node
from ganeti_steward.plugins.maintenance.cli.confd import QUERIES

if TYPE_CHECKING:
    from front import Front

ME = this_node("/no-such-directory").name


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    path = tmp_path / "hmac.key"
    path.write_bytes(KEY)
    cluster = Cluster(path)
    yield cluster
    cluster.end()


def arguments(cluster: Cluster, *query: str, time_limit: float = 30.0) -> list[str]:
    addresses = [f"--address={address}" for address in cluster.addresses]
    more = [f"--port={cluster.port}", f"--key-file={cluster.key_file}"]
    return ["confd", *query, *addresses, *more, f"--time-limit={time_limit:g}"]


def test_an_answer(front: Front, cluster: Cluster) -> None:
    for _ in range(3):
        cluster.add(lambda raw: [reply(raw, ["node1.lab", "192.0.2.100", "192.0.2.1"])])
    done = front(*arguments(cluster, "master"))
    assert (done.status, done.err) == (0, "")
    assert done.out == '["node1.lab", "192.0.2.100", "192.0.2.1"]\n'


def test_the_reply_of_each_candidate(front: Front, cluster: Cluster) -> None:
    cluster.add(lambda raw: [reply(raw, "old", 4)])
    cluster.add(lambda raw: [reply(raw, "new", 5)])
    cluster.add(silent)
    done = front(*arguments(cluster, "-v", "config", "/cluster/x", time_limit=1.5))
    assert (done.status, done.out) == (0, '"new"\n')
    assert done.err.splitlines() == [
        '127.0.0.2: ok, serial 4: "old"',
        '127.0.0.3: ok, serial 5: "new"',
        "127.0.0.4: no reply",
    ]


def test_an_error_is_printed(front: Front, cluster: Cluster) -> None:
    cluster.add(lambda raw: [reply(raw, "node not found", 0, status=1)])
    done = front(*arguments(cluster, "role", "none.lab", time_limit=1.0))
    assert (done.status, done.out) == (1, '"node not found"\n')
    assert done.err == "127.0.0.2 answers with an error\n"


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        (["role"], "the query role requires an argument: NODE"),
        (["ping", "x"], "the query ping takes no argument, found 'x'"),
    ],
)
def test_wrong_arguments(front: Front, cluster: Cluster, query: list[str], fault: str) -> None:
    cluster.add(good)
    done = front(*arguments(cluster, *query))
    assert (done.status, done.out) == (1, "")
    assert done.err == f"gnt-steward confd: {fault}\n"


def test_no_answer(front: Front, cluster: Cluster) -> None:
    cluster.add(silent)
    done = front(*arguments(cluster, "ping", time_limit=0.5))
    assert (done.status, done.err) == (1, "gnt-steward confd: no master candidate answered\n")


@pytest.mark.parametrize(
    ("masters", "status", "word"),
    [
        ([ME, ME, ME], 0, "master: 3 of 3 master candidates name"),
        (["other.lab", "other.lab", "other.lab"], 11, "not master: 3 of 3"),
        ([ME, None, None], 1, "undecided: 1 of 3"),
    ],
)
def test_vote(
    front: Front, cluster: Cluster, masters: list[str | None], status: int, word: str
) -> None:
    for master in masters:
        cluster.add(lambda raw, name=master: [reply(raw, [name])] if name else [])
    done = front(*arguments(cluster, "vote", time_limit=1.0))
    assert (done.status, done.err) == (status, "")
    assert done.out.startswith(word)


def test_help_lists_every_query(front: Front) -> None:
    out = front("confd", "--help").out
    assert all(f"\n  {name} " in out for name in QUERIES)
