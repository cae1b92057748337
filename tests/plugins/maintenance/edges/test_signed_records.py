"""Records that others have written, copied, changed or put back."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from confd_servers import KEY
from records import (
    FIRST,
    LATER,
    SECOND,
    ignored,
    members,
    noted,
    put,
    recorded,
    signed_members,
    signing_store,
    unsigned,
    write,
)

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.signing import digest
from ganeti_steward.plugins.filters.filter_rules import FilterRule, FilterRules
from ganeti_steward.plugins.filters.rule_notes import same_effect
from ganeti_steward.plugins.maintenance.edges.record import Stamp
from ganeti_steward.plugins.maintenance.edges.store import Store
from ganeti_steward.plugins.model.incident import (
    ACKNOWLEDGED,
    ACTIONS,
    CANCELED,
    COMPLETED,
    FAILED,
    MAINTENANCE,
    PENDING,
    STATES,
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
        (signed_members(members(FIRST)).replace('"job": ', '"job": 1'), FORGED),
        (signed_members(members(SECOND)), FORGED),
        (json.dumps(members(FIRST)), "it is not signed"),
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


OLDER = "it is an older one, that was replaced or removed before"


def another_job(stand_in: StandIn) -> None:
    """A job of anyone, as the watcher has one every five minutes."""
    stand_in.queue.allocate(1)


def test_a_running_daemon_ignores_what_was_deleted(luxi: Luxi, store: Store) -> None:
    """Even where the cluster has had no other job: neither what it has deleted, nor others."""
    for delete in (store.remove, luxi.delete_filter):
        store.write(FIRST)
        old = FilterRules(luxi).read().rules[0]
        store.read_all(rewrite=True)
        delete(FIRST.uuid)
        store.read_all(rewrite=True)
        write(luxi, old)
        assert ignored(store.read_all(rewrite=True)) == [OLDER]


@pytest.mark.parametrize("removed", [False, True])
def test_a_record_whose_writing_was_not_answered(
    stand_in: StandIn, luxi: Luxi, store: Store, monkeypatch: pytest.MonkeyPatch, removed: bool
) -> None:
    """It is used, even where others were written before it came, unless it was removed."""
    unanswered = list[FilterRule]()

    def write_later(self: FilterRules, rule: FilterRule) -> str:
        unanswered.append(rule)
        raise StewardError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(FilterRules, "write", write_later)
        with pytest.raises(StewardError, match="no answer"):
            store.write(FIRST)
    store.write(SECOND)
    store.read_all()
    if removed:
        store.remove(FIRST.uuid)
    another_job(stand_in)
    write(luxi, unanswered[-1])
    found = store.read_all(rewrite=True)
    assert (FIRST.uuid in found.incidents) != removed
    assert len(found.notes) == removed
    assert (FIRST.uuid in signing_store(luxi).read_all().incidents) != removed


def test_an_older_record_does_not_replace_a_newer_one(
    stand_in: StandIn, luxi: Luxi, store: Store
) -> None:
    store.write(FIRST)
    old = text_of(stand_in, FIRST.uuid)
    done = FIRST._replace(status=COMPLETED)
    store.write(done)
    put(stand_in, FIRST.uuid, old)
    assert store.read_all().incidents == {done.uuid: done}
    assert text_of(stand_in, FIRST.uuid) == old, "without a won vote nothing is written"
    records = store.read_all(rewrite=True)
    assert records.incidents == {done.uuid: done}
    assert f"written back as it was, because another user has changed it: {OLDER}" in (
        records.notes[0].text
    )
    assert signing_store(luxi).read_all() == ({done.uuid: done}, (), ())
    assert store.read_all(rewrite=True).notes == ()


# Failovers: a daemon begins that knows nothing but what the configuration has


def of_each_state() -> list[Incident]:
    """Every kind of incident in every state that its record can have."""
    found = list[Incident]()
    for action, state in product(ACTIONS[1:], STATES):
        request = Maintenance("stop", work="power", ready=True) if action == MAINTENANCE else None
        original = canonical({"status": action})
        one = noted(len(found) + 1, original=original)._replace(action=action, maintenance=request)
        acknowledged = state == ACKNOWLEDGED
        status = STATES[state].status
        begun = (Submission("s", "move", (), (), 5, jobs=(7,)),) if status == PENDING else ()
        one = one._replace(
            status=status, acknowledged=acknowledged, open=begun, tagged=acknowledged
        )
        found.append(one)
    return found


KINDS: Final = of_each_state()
NAMES: Final = [f"{one.action} {one.state_name}" for one in KINDS]


@pytest.mark.parametrize("incident", KINDS, ids=NAMES)
def test_a_failover_changes_no_record(stand_in: StandIn, luxi: Luxi, incident: Incident) -> None:
    """No person is needed: the next daemon goes on, and the one after it."""
    another_job(stand_in)
    signing_store(luxi).write(incident)
    another_job(stand_in)
    assert signing_store(luxi).read_all(rewrite=True) == ({incident.uuid: incident}, (), ())
    another_job(stand_in)
    assert signing_store(luxi).read_all(rewrite=True) == ({incident.uuid: incident}, (), ())


def canceled_by_daemon(store: Store, incident: Incident) -> None:
    store.write(incident._replace(status=CANCELED, acknowledged=False, open=()))


def forgotten_by_daemon(store: Store, incident: Incident) -> None:
    canceled_by_daemon(store, incident)
    store.remove(incident.uuid)


@pytest.mark.parametrize("end", [canceled_by_daemon, forgotten_by_daemon])
@pytest.mark.parametrize("running", [True, False], ids=["daemon-goes-on", "failover"])
@pytest.mark.parametrize("incident", KINDS, ids=NAMES)
def test_what_was_put_back_is_not_begun_again(
    stand_in: StandIn,
    luxi: Luxi,
    incident: Incident,
    running: bool,
    end: Callable[[Store, Incident], None],
) -> None:
    """A rule that a reader of RAPI has kept, written by someone without the key."""
    daemon = signing_store(luxi)
    daemon.write(incident)
    (kept,) = FilterRules(luxi).read().rules
    # To cancel it is a job that sets a tag.
    another_job(stand_in)
    end(daemon, incident)
    last = daemon.read_all(rewrite=True).incidents
    if not running:
        daemon = signing_store(luxi)
        assert daemon.read_all(rewrite=True).incidents == last
    write(luxi, kept)
    for store in (daemon, signing_store(luxi)):
        for _ in range(2):
            assert store.read_all(rewrite=True).incidents == last


@pytest.mark.parametrize("incident", KINDS, ids=NAMES)
def test_what_was_put_back_before_the_daemon_begins(
    stand_in: StandIn, luxi: Luxi, incident: Incident
) -> None:
    """In the place of the newer one: nothing is begun, and a person reads what to do."""
    daemon = signing_store(luxi)
    daemon.write(incident)
    (kept,) = FilterRules(luxi).read().rules
    another_job(stand_in)
    canceled_by_daemon(daemon, incident)
    write(luxi, kept)
    (found,) = ignored(signing_store(luxi).read_all(rewrite=True))
    assert found == (
        "it was signed when the last job was 0, and written when that was 1, so another user may "
        "have put an old one back; nothing is begun for it until root on the master says that it "
        f"is the latest one (gnt-steward incident confirm {incident.uuid}); otherwise it can be "
        f"deleted (gnt-filter delete {incident.uuid})"
    )
    signing_store(luxi, clock=lambda: LATER).confirm(incident.uuid)
    confirmed = incident._replace(observed_since=LATER)
    assert signing_store(luxi).read_all() == ({incident.uuid: confirmed}, (), ())


def test_a_confirmed_record_has_to_last_again(luxi: Luxi) -> None:
    """Nothing was looked at while it was ignored."""
    signing_store(luxi).write(FIRST._replace(healthy_since=5))
    signing_store(luxi, clock=lambda: LATER).confirm(FIRST.uuid)
    (found,) = signing_store(luxi).read_all().incidents.values()
    assert (found.observed_since, found.healthy_since, found.silent_since) == (LATER, 5, LATER)


def test_a_record_that_others_write_again_unchanged(
    stand_in: StandIn, luxi: Luxi, store: Store
) -> None:
    """The daemon that knows it signs it again, so that the next one need not ask a person."""
    store.write(FIRST)
    (kept,) = FilterRules(luxi).read().rules
    another_job(stand_in)
    write(luxi, kept)
    assert len(ignored(signing_store(luxi).read_all())) == 1
    assert store.read_all(rewrite=True) == ({FIRST.uuid: FIRST}, (), ())
    assert signing_store(luxi).read_all() == ({FIRST.uuid: FIRST}, (), ())


def test_jobs_of_others_while_it_is_written(
    stand_in: StandIn, luxi: Luxi, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is signed again until its stamp is the number that luxid has noted."""
    replace, jobs = stand_in.methods["ReplaceFilter"], [1, 1, 0, 0]

    def beside_jobs(*arguments: Any) -> Any:
        stand_in.queue.allocate(jobs.pop(0))
        return replace(*arguments)

    monkeypatch.setitem(stand_in.methods, "ReplaceFilter", beside_jobs)
    store.write(FIRST)
    assert signing_store(luxi).read_all() == ({FIRST.uuid: FIRST}, (), ())
    assert jobs == [0], "it was written three times"
    store.write(FIRST)
    assert jobs == [], "and once where there was no job meanwhile"


def test_a_job_with_every_write(
    stand_in: StandIn, luxi: Luxi, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon goes on with it, and signs it again in a later round."""
    replace = stand_in.methods["ReplaceFilter"]

    def beside_jobs(*arguments: Any) -> Any:
        another_job(stand_in)
        return replace(*arguments)

    with monkeypatch.context() as patched:
        patched.setitem(stand_in.methods, "ReplaceFilter", beside_jobs)
        store.write(FIRST)
        assert store.read_all(rewrite=True) == ({FIRST.uuid: FIRST}, (), ())
    assert len(ignored(signing_store(luxi).read_all())) == 1
    assert store.read_all(rewrite=True) == ({FIRST.uuid: FIRST}, (), ())
    assert signing_store(luxi).read_all() == ({FIRST.uuid: FIRST}, (), ())


@pytest.mark.parametrize("clocks", [(LATER, 5, LATER), (5, LATER, 6), (2**63 - 1, 1, 2**64)])
def test_no_clock_decides_which_record_is_the_latest(
    stand_in: StandIn, luxi: Luxi, clocks: tuple[int, ...]
) -> None:
    """Of three masters one after the other, whose clocks are a day or centuries apart."""
    for number, now in enumerate(clocks):
        store = signing_store(luxi, clock=lambda now=now: now)
        store.read_all(rewrite=True)
        store.write(FIRST._replace(note=str(number)))
        another_job(stand_in)
    assert signing_store(luxi).read_all().incidents[FIRST.uuid].note == "2"


@pytest.mark.parametrize(
    "stamp", [Stamp(2**63 - 1, 2**63 - 1), Stamp(2**63 - 1, 0), Stamp(1, 2**63 - 1)]
)
def test_a_stamp_of_the_far_future(
    stand_in: StandIn, luxi: Luxi, store: Store, stamp: Stamp
) -> None:
    """Only who has the key can sign one; other records are not concerned, and it stays readable."""
    write(luxi, recorded(FIRST, stamp))
    store.write(SECOND)
    known = {SECOND.uuid: SECOND} | ({} if stamp.job else {FIRST.uuid: FIRST})
    assert store.read_all(rewrite=True).incidents == known
    if not stamp.job:
        store.write(FIRST)
        store.write(FIRST)
    found = signing_store(luxi).read_all()
    assert (found.incidents, found.faults) == (known, ())
    assert [one.text.split(", and")[0] for one in found.notes] == [
        f"filter rule {FIRST.uuid} is ignored, though it looks like an incident: it was signed "
        f"when the last job was {stamp.job}"
    ] * (stamp.job > 0)


def test_a_node_that_is_not_the_master_any_more_takes_no_record_for_old(luxi: Luxi) -> None:
    """What it reads is the configuration of before, which has no record of the new master."""
    store = signing_store(luxi)
    store.read_all(rewrite=True)
    signing_store(luxi).write(FIRST)
    store.read_all()
    (of_new_master,) = FilterRules(luxi).read().rules
    luxi.delete_filter(FIRST.uuid)
    store.read_all()
    write(luxi, of_new_master)
    assert store.read_all(rewrite=True) == ({FIRST.uuid: FIRST}, (), ())


# What the rule of a record does


def ruined(rule: FilterRule) -> list[FilterRule]:
    """The same record in rules that are not what a record's must be."""
    return [
        rule._replace(action="PAUSE", predicates=()),
        rule._replace(action="REJECT"),
        rule._replace(action="RATE_LIMIT", limit=1),
        rule._replace(priority=0),
        rule._replace(predicates=()),
    ]


@pytest.mark.parametrize("which", range(5))
def test_a_rule_that_has_an_effect_is_written_back(luxi: Luxi, store: Store, which: int) -> None:
    store.write(FIRST)
    (rule,) = FilterRules(luxi).read().rules
    write(luxi, ruined(rule)[which])
    found = store.read_all(rewrite=True)
    assert found.incidents == {FIRST.uuid: FIRST}
    assert found.notes[0].text == (
        f"the record of incident {FIRST.uuid} is written back, because another user has changed "
        "what its filter rule does"
    )
    assert same_effect(FilterRules(luxi).read().rules[0], rule)
    assert store.read_all(rewrite=True).notes == ()


@pytest.mark.parametrize("understood", [True, False])
@pytest.mark.parametrize("which", range(5))
def test_a_rule_that_has_an_effect_and_is_not_known(
    stand_in: StandIn, luxi: Luxi, which: int, understood: bool
) -> None:
    """The first daemon of a master takes the effect away, and does not use the record."""
    signing_store(luxi).write(FIRST)
    (rule,) = FilterRules(luxi).read().rules
    another_job(stand_in)
    write(luxi, ruined(rule)[which])
    if not understood:
        put(stand_in, FIRST.uuid, signed_members({**members(FIRST), "version": 3}))
    store = signing_store(luxi)
    assert store.read_all().incidents == {}
    assert not same_effect(FilterRules(luxi).read().rules[0], rule), "the vote was not won"
    found = store.read_all(rewrite=True)
    assert found.incidents == {}
    assert "is written so that it has no effect on jobs" in found.notes[0].text
    assert same_effect(FilterRules(luxi).read().rules[0], rule)
    assert len(store.read_all(rewrite=True).notes) == 1


def test_a_rule_of_others_that_looks_like_a_record_is_theirs(luxi: Luxi, store: Store) -> None:
    """Who may write rules can hold all jobs in any case: `filter lint` reports it."""
    rule = unsigned(FIRST)._replace(action="PAUSE", predicates=())
    write(luxi, rule)
    assert ignored(store.read_all(rewrite=True)) == ["it is not signed"]
    assert same_effect(FilterRules(luxi).read().rules[0], rule)


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
    """Of a long note it has a part."""
    store.write(FIRST._replace(note="x" * 10_000))
    (known,) = store.read_all().incidents.values()
    assert 0 < len(known.note) < 10_000
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


@pytest.mark.parametrize(
    ("name", "users"),
    [
        ("read_record", {"cli/incident.py", "cli/cluster.py"}),
        ("open_record", {"edges/judge.py", "edges/store.py"}),
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
