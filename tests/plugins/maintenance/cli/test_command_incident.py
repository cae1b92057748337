"""``gnt-steward incident``, by luxid and by RAPI."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from recorded import Recorded
from workspace import Done
from worlds import NOW, incident

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.model.finding import object_id
from ganeti_steward.plugins.maintenance.edges.audit import INCIDENTS, OBJECTS, Audit, KeptRow
from ganeti_steward.plugins.maintenance.edges.history import AuditEntry
from ganeti_steward.plugins.maintenance.edges.record import write_record
from ganeti_steward.plugins.maintenance.edges.status import Status, wait_line
from ganeti_steward.plugins.maintenance.page.http import StatusApplication, StatusServer
from ganeti_steward.plugins.model.incident import Incident, Submission
from ganeti_steward.plugins.model.kept_object import kept_of
from ganeti_steward.plugins.model.task import Held

if TYPE_CHECKING:
    from front import Front

Call = Callable[..., Done]

OPEN = Submission("s1", "move", ("node1.lab", "node2.lab"), ("i1",), NOW, jobs=(7,))
PENDING = incident(
    "node1.lab", status="pending", jobs=(6, 7), open=(OPEN,), note="jobs 7 of node node1.lab"
)
READY = incident("node2.lab", status="completed", tagged=True, note="all moved")
FAILED = incident(
    "node3.lab", number=2, status="failed", tagged=True, unmovable=(("i9", "no room"),)
)
FAILED = FAILED._replace(tag=FAILED.failed_tag)


@pytest.fixture
def cluster() -> Recorded:
    return Recorded([PENDING, READY, FAILED])


@pytest.fixture(params=["luxi", "rapi"])
def call(
    cluster: Recorded, front: Front, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Call]:
    with ExitStack() as stack:
        options = stack.enter_context(cluster.reached(tmp_path, request.param))
        yield lambda what, *words: front("incident", what, *words, *options)


def test_list(call: Call) -> None:
    done = call("list", "--no-headers", "--separator", "|", "-o", "uuid,node,status,open-jobs")
    assert done.status == 0
    assert sorted(done.out.splitlines()) == sorted(
        [
            f"{PENDING.uuid}|node1.lab|pending|7",
            f"{READY.uuid}|node2.lab|completed|-",
            f"{FAILED.uuid}|node3.lab|failed|-",
        ]
    )


def test_list_has_headings_and_times(call: Call) -> None:
    first, *lines = call("list").out.splitlines()
    assert first.split() == ["UUID", "Node", "Action", "Status", "Cause", "Progress"]
    assert len(lines) == 3
    dated = call("list", "-o", "+changed", "--no-headers").out.splitlines()
    assert "2026-01-07 " in dated[0]


def test_list_names_cause_and_progress(front: Front, tmp_path: Path) -> None:
    """What is broken and what is being done; of one at rest why it has its status."""
    psu = {"source": "command:psu", "status": "evacuate", "details": "psu 2 failed"}
    moving = PENDING._replace(original=canonical({"status": "evacuate", "details": [psu]}))
    with Recorded([moving, READY]).reached(tmp_path, "luxi") as options:
        done = front("incident", "list", "-o", "node,cause,progress", "--separator=|", *options)
        shown = front("incident", "show", moving.uuid, *options).out
    assert sorted(done.out.splitlines()[1:]) == [
        "node1.lab|command:psu: psu 2 failed|moving i1",
        "node2.lab||all moved",
    ]
    assert "  cause:         command:psu: psu 2 failed\n" in shown


def test_how_far_a_node_is_emptied(call: Call, cluster: Recorded) -> None:
    cluster.homes = [("node1.lab", []), ("node2.lab", ["node1.lab"]), ("node2.lab", ["node3.lab"])]
    done = call("list", "-o", "node,progress", "--separator=|", "--no-headers")
    assert "node1.lab|2 to be moved, moving i1\n" in done.out
    assert "  progress:      2 to be moved, moving i1\n" in call("show", PENDING.uuid).out
    shown = json.loads(call("show", PENDING.uuid, "--json").out)
    assert shown["progress"] == "2 to be moved, moving i1"


def test_what_it_waits_for(front: Front, call: Call) -> None:
    """As the running daemon says it; where it does not answer a note says so."""
    held = Held(PENDING.uuid, "reserved", "another task uses node2", since=NOW)
    server = StatusServer(StatusApplication(Status(NOW), lambda: 60, lambda: NOW), "127.0.0.1", 0)
    server.start()
    front.configure(f'[maintd]\naddress = "127.0.0.1"\nport = {server.port}\n')
    try:
        server.publish(Status(NOW, incidents=(PENDING,), held=(held,)))
        line = wait_line(held)
        done = call("list", "-o", "node,waits", "--separator=|", "--no-headers")
        assert f"node1.lab|{line}\n" in done.out
        shown = " ".join(call("show", PENDING.uuid).out.split())
        assert f"waits: {line}" in shown
    finally:
        server.stop()
    done = call("list")
    assert "Note: what holds incidents back is not known: the maintenance daemon at" in done.err


def test_ack_of_what_goes_on_names_cancel(call: Call) -> None:
    done = call("ack", PENDING.uuid)
    assert done.status == 1
    assert f"To end it: gnt-steward incident cancel {PENDING.uuid}" in " ".join(done.err.split())


@pytest.mark.parametrize("action", ["dead", "evacuate-failover"])
def test_fence_permits_that_a_node_is_switched_off(
    front: Front, tmp_path: Path, action: str
) -> None:
    dead = PENDING._replace(action=action)
    cluster = Recorded([dead])
    with cluster.reached(tmp_path, "luxi") as options:
        done = front("incident", "fence", dead.uuid, *options)
    assert done.status == 0
    assert [tags for _, _, tags in cluster.done] == [[f"maintd:fence:{dead.uuid}"]]
    assert f"Set maintd:fence:{dead.uuid} on node1.lab; " in done.out


@pytest.mark.parametrize("one", [PENDING, READY._replace(action="dead")])
def test_fence_refuses_what_switches_nothing_off(
    front: Front, tmp_path: Path, one: Incident
) -> None:
    cluster = Recorded([one])
    with cluster.reached(tmp_path, "luxi") as options:
        done = front("incident", "fence", one.uuid, *options)
    assert (done.status, cluster.done) == (1, [])
    sentence = f"incident {one.uuid} ({one.action}, {one.status}) switches no node off"
    assert sentence in " ".join(done.err.split())


@pytest.mark.parametrize("name", ["node3.lab", "node3"])
def test_by_the_name_of_the_node(cluster: Recorded, call: Call, name: str) -> None:
    assert call("ack", name).status == 0
    assert [(node, tags) for _, node, tags in cluster.done] == [("node3.lab", [FAILED.tag])]


def test_several_of_a_node(front: Front, tmp_path: Path) -> None:
    other = incident("node3.lab", number=4, status="failed", tagged=True)
    over = READY._replace(node_name="node3.lab", acknowledged=True)
    with Recorded([FAILED, over]).reached(tmp_path, "luxi") as options:
        assert front("incident", "show", "node3", *options).out.split()[1] == FAILED.uuid
    with Recorded([FAILED, other]).reached(tmp_path, "luxi") as options:
        done = front("incident", "ack", "node3", *options)
    assert done.status == 1
    assert "2 incidents are of node node3.lab: " in done.err


def test_list_as_data(call: Call) -> None:
    found = {row["uuid"]: row for row in json.loads(call("list", "--json").out)}
    assert found[FAILED.uuid]["unmovable"] == ["i9"]
    assert found[PENDING.uuid]["jobs"] == ["6", "7"]
    assert found[READY.uuid]["tagged"] is True


def test_the_oldest_is_first(front: Front, tmp_path: Path) -> None:
    younger = PENDING._replace(uuid="0" * 36, first_seen=NOW)
    with Recorded([younger, READY]).reached(tmp_path, "luxi") as options:
        lines = front("incident", "list", "--no-headers", *options).out.splitlines()
    assert [line.split()[0] for line in lines] == [READY.uuid, younger.uuid]


def test_an_unknown_field_is_named(call: Call) -> None:
    assert "unknown field 'x'" in call("list", "-o", "x").err


def test_show(call: Call) -> None:
    text = call("show", PENDING.uuid).out
    for part in (
        f"Incident {PENDING.uuid}\n",
        "status:        pending\n",
        "jobs:          6, 7\n",
        "in progress:   move since ",
        "(jobs 7), uses node1.lab, node2.lab, i1\n",
        '      "number": 1,\n',
    ):
        assert part in text
    assert "not moved:     i9: no room\n" in call("show", FAILED.uuid).out


def test_show_as_data(call: Call) -> None:
    found = json.loads(call("show", READY.uuid, "--json").out)
    assert found["repair-status"] == "completed"
    assert found["original"] == {"status": "evacuate", "number": 1}
    assert "held" not in found


def test_those_without_a_record(call: Call, tmp_path: Path) -> None:
    """The audit log has them: the list and all that was recorded."""
    file = str(tmp_path / "audit.db")
    gone = PENDING._replace(uuid="f" * 36, status="canceled", note="over")
    rows = [KeptRow(INCIDENTS, one.uuid, NOW, write_record(one)) for one in (gone, READY)]
    Audit(file).write([], rows)
    listed = call("list", "--all", "--audit-file", file, "--no-headers", "-o", "uuid").out
    assert sorted(listed.split()) == sorted([gone.uuid, PENDING.uuid, READY.uuid, FAILED.uuid])
    assert len(call("list", "--no-headers").out.splitlines()) == 3
    assert "note:          over\n" in call("show", "ffff", "--all", "--audit-file", file).out
    assert call("show", "ffff").status == 1


def test_all_of_a_large_object(front: Front, tmp_path: Path) -> None:
    """The record has a part of it; the audit log of the master has it whole."""
    original = canonical({"status": "evacuate", "details": "x" * 9000 + "end"})
    large = READY._replace(original=kept_of(original), object=object_id(original))
    file = str(tmp_path / "audit.db")
    words = ("show", large.uuid, "--audit-file", file)
    with Recorded([large]).reached(tmp_path, "luxi") as options:
        before = front("incident", *words, *options).out
        Audit(file).write([], [KeptRow(OBJECTS, large.object, NOW, original.decode())])
        after = front("incident", *words, *options).out
        data = json.loads(front("incident", *words, "--json", *options).out)
    assert ('"bytes": ' in before, 'xend"' in before) == (True, False)
    assert ('"bytes": ' in after, 'xend"' in after) == (False, True)
    assert (data["original"], data["object"]) == (json.loads(original), large.object)


def test_the_beginning_of_a_uuid_is_enough(call: Call) -> None:
    assert f"Incident {READY.uuid}\n" in call("show", READY.uuid[:9].upper()).out


def test_an_unknown_uuid_is_one_sentence(call: Call) -> None:
    done = call("show", "nothing")
    assert (done.status, done.out) == (1, "")
    assert done.err == (
        "gnt-steward incident: no incident has the uuid or the node 'nothing' (incidents "
        "recorded: 3)\n"
    )


def test_an_ambiguous_uuid_is_one_sentence(front: Front, tmp_path: Path) -> None:
    alike = [PENDING._replace(uuid=f"abc{number}") for number in range(7)]
    with Recorded(alike).reached(tmp_path, "luxi") as options:
        done = front("incident", "show", "abc", *options)
    assert done.err == (
        "gnt-steward incident: 7 incidents begin with 'abc': abc0, abc1, abc2, abc3, abc4 and 2 "
        "more\n"
    )


def test_a_record_cannot_change_the_terminal(front: Front, tmp_path: Path) -> None:
    """Everybody who may write job filter rules can write a record."""
    text = "all moved\x1b[2J\nincident=1 forged\x9b2J"
    bad = READY._replace(note=text, unmovable=(("i9\x1b]0;x\x07", text),), node_name="n\x1b[1m")
    with Recorded([bad]).reached(tmp_path, "luxi") as options:
        for words in (["list"], ["list", "--separator", "|"], ["show", bad.uuid], ["show", "x"]):
            done = front("incident", *words, *options)
            assert set(done.out + done.err) - {"\n"} <= set(map(chr, range(32, 127)))
            assert "forged" in done.out or words[-1] == "x"
            assert not any(line.startswith("incident=1") for line in done.out.splitlines())


@pytest.mark.parametrize("one", [READY, FAILED])
def test_ack_removes_the_tag(call: Call, cluster: Recorded, one: Incident) -> None:
    done = call("ack", one.uuid)
    assert done.out == f"Removed {one.tag} from {one.node_name}.\n"
    assert cluster.done == [("OP_TAGS_DEL", one.node_name, [one.tag])]


def test_ack_of_an_incident_in_progress_is_refused(call: Call, cluster: Recorded) -> None:
    done = call("ack", PENDING.uuid)
    assert done.status == 1
    assert f"incident {PENDING.uuid} is pending; only the tag of a completed" in done.err
    assert cluster.done == []


def test_ack_without_a_tag(front: Front, tmp_path: Path) -> None:
    twice = READY._replace(uuid="1", acknowledged=True)
    early = READY._replace(uuid="2", tagged=False)
    with Recorded([twice, early]).reached(tmp_path, "luxi") as options:
        assert "acknowledged already" in front("incident", "ack", "1", *options).out
        assert "is not set on node2.lab yet" in front("incident", "ack", "2", *options).err


def test_cancel_sets_the_tag(call: Call, cluster: Recorded) -> None:
    done = call("cancel", PENDING.uuid)
    assert done.status == 0
    assert done.out.startswith(f"Set {PENDING.cancel_tag} on node1.lab")
    assert cluster.done == [("OP_TAGS_SET", "node1.lab", [PENDING.cancel_tag])]


def test_cancel_twice(front: Front, tmp_path: Path) -> None:
    cluster = Recorded([PENDING._replace(status="canceled")])
    with cluster.reached(tmp_path, "luxi") as options:
        done = front("incident", "cancel", PENDING.uuid, *options)
    assert done.status == 0
    assert "canceled already" in done.out
    assert cluster.done == []


def test_submit_prints_the_number_only(call: Call) -> None:
    assert call("cancel", PENDING.uuid, "--submit").out == "41\n"


def test_a_job_that_fails(call: Call, cluster: Recorded) -> None:
    cluster.error = "Tag not found"
    done = call("ack", READY.uuid)
    assert done.status == 1
    assert "the job failed: Tag not found" in done.err


def test_a_record_that_cannot_be_read_is_a_note(call: Call, cluster: Recorded) -> None:
    cluster.rows[0]["reason_trail"][0][1] = "{"
    done = call("list", "--no-headers")
    assert len(done.out.splitlines()) == 2
    assert f"Note: filter rule {PENDING.uuid} is not the record of an incident" in done.err


def test_a_file_has_no_incidents(front: Front) -> None:
    done = front("incident", "list", "--file", "x.json")
    assert done.status == 2
    assert "unrecognized arguments: --file x.json" in done.err


# History


@pytest.fixture
def audit(front: Front, tmp_path: Path) -> None:
    file = tmp_path / "audit.db"
    front.configure(f'[maintd]\naudit-file = "{file}"')
    log = Audit(str(file))
    log.start(NOW)
    common = {"node": "u1", "node_name": "node1.lab"}
    log.write(
        [
            AuditEntry(NOW, "change", "abc1", event="reported", before="new", after="noted",
                  reason="node1.lab reports evacuate", **common),
            AuditEntry(NOW + 10**9, "held", "abc1", event="hold", before="", after="",
                  reason="held for 300 s", **common),
            AuditEntry(NOW + 2 * 10**9, "held", "cluster", "", "", "master", "", "", "undecided"),
        ]
    )  # fmt: skip


@pytest.mark.usefixtures("audit")
def test_history(front: Front) -> None:
    lines = front("incident", "history", "--separator", "|").out.splitlines()
    assert lines[0] == "At|Incident|Node|Event|After|Reason"
    assert [line.split("|", 1)[1] for line in lines[1:]] == [
        "abc1|node1.lab|reported|noted|node1.lab reports evacuate",
        "abc1|node1.lab|hold|-|held for 300 s",
        "cluster|-|master|-|undecided",
    ]


@pytest.mark.usefixtures("audit")
def test_history_of_one_incident_or_node(front: Front) -> None:
    for words in (["ABC"], ["--node", "node1.lab"]):
        lines = front("incident", "history", "--no-headers", "-o", "kind", *words).out.splitlines()
        assert lines == ["change", "held"]
    done = front("incident", "history", "zzz")
    assert done.status == 1
    assert "has nothing about incident 'zzz'" in done.err


def test_history_without_an_audit_log(front: Front, tmp_path: Path) -> None:
    done = front("incident", "history", "--audit-file", str(tmp_path / "none"))
    assert done.err == f"gnt-steward incident: there is no audit log {tmp_path / 'none'}\n"
