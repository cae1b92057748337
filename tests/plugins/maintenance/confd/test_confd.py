"""The confd client against servers on loopback that answer, lie, are silent or slow."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from confd_servers import KEY, Cluster, good, reply, silent

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.hmac_key import KeyFile, NoKey
from ganeti_steward.core.ganeti.signing import open_signed, sign
from ganeti_steward.plugins.maintenance.confd.client import Confd
from ganeti_steward.plugins.maintenance.confd.messages import (
    LONGEST_REQUEST,
    MAGIC,
    MASTER_FIELDS,
    BadReply,
    QueryType,
    ReplyStatus,
    read_reply,
    request,
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    path = tmp_path / "hmac.key"
    path.write_bytes(KEY)
    cluster = Cluster(path)
    yield cluster
    cluster.end()


def test_all_candidates_are_queried_with_a_salt_each(cluster: Cluster) -> None:
    for _ in range(3):
        cluster.add(good)
    before = int(time.time())
    found = cluster.client().query(QueryType.CLUSTER_MASTER, MASTER_FIELDS, all_replies=True)
    assert sorted(one.peer for one in found) == ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
    assert {(one.status, one.answer, one.serial) for one in found} == {
        (ReplyStatus.OK, "node1.lab", 5)
    }
    sent = [open_signed(KEY, s.requests[0].removeprefix(MAGIC)) for s in cluster.servers]
    inner = [json.loads(one.text) for one in sent]
    assert len({one["rsalt"] for one in inner}) == 3
    assert all(one["type"] == 3 and one["query"] == {"3": [0, 1, 2]} for one in inner)
    assert all(before <= int(one.salt) <= time.time() for one in sent)


def test_waiting_ends_when_enough_agree(cluster: Cluster) -> None:
    for answers in (good, good, good, silent, silent):
        cluster.add(answers)
    started = time.monotonic()
    assert len(cluster.client(time_limit=30).query(QueryType.CLUSTER_MASTER)) == 3
    assert time.monotonic() - started < 29


def test_a_silent_candidate_is_queried_three_times(cluster: Cluster) -> None:
    server = cluster.add(silent)
    assert cluster.client(time_limit=2.5).query(QueryType.PING) == []
    assert len(server.requests) == 3


def test_a_lost_datagram_is_made_up_for(cluster: Cluster) -> None:
    seen: list[bytes] = []

    def second_time(raw: bytes) -> list[bytes]:
        seen.append(raw)
        return good(raw) if len(seen) == 2 else []

    cluster.add(second_time)
    (found,) = cluster.client().query(QueryType.PING)
    assert found.answer == "node1.lab"


def other_key(raw: bytes) -> bytes:
    inner = json.loads(open_signed(KEY, raw.removeprefix(MAGIC)).text)
    text = json.dumps({"protocol": 1, "status": 0, "answer": "evil", "serial": 99})
    return MAGIC + sign(b"other\n", text, inner["rsalt"])


BAD: Final[dict[str, Callable[[bytes], bytes]]] = {
    "no magic": lambda raw: reply(raw)[4:],
    "another key": other_key,
    "another salt": lambda raw: MAGIC + sign(KEY, '{"protocol": 1}', "another-salt"),
    "not JSON": lambda raw: MAGIC + b"{",
    "deep": lambda raw: MAGIC + b"[" * 60000,
    "empty": lambda raw: b"",
    "its own request": lambda raw: raw,
    "an unknown status": lambda raw: reply(raw, status=7),
    "a serial that is a text": lambda raw: reply(raw, serial="5"),
    "a serial below zero": lambda raw: reply(raw, serial=-1),
    "a serial of no counter": lambda raw: reply(raw, serial=2**63),
    "no answer": lambda raw: reply(raw).replace(b"answer", b"anwser"),
    "another protocol": lambda raw: reply(raw, protocol=2),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_replies_are_dropped(cluster: Cluster, name: str) -> None:
    """The good one that follows counts."""
    cluster.add(lambda raw: [BAD[name](raw), reply(raw)])
    (found,) = cluster.client().query(QueryType.CLUSTER_MASTER)
    assert found.answer == "node1.lab"


def test_the_first_reply_of_a_candidate_counts(cluster: Cluster) -> None:
    cluster.add(lambda raw: [reply(raw, "first"), reply(raw, "second", 6)])
    (found,) = cluster.client().query(QueryType.PING)
    assert found.answer == "first"


def test_a_closed_port_is_a_silent_candidate(cluster: Cluster) -> None:
    cluster.add(good)
    client = cluster.client(time_limit=1.5, more=("127.0.0.99",))
    (found,) = client.query(QueryType.PING)
    assert found.peer == "127.0.0.2"


def test_faults(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add(good)
    with pytest.raises(StewardError, match="'node1' is not an IP address"):
        cluster.client(more=("node1",)).query(QueryType.PING)
    with pytest.raises(StewardError, match="no master candidate is known"):
        Confd(KeyFile(str(cluster.key_file)), []).query(QueryType.PING)
    cluster.key_file.unlink()
    with pytest.raises(NoKey):
        cluster.client().query(QueryType.PING)


def test_a_query_that_confd_would_cut_is_refused() -> None:
    with pytest.raises(StewardError, match=r"the query is too long: \d+ bytes, confd reads 4096"):
        request(QueryType.CONFIG, "/" + "x" * LONGEST_REQUEST, key=KEY, reply_salt="s", now=1)


def test_the_request_has_exactly_the_members_confd_takes() -> None:
    raw = request(QueryType.PING, None, key=KEY, reply_salt="salt-of-mine", now=1700000000)
    assert raw.startswith(b"plj0{")
    outer = json.loads(raw[4:])
    assert sorted(outer) == ["hmac", "msg", "salt"]
    assert outer["salt"] == "1700000000"
    assert json.loads(outer["msg"]) == {"protocol": 1, "type": 0, "rsalt": "salt-of-mine"}


def test_an_error_reply_is_a_reply() -> None:
    raw = request(QueryType.CONFIG, "/none", key=KEY, reply_salt="salt-of-mine", now=1)
    found = read_reply(
        reply(raw, "bad argument", 0, status=1), key=KEY, reply_salt="salt-of-mine", peer="x"
    )
    assert (found.status, found.answer, found.serial) == (ReplyStatus.ERROR, "bad argument", 0)
    with pytest.raises(BadReply, match="its salt"):
        read_reply(reply(raw), key=KEY, reply_salt="another-salt", peer="x")
