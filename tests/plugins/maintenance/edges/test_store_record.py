"""Records: exact in both directions, strict when they are read."""

from __future__ import annotations

import json
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.model.finding import EVACUATE
from ganeti_steward.plugins.maintenance.edges.record import (
    Stamp,
    open_record,
    read_record,
    sign_record,
    write_record,
)
from ganeti_steward.plugins.model.incident import (
    ACTIONS,
    MAINTENANCE,
    STATUSES,
    Attempt,
    Count,
    Incident,
    JobNumber,
    Maintenance,
    Submission,
    Time,
)
from ganeti_steward.plugins.texts import text_member

UUID = "0f0f0f0f-1111-2222-3333-444444444444"
NODE = "aaaaaaaa-1111-2222-3333-444444444444"
INCIDENT = Incident(UUID, NODE, "node2.lab", b'{"status":"evacuate"}', EVACUATE)

TEXT = st.text(max_size=20)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
TIMES = st.integers(0, 2**63 - 1)
NUMBERS = st.integers(1, 2**63 - 1)
TYPES: dict[Any, Any] = {
    str: TEXT,
    Time: TIMES,
    Count: st.integers(0, 2**31 - 1),
    bool: st.booleans(),
    bytes: st.dictionaries(TEXT, JSON, max_size=4).map(canonical),
    Time | None: st.none() | TIMES,
    tuple[JobNumber, ...]: st.lists(NUMBERS, max_size=4).map(tuple),
    tuple[str, ...]: st.lists(TEXT, max_size=3).map(tuple),
    tuple[tuple[str, str], ...]: st.lists(st.tuples(TEXT, TEXT), max_size=2).map(tuple),
    tuple[tuple[str, Time], ...]: st.lists(st.tuples(TEXT, TIMES), max_size=2).map(tuple),
}


def fields(kind: type) -> dict[str, Any]:
    return {k: TYPES[v] for k, v in get_type_hints(kind, include_extras=True).items()}


#: Any value of each field, those that are added later included.
SUBMISSIONS = st.builds(Submission, **fields(Submission))
ATTEMPTS = st.builds(Attempt, **fields(Attempt))
TYPES[Maintenance | None] = st.none()
TYPES[tuple[Attempt, ...]] = st.lists(ATTEMPTS, max_size=2).map(tuple)
TYPES[tuple[Submission, ...]] = st.lists(SUBMISSIONS, max_size=2).map(tuple)
INCIDENTS = st.builds(
    Incident,
    **fields(Incident)
    | {
        "action": st.sampled_from(ACTIONS),
        "status": st.sampled_from(STATUSES),
        "object": st.sampled_from(["", "0" * 64]),
    },
)


REQUESTS = st.builds(Maintenance, **fields(Maintenance))


@given(INCIDENTS, REQUESTS)
def test_there_and_back(incident: Incident, request: Maintenance) -> None:
    if incident.action == MAINTENANCE:
        incident = incident._replace(maintenance=request)
    text = write_record(incident)
    assert read_record(text) == incident
    assert text.isascii()
    assert text.isprintable()
    assert write_record(read_record(text)) == text


def test_the_diagnose_object_is_verbatim_json() -> None:
    """Another program finds it without knowing how it is compared."""
    details = {"z": [1, 2.5, None], "ä": "\n", "deep": {"a": True}}
    incident = INCIDENT._replace(original=canonical({"status": "evacuate", "details": details}))
    assert json.loads(write_record(incident))["original"]["details"] == details


def test_members_with_a_default_may_be_missing() -> None:
    data = json.loads(write_record(INCIDENT))
    short = {k: data[k] for k in ("version", "uuid", "node", "node_name", "original", "action")}
    assert read_record(json.dumps(short)) == INCIDENT


@given(INCIDENTS, st.dictionaries(TEXT, JSON, max_size=3))
def test_members_of_a_newer_version_are_kept(incident: Incident, more: dict[str, Any]) -> None:
    """The record is read, acted upon, and written and signed with them."""
    incident = incident._replace(maintenance=None, action=EVACUATE, foreign=b"{}")
    known = json.loads(write_record(incident))
    own = {"writes", "job", "hmac", "foreign", *known}
    more = {name: value for name, value in more.items() if name not in own} | {"foreign": 1}
    read = read_record(json.dumps({**known, **more}))
    assert read == incident._replace(foreign=canonical(more))
    signed = sign_record(read._replace(tagged=True), Stamp(2, 7), b"key")
    found = open_record(incident.uuid, signed.text, b"key")
    assert found.incident == read._replace(tagged=True)
    assert more.items() <= json.loads(found.text).items()


def changed(**members: Any) -> str:
    data = json.loads(write_record(INCIDENT)) | members
    return json.dumps({key: value for key, value in data.items() if value is not ...})


OPEN = {"id": "s", "step": "move", "nodes": [], "instances": [], "at": 1}
DEEP: Any = []
for _ in range(100):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "the record is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("[" * 100000, "the record is not JSON: "),
        ("[]", "the record must be an object, found a list"),
        ("{}", "null is not the version of a record"),
        (changed(version=True), "true is not the version of a record"),
        (changed(version=0), "the number 0 is not the version of a record"),
        (changed(version=2), "the record has version 2; this program reads version 1 only"),
        (changed(uuid=...), "key 'uuid' is missing"),
        (changed(uuid=5), "key 'uuid': a text is expected, found the number 5"),
        (changed(original=[]), "key 'original': an object is expected, found a list"),
        (changed(original={"x": float("nan")}), "the record is not JSON: NaN is not JSON"),
        (changed(status="done"), "key 'status': 'done' is none of noted, pending, completed, fail"),
        (changed(action="sing"), "key 'action': 'sing' is none of Ok, maintenance, live-repair"),
        (changed(tagged=1), "key 'tagged': true or false is expected, found the number 1"),
        (changed(jobs=[True]), "key 'jobs': a whole number is expected, found true"),
        (changed(jobs=5), "key 'jobs': a list is expected, found the number 5"),
        (changed(first_seen=1.0), "key 'first_seen': a whole number is expected, found the num"),
        (changed(healthy_since="x"), "key 'healthy_since': a whole number is expected, found the"),
        (changed(unmovable=[["a"]]), "key 'unmovable': a list of 2 entries is expected, found 1"),
        (changed(object="0"), "key 'object': '0' is not the hash of an object"),
        (changed(open=[5]), "key 'open': an object is expected, found the number 5"),
        (changed(open=[{"id": "s"}]), "key 'open': key 'at' is missing"),
        (changed(jobs=[0]), "key 'jobs': 1 to 9223372036854775807 is expected, found the number 0"),
        (changed(open=[OPEN | {"jobs": [-5]}]), "key 'open': key 'jobs': 1 to 92233720368547758"),
        (changed(observed_since=-(10**400)), "key 'observed_since': 0 to 9223372036854775807 is"),
        (changed(first_seen=2**63), "key 'first_seen': 0 to 9223372036854775807 is expected, fo"),
        (changed(healthy_since=10**40), "key 'healthy_since': 0 to 9223372036854775807 is expec"),
        (changed(synced=[["a", -1]]), "key 'synced': 0 to 9223372036854775807 is expected"),
        (changed(original={"details": DEEP}), "key 'original': lists and objects are nested mor"),
        (changed(note="\udc80"), "the record is not JSON: a text holds half of a surrogate pair"),
        (changed(open=[OPEN | {"more": 1}]), "key 'open': key 'more' is unknown"),
        (changed(open=[OPEN | {"at": ""}]), "key 'open': key 'at': a whole number is expected"),
    ],
)
def test_faults(text: str, fault: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        read_record(text)
    assert str(caught.value).startswith(fault)


@pytest.mark.parametrize(
    ("text", "node"),
    [
        (changed(version=2, more=[]), NODE),
        (changed(node=5), ""),
        (changed(node=...), ""),
        ("[]", ""),
        ("}", ""),
    ],
)
def test_the_node_of_an_unreadable_record(text: str, node: str) -> None:
    assert text_member(text, "node") == node
