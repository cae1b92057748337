"""``gnt-steward incident`` and the signatures of records: what is shown, and confirmed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confd_servers import KEY
from recorded import Recorded
from records import unsigned
from worlds import incident

from ganeti_steward.plugins.maintenance.edges.record import open_record

if TYPE_CHECKING:
    from front import Front
    from workspace import Done

OWN = incident("node1.lab", number=1)
OTHER = incident("node2.lab", number=2, status="pending")


def trail(cluster: Recorded, uuid: str) -> list[Any]:
    (row,) = (row for row in cluster.rows if row["uuid"] == uuid)
    found: list[Any] = row["reason_trail"][0]
    return found


@pytest.fixture
def cluster() -> Recorded:
    """One record is signed, one is not."""
    made = Recorded([OWN, OTHER])
    trail(made, OTHER.uuid)[1] = unsigned(OTHER).reasons[0].text
    return made


@pytest.fixture
def key(front: Front, tmp_path: Path) -> Path:
    path = tmp_path / "hmac.key"
    path.write_bytes(KEY)
    front.configure(f'[maintd]\nkey-file = "{path}"')
    return path


class Caller:
    def __init__(self, front: Front, options: list[str]) -> None:
        self._front, self._options = front, options

    def __call__(self, what: str, *words: str) -> Done:
        return self._front("incident", what, *words, *self._options)

    def signatures(self) -> list[list[str]]:
        """Uuid and signature of each record, as `list` prints them."""
        words = ("--no-headers", "--separator", "|", "-o", "uuid,signature")
        return sorted(line.split("|") for line in self("list", *words).out.splitlines())


@pytest.fixture
def call(cluster: Recorded, key: Path, front: Front, tmp_path: Path) -> Iterator[Caller]:
    with ExitStack() as stack:
        yield Caller(front, stack.enter_context(cluster.reached(tmp_path, "luxi")))


def states(own: str, other: str) -> list[list[str]]:
    return sorted([[OWN.uuid, own], [OTHER.uuid, other]])


def test_what_the_daemon_ignores_is_shown(call: Caller) -> None:
    assert call.signatures() == states("valid", "ignored")
    assert call("list").err == (
        f"Note: filter rule {OTHER.uuid} is ignored, though it looks like an incident: it is not "
        "signed\n"
    )
    assert "  signature:     ignored\n" in call("show", OTHER.uuid).out
    assert json.loads(call("show", OWN.uuid, "--json").out)["signature"] == "valid"


def put_back(cluster: Recorded, uuid: str) -> None:
    """As luxid notes it where someone writes a rule again after another job."""
    (row,) = (row for row in cluster.rows if row["uuid"] == uuid)
    row["watermark"] = 7


def test_what_may_be_an_older_record_is_shown(call: Caller, cluster: Recorded) -> None:
    put_back(cluster, OWN.uuid)
    assert call.signatures() == states("unconfirmed", "ignored")
    assert "so another user may have put an old one back" in call("list").err
    assert "  signature:     unconfirmed\n" in call("show", OWN.uuid).out
    done = call("cancel", OWN.uuid)
    assert done.status == 1
    assert f"the daemon ignores incident {OWN.uuid}: its record is unconfirmed" in done.err


def test_without_the_key_nothing_is_claimed_about_signatures(call: Caller, key: Path) -> None:
    key.unlink()
    assert call.signatures() == states("not checked", "not checked")
    done = call("list")
    assert done.err == f"Note: signatures are not checked: there is no key {key}\n"
    assert "  signature:     not checked\n" in call("show", OTHER.uuid).out


@pytest.mark.usefixtures("key")
def test_by_rapi_nothing_is_claimed_about_signatures(
    front: Front, cluster: Recorded, tmp_path: Path
) -> None:
    """The key that is here may be another cluster's."""
    with cluster.reached(tmp_path, "rapi") as options:
        assert Caller(front, options).signatures() == states("not checked", "not checked")
        done = front("incident", "confirm", OWN.uuid, *options)
    assert done.status == 2
    assert "unrecognized arguments: --rapi" in done.err


@pytest.mark.parametrize("word", ["ack", "cancel"])
def test_what_is_ignored_is_not_changed(call: Caller, cluster: Recorded, word: str) -> None:
    done = call(word, OTHER.uuid)
    assert done.status == 1
    assert f"the daemon ignores incident {OTHER.uuid}: its record is ignored" in done.err
    assert cluster.done == []


def test_confirm(call: Caller, cluster: Recorded) -> None:
    """It is signed again, and nothing of it is lost."""
    again = f"Nothing to do: the daemon uses the record of incident {OWN.uuid}.\n"
    assert call("confirm", OWN.uuid).out == again
    put_back(cluster, OWN.uuid)
    done = call("confirm", OWN.uuid[:13])
    assert (done.status, done.err) == (0, "")
    assert done.out == (
        f"The record of incident {OWN.uuid} of {OWN.node_name} is used from now on.\n"
    )
    assert call.signatures() == states("valid", "ignored")
    known = open_record(OWN.uuid, trail(cluster, OWN.uuid)[1], KEY).incident
    assert known == OWN.bounded()._replace(observed_since=known.observed_since)
    assert call("confirm", OWN.uuid).out == again


def test_what_is_not_signed_cannot_be_confirmed(call: Caller, cluster: Recorded, key: Path) -> None:
    """Anyone may have written it; after the key was renewed, of what was signed before as well."""
    before = trail(cluster, OTHER.uuid)
    done = call("confirm", OTHER.uuid)
    assert done.status == 1
    assert f"incident {OTHER.uuid} cannot be confirmed: it is not signed" in done.err
    key.write_bytes(b"another key 0123456789\n")
    assert call.signatures() == states("ignored", "ignored")
    assert "its signature is not made with the cluster's key" in call("confirm", OWN.uuid).err
    assert trail(cluster, OTHER.uuid) == before
