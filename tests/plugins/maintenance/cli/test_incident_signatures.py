"""``gnt-steward incident`` and the signatures of records: what is shown, and adopted."""

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
from worlds import NOW, incident

from ganeti_steward.plugins.maintenance.edges.counters import Counters
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
    front.configure(f'[maintd]\nkey-file = "{path}"\ncounters-file = "{tmp_path / "counters"}"')
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


def test_an_older_record_is_shown_as_ignored(call: Caller, tmp_path: Path) -> None:
    Counters(str(tmp_path / "counters")).wrote(OWN.uuid, 2**60)
    assert call.signatures() == states("ignored", "ignored")
    assert "it is an older one, that was replaced or removed before" in call("list").err


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
        done = front("incident", "adopt", "--all", *options)
    assert done.status == 2
    assert "unrecognized arguments: --rapi" in done.err


@pytest.mark.parametrize("word", ["ack", "cancel"])
def test_what_is_ignored_is_not_changed(call: Caller, cluster: Recorded, word: str) -> None:
    done = call(word, OTHER.uuid)
    assert done.status == 1
    assert f"the daemon ignores incident {OTHER.uuid}: its record is not signed" in done.err
    assert cluster.done == []


@pytest.mark.parametrize("words", [[OTHER.uuid], ["--all"]])
def test_adopt(call: Caller, cluster: Recorded, words: list[str]) -> None:
    done = call("adopt", *words)
    assert (done.status, done.err) == (0, "")
    assert done.out == f"Signed the record of incident {OTHER.uuid} of node2.lab.\n"
    assert call.signatures() == states("valid", "valid")
    known = open_record(OTHER.uuid, trail(cluster, OTHER.uuid)[1], KEY).incident
    assert (known.status, known.observed_since > NOW) == ("noted", True)
    assert call("adopt", "--all").out == "Nothing to do: no record is ignored.\n"
    again = call("adopt", OTHER.uuid).out
    assert again == f"Nothing to do: the record of incident {OTHER.uuid} is signed.\n"


def test_the_daemon_accepts_what_was_adopted(
    call: Caller, cluster: Recorded, tmp_path: Path
) -> None:
    """Its counter is higher than those that the daemon has seen."""
    highest = 2**62
    Counters(str(tmp_path / "counters")).wrote("another", highest)
    assert call("adopt", OTHER.uuid).status == 0
    assert open_record(OTHER.uuid, trail(cluster, OTHER.uuid)[1], KEY).counter > highest


def test_adopt_after_the_key_was_renewed(call: Caller, key: Path) -> None:
    key.write_bytes(b"another key 0123456789\n")
    assert call.signatures() == states("ignored", "ignored")
    assert len(call("adopt", "--all").out.splitlines()) == 2
    assert call.signatures() == states("valid", "valid")


def test_a_record_that_cannot_be_adopted(call: Caller, cluster: Recorded) -> None:
    text = trail(cluster, OTHER.uuid)[1]
    trail(cluster, OTHER.uuid)[1] = text.replace(OTHER.uuid, OWN.uuid)
    done = call("adopt", "--all")
    assert done.status == 1
    assert f"its rule has a copy of the record of incident {OWN.uuid}" in done.err
    trail(cluster, OTHER.uuid)[1] = unsigned(OTHER._replace(action="live-repair")).reasons[0].text
    assert "its object does not request its action live-repair" in call("adopt", "--all").err


def test_adopt_without_incidents_or_with_both(call: Caller) -> None:
    assert "name incidents, or use --all" in call("adopt").err
    assert "name incidents, or use --all" in call("adopt", "--all", OTHER.uuid).err
