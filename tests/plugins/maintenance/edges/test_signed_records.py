"""Records that others have written, copied, changed or put back, and those of other versions."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confd_servers import KEY
from records import (
    FIRST,
    LATER,
    NODE,
    SECOND,
    ignored,
    members,
    put,
    recorded,
    signed_members,
    signing_store,
    unsigned,
    write,
)

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.signing import digest
from ganeti_steward.plugins.filters.filter_rules import FilterRule, FilterRules
from ganeti_steward.plugins.maintenance.edges.counters import Counters
from ganeti_steward.plugins.maintenance.edges.store import Store
from ganeti_steward.plugins.model.incident import (
    COMPLETED,
    FAILED,
    MAINTENANCE,
    NOTED,
    PENDING,
    Incident,
    Maintenance,
    Submission,
)

if TYPE_CHECKING:
    from standin import StandIn

OTHER_KEY = b"another key 0123456789\n"


@pytest.fixture
def store(luxi: Luxi) -> Store:
    return signing_store(luxi, clock=lambda: LATER)


def text_of(stand_in: StandIn, uuid: str) -> str:
    text: str = stand_in.filters[uuid]["reason_trail"][0][1]
    return text


FORGED = "its signature is not made with the cluster's key for this rule"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (signed_members(members(FIRST), OTHER_KEY), FORGED),
        (signed_members(members(FIRST)).replace("node2.lab", "node3.lab"), FORGED),
        (signed_members(members(FIRST)).replace('"counter": ', '"counter": 1'), FORGED),
        (signed_members(members(SECOND)), FORGED),
        (json.dumps(members(FIRST)), FORGED),
        (json.dumps({**members(FIRST), "hmac": digest(KEY, "", "")}), FORGED),
        ("{", "it is not JSON: "),
        ("x", "it is not JSON: "),
        ("[]", FORGED),
        ("", "it is not JSON: "),
        ("\ud800", "it is not JSON: "),
        ('{,"hmac":"' + "0" * 64 + '"}', "it is not JSON: "),
    ],
    ids=map(str, range(12)),
)
@pytest.mark.parametrize("rewrite", [False, True])
def test_what_others_write_is_ignored(
    stand_in: StandIn, luxi: Luxi, store: Store, text: str, why: str, rewrite: bool
) -> None:
    write(luxi, recorded(FIRST))
    put(stand_in, FIRST.uuid, text)
    (found,) = ignored(store.read_all(rewrite=rewrite))
    assert found.startswith(why)
    assert text_of(stand_in, FIRST.uuid) == text


def test_a_copy_in_another_rule_is_ignored(stand_in: StandIn, luxi: Luxi, store: Store) -> None:
    store.write(FIRST)
    write(luxi, recorded(SECOND))
    put(stand_in, SECOND.uuid, text_of(stand_in, FIRST.uuid))
    found = store.read_all(rewrite=True)
    assert found.incidents == {FIRST.uuid: FIRST}
    assert (found.faults, [one.uuid for one in found.notes]) == ((), [SECOND.uuid])


@pytest.mark.parametrize("restarted", [False, True])
def test_a_record_that_was_deleted_cannot_be_put_back(
    luxi: Luxi, tmp_path: Path, restarted: bool
) -> None:
    """Neither by the daemon that has deleted it, nor by the next one, nor where others have."""
    path = str(tmp_path / "counters")
    store = signing_store(luxi, counters=Counters(path), clock=lambda: LATER)
    for delete in ("remove", "delete_filter"):
        store.write(FIRST)
        old = FilterRules(luxi).read().rules[0]
        store.read_all(rewrite=True)
        getattr(store if delete == "remove" else luxi, delete)(FIRST.uuid)
        store.read_all(rewrite=True)
        if restarted:
            store = signing_store(luxi, counters=Counters(path), clock=lambda: LATER)
        write(luxi, old)
        assert ignored(store.read_all(rewrite=True)) == [
            "it is an older one, that was replaced or removed before"
        ]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("removed", [False, True])
def test_a_record_whose_writing_was_not_answered(
    luxi: Luxi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarted: bool, removed: bool
) -> None:
    """It counts, also where others were written before it came, unless it was removed."""
    path, unanswered = str(tmp_path / "counters"), list[FilterRule]()

    def write_later(self: FilterRules, rule: FilterRule) -> str:
        unanswered.append(rule)
        raise StewardError("no answer")

    store = signing_store(luxi, counters=Counters(path), clock=lambda: LATER)
    with monkeypatch.context() as patched:
        patched.setattr(FilterRules, "write", write_later)
        with pytest.raises(StewardError, match="no answer"):
            store.write(FIRST)
    store.write(SECOND)
    store.read_all()
    if removed:
        store.remove(FIRST.uuid)
    write(luxi, unanswered[-1])
    if restarted:
        store = signing_store(luxi, counters=Counters(path), clock=lambda: LATER)
    found = store.read_all(rewrite=True)
    assert (FIRST.uuid in found.incidents) != removed
    assert len(found.notes) == removed


@pytest.mark.parametrize("restarted", [False, True])
def test_an_older_record_does_not_replace_a_newer_one(
    stand_in: StandIn, luxi: Luxi, tmp_path: Path, restarted: bool
) -> None:
    """A running daemon writes its own back; one that was started since knows that it is old."""
    path = str(tmp_path / "counters")
    store = signing_store(luxi, counters=Counters(path), clock=lambda: LATER)
    store.write(FIRST)
    old = text_of(stand_in, FIRST.uuid)
    done = FIRST._replace(status=COMPLETED)
    store.write(done)
    if restarted:
        store = signing_store(luxi, counters=Counters(path), clock=lambda: LATER)
    put(stand_in, FIRST.uuid, old)
    if restarted:
        assert len(ignored(store.read_all(rewrite=True))) == 1
        return
    assert store.read_all().incidents == {done.uuid: done}
    assert text_of(stand_in, FIRST.uuid) == old, "without a won vote nothing is written"
    records = store.read_all(rewrite=True)
    assert records.incidents == {done.uuid: done}
    assert "written back as it was, for others have changed it: it is an older" in (
        records.notes[0].text
    )
    assert signing_store(luxi).read_all() == ({done.uuid: done}, (), ())
    assert store.read_all(rewrite=True).notes == ()


@pytest.mark.parametrize("text", ["{", "", "x", json.dumps(members(FIRST)), None])
def test_a_running_daemon_restores_what_others_have_damaged(
    stand_in: StandIn, luxi: Luxi, store: Store, text: str | None
) -> None:
    store.write(FIRST)
    if text is None:
        # It does not look like a record at all any more.
        write(luxi, FilterRule(FIRST.uuid, action="PAUSE"))
    else:
        put(stand_in, FIRST.uuid, text)
    assert store.read_all(rewrite=True).incidents == {FIRST.uuid: FIRST}
    assert signing_store(luxi).read_all() == ({FIRST.uuid: FIRST}, (), ())
    assert stand_in.filters[FIRST.uuid]["action"] == "CONTINUE"


def test_what_is_known_is_what_the_record_has(luxi: Luxi, store: Store) -> None:
    """Of a large object it has a part."""
    large = json.dumps({"details": "x" * 10000, "status": "evacuate"}, separators=(",", ":"))
    store.write(FIRST._replace(original=large.encode()))
    assert store.read_all() == signing_store(luxi).read_all()


def test_what_cannot_be_written_back_is_still_known(
    stand_in: StandIn, luxi: Luxi, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(FIRST)
    put(stand_in, FIRST.uuid, "{")
    monkeypatch.setattr(luxi, "write_filter", failing)
    records = store.read_all(rewrite=True)
    assert records.incidents == {FIRST.uuid: FIRST}
    assert records.notes[0].text.endswith("; that failed: no answer")


def failing(*arguments: object) -> None:
    raise StewardError("no answer")


def test_another_daemon_goes_on_with_the_same_key(luxi: Luxi, store: Store) -> None:
    """As after a failover, and after the failover back."""
    store.write(FIRST)
    other = signing_store(luxi, clock=lambda: LATER)
    assert other.read_all().incidents == {FIRST.uuid: FIRST}
    changed = FIRST._replace(status=FAILED)
    other.write(changed)
    other.write(SECOND)
    assert store.read_all(rewrite=True) == ({changed.uuid: changed, SECOND.uuid: SECOND}, (), ())
    store.write(FIRST)
    assert other.read_all().incidents == {FIRST.uuid: FIRST, SECOND.uuid: SECOND}


def test_a_renewed_key(stand_in: StandIn, luxi: Luxi) -> None:
    """A daemon that runs signs again what it knew; what it did not know needs a person."""
    keys = [KEY]
    store = Store(luxi, lambda: keys[0], clock=lambda: LATER)
    store.write(FIRST)
    keys[0] = OTHER_KEY
    before = text_of(stand_in, FIRST.uuid)
    assert store.read_all().incidents == {FIRST.uuid: FIRST}
    assert text_of(stand_in, FIRST.uuid) == before
    write(luxi, recorded(SECOND))
    records = store.read_all(rewrite=True)
    assert records.incidents == {FIRST.uuid: FIRST}
    assert [one.text for one in records.notes] == [
        f"the record of incident {FIRST.uuid} is signed again: the cluster's key was renewed",
        f"filter rule {SECOND.uuid} is ignored, though it looks like an incident: {FORGED}",
    ]
    later = Store(luxi, lambda: OTHER_KEY).read_all()
    assert later.incidents == {FIRST.uuid: FIRST}


# Records of the version before

BEGUN = FIRST._replace(
    status=PENDING,
    tag="maintd:stopped:someone",
    open=(Submission("s", "move", (), (), 5, jobs=(7,)),),
    jobs=(7,),
    synced=(("inst1", LATER),),
    off_at=LATER,
    healthy_since=1,
    retry_at=5,
)


def test_records_of_the_version_before_are_signed(
    stand_in: StandIn, luxi: Luxi, tmp_path: Path
) -> None:
    """After a won vote; they give no time, and nothing has begun but their jobs."""
    counters = Counters(str(tmp_path / "counters"))
    store = signing_store(luxi, counters=counters, clock=lambda: LATER)
    write(luxi, unsigned(BEGUN))
    waiting = store.read_all()
    assert (waiting.incidents, waiting.notes) == ({}, ())
    assert waiting.faults[0].node == NODE, "no second incident begins meanwhile"
    assert waiting.faults[0].text.endswith("; that waits for a won vote")
    records = store.read_all(rewrite=True)
    known = FIRST._replace(
        status=NOTED,
        open=BEGUN.open,
        jobs=(7,),
        observed_since=LATER,
        changed=LATER,
        progressed=LATER,
    )
    assert records.incidents == {FIRST.uuid: known}
    assert "written by the version before, is signed now" in records.notes[0].text
    assert signing_store(luxi).read_all() == ({FIRST.uuid: known}, (), ())
    # Those that come later are ignored.
    write(luxi, unsigned(SECOND))
    assert [one.uuid for one in store.read_all(rewrite=True).notes] == [SECOND.uuid]
    again = signing_store(luxi, counters=Counters(str(tmp_path / "counters")))
    luxi.delete_filter(FIRST.uuid)
    assert ignored(again.read_all(rewrite=True)) == ["it is not signed"]


def test_without_any_record_no_later_one_is_adopted(luxi: Luxi, tmp_path: Path) -> None:
    path = str(tmp_path / "counters")
    assert signing_store(luxi, counters=Counters(path)).read_all(rewrite=True) == ({}, (), ())
    write(luxi, unsigned(FIRST))
    store = signing_store(luxi, counters=Counters(path))
    assert ignored(store.read_all(rewrite=True)) == ["it is not signed"]


@pytest.mark.parametrize("understood", [True, False])
def test_nothing_unsigned_is_adopted_beside_what_is_signed(
    stand_in: StandIn, luxi: Luxi, understood: bool
) -> None:
    """A master that has never signed anything itself sees that others have."""
    signing_store(luxi).write(FIRST)
    if not understood:
        put(stand_in, FIRST.uuid, signed_members({**members(FIRST), "version": 3}))
    write(luxi, unsigned(SECOND))
    records = signing_store(luxi).read_all(rewrite=True)
    assert records.incidents == ({FIRST.uuid: FIRST} if understood else {})
    assert [one.uuid for one in records.notes] == [SECOND.uuid]


@pytest.mark.parametrize(
    "forged",
    [
        FIRST._replace(action="evacuate-failover"),
        FIRST._replace(uuid=SECOND.uuid),
        FIRST._replace(
            action=MAINTENANCE,
            original=b'{"status":"maintenance"}',
            maintenance=Maintenance("stop", work="power"),
        ),
    ],
)
def test_a_record_that_contradicts_itself_is_not_adopted(
    stand_in: StandIn, luxi: Luxi, store: Store, forged: Incident
) -> None:
    """Nor is a maintenance: no version before wrote any."""
    write(luxi, unsigned(FIRST))
    put(stand_in, FIRST.uuid, unsigned(forged).reasons[0].text)
    assert ignored(store.read_all(rewrite=True)) == ["it is not signed"]


def test_what_could_not_be_signed_is_tried_again(
    luxi: Luxi, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(luxi, unsigned(FIRST))
    write(luxi, unsigned(SECOND))
    write_filter, left = luxi.write_filter, [1]

    def once(*arguments: Any) -> str:
        if not left:
            raise StewardError("no answer")
        left.pop()
        return write_filter(*arguments)

    monkeypatch.setattr(luxi, "write_filter", once)
    records = store.read_all(rewrite=True)
    assert [*records.incidents] == [FIRST.uuid]
    assert records.faults[0].text.endswith("; that failed: no answer")
    monkeypatch.undo()
    assert [*store.read_all(rewrite=True).incidents] == [FIRST.uuid, SECOND.uuid]


@pytest.mark.parametrize(
    ("name", "users"),
    [
        ("read_record", {"edges/store.py", "cli/incident.py"}),
        ("claimed_incident", {"cli/cluster.py"}),
    ],
)
def test_only_the_store_makes_incidents_of_records(name: str, users: set[str]) -> None:
    """So what reaches the step was signed; people are shown the others, and the audit log's."""
    room = Path(__file__).parents[4] / "plugins"
    found = {
        str(file.relative_to(room / "maintenance"))
        for file in room.rglob("*.py")
        for line in ast.walk(ast.parse(file.read_text()))
        if (isinstance(line, ast.ImportFrom) and name in [one.name for one in line.names])
        or (isinstance(line, ast.Attribute) and line.attr == name)
    }
    assert found == users
