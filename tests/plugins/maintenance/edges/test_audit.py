"""The audit log: complete, without repetitions, and never in the way."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from statuses import DONE, INCIDENT, NOW, SECOND

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.service.disk_timeout import DiskTimeout
from ganeti_steward.plugins.maintenance.edges.audit import INCIDENTS as FORGOTTEN
from ganeti_steward.plugins.maintenance.edges.audit import (
    OBJECTS,
    Audit,
    KeptRow,
    read_audit,
    read_kept,
)
from ganeti_steward.plugins.maintenance.edges.history import AuditEntry, Trail
from ganeti_steward.plugins.maintenance.engine.decision import Change, Decision, Started
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.task import Held, Task

HOUR: Final = 3600 * SECOND
INCIDENTS: Final = {one.uuid: one for one in (INCIDENT, DONE)}


def held(sentence: str, brake: str = "hold", subject: str = INCIDENT.uuid) -> Held:
    return Held(subject, brake, sentence)


def entry(at: int = NOW, reason: str = "why", **more: Any) -> AuditEntry:
    return AuditEntry(
        at,
        "change",
        INCIDENT.uuid,
        "uuid-1",
        "node1.lab",
        "all done",
        "pending",
        "completed",
        reason,
    )._replace(**more)


def change(before: Incident | None, after: Incident | None) -> AuditEntry:
    """The entry of a change."""
    changes = (Change(before, after, "cancel requested", "an admin set a tag"),)
    (found,) = Trail().entries(Decision(changes=changes), {}, NOW)
    return found


def test_changes() -> None:
    acknowledged = DONE._replace(status="completed", acknowledged=True)
    for before, after, states in (
        (None, INCIDENT, ("new", "pending")),
        (INCIDENT, None, ("pending", "forgotten")),
        (DONE, acknowledged, ("failed", "acknowledged")),
    ):
        found, one = change(before, after), after or before
        assert one is not None
        assert found == AuditEntry(
            NOW,
            "change",
            one.uuid,
            one.node,
            one.node_name,
            "cancel requested",
            *states,
            "an admin set a tag",
        )


def test_lines() -> None:
    assert entry().line == (
        f"incident={INCIDENT.uuid} node=node1.lab from=pending to=completed "
        'event="all done" reason="why"'
    )
    assert entry(kind="held", event="max nodes", reason='2 of "1"\nx').line == (
        f'incident={INCIDENT.uuid} node=node1.lab held="max nodes" reason="2 of \\"1\\"\\nx"'
    )
    other = entry(kind="held", incident="cluster", node="", node_name="", event="pause")
    assert other.line == 'incident=cluster held=pause reason="why"'
    assert entry(kind="task", event="move").line == (
        f'incident={INCIDENT.uuid} node=node1.lab task=move reason="why"'
    )


def test_alarms() -> None:
    assert not entry().alarming
    assert entry(after="failed").alarming
    assert entry(kind="held", event="stuck", after="").alarming
    assert not entry(kind="held", event="hold", after="").alarming


def test_tasks() -> None:
    task = Task("move", frozenset(), frozenset(), "moves web1")
    decision = Decision(started=(Started(DONE.uuid, "s1", task),), records=(DONE,))
    assert Trail().entries(decision, {}, NOW) == [
        AuditEntry(NOW, "task", DONE.uuid, "uuid-2", "node2.lab", "move", "", "", "moves web1")
    ]


def test_what_is_held_is_reported_once() -> None:
    trail = Trail()

    def news(at: int, *found: Held) -> list[str]:
        entries = trail.entries(Decision(held=found), INCIDENTS, NOW + at)
        assert all(one.kind == "held" for one in entries)
        return [one.reason for one in entries]

    assert news(0, held("300 s are left")) == ["300 s are left"]
    assert news(60, held("240 s are left")) == []
    assert news(60, held("0.5 s are left"), held("no window", "window")) == ["no window"]
    assert news(60, held("1 s are left", subject="x")) == ["1 s are left"]
    # What was not held in between is new.
    assert news(60, held("7 s are left")) == ["7 s are left"]
    assert news(60, held("node1.lab waits")) == ["node1.lab waits"]
    assert news(60, held("node2.lab waits")) == ["node2.lab waits"]
    assert news(60, held("node2.lab waits 5 s")) == ["node2.lab waits 5 s"]
    # Numbers that have changed are repeated after an hour, equal ones never.
    assert news(HOUR, held("node2.lab waits 6 s")) == []
    assert news(HOUR + 60, held("node2.lab waits 7 s")) == ["node2.lab waits 7 s"]
    assert news(9 * HOUR, held("node2.lab waits 7 s")) == []


@pytest.mark.parametrize(
    "sentences",
    [
        ("tag maintd:cancel:a names no incident", "tag maintd:cancel:b names no incident"),
        ("tag maintd:closed:1 names no incident", "tag maintd:closed:2 names no incident"),
        ("the same", "the same"),
    ],
)
@pytest.mark.parametrize("order", [1, -1])
def test_each_of_several_sentences_of_one_brake_is_reported_once(
    sentences: tuple[str, str], order: int
) -> None:
    """Two unknown tags of a node, for example, whatever the order in which they are found."""
    trail = Trail()
    found = [held(one, "unknown", subject="node1.lab") for one in sentences]
    first = trail.entries(Decision(held=tuple(found)), {}, NOW)
    assert [one.reason for one in first] == [*sentences]
    again = Decision(held=tuple(found[::order]))
    assert [trail.entries(again, {}, NOW + at * 60) for at in range(1, 30)] == [[]] * 29
    later = [trail.entries(again, {}, NOW + at * HOUR // 6) for at in range(4, 100)]
    assert sum(map(len, later)) <= 2


def test_the_node_of_what_is_held() -> None:
    (one,) = Trail().entries(Decision(held=(held("x"),)), INCIDENTS, NOW)
    assert (one.node, one.node_name) == ("uuid-1", "node1.lab")


def audit(path: Path) -> Audit:
    found = Audit(str(path))
    found.start(NOW)
    return found


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "audit # 1.db"
    one = audit(path)
    entries = [entry(NOW + n, f"ä {n}") for n in range(3)]
    other = entry(NOW + 1, incident=DONE.uuid, node="uuid-2", node_name="node2.lab")
    one.write(entries)
    one.write([other])
    one.write([])
    found = str(path)
    assert read_audit(found) == [entries[0], *sorted([entries[1], other]), entries[2]]
    assert read_audit(found, incident=DONE.uuid) == [other]
    assert read_audit(found, node="uuid-2") == read_audit(found, node="node2.lab") == [other]
    assert read_audit(found, since=NOW + 2) == [entries[2]]
    assert read_audit(found, incident=DONE.uuid, node="node1.lab") == []
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_reading_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    with pytest.raises(StewardError, match="there is no audit log"):
        read_audit(str(path))
    assert not path.exists()
    with pytest.raises(StewardError, match="there is no audit log configured"):
        read_audit("")
    audit(path).write([entry()])
    before = path.read_bytes()
    read_audit(str(path))
    assert path.read_bytes() == before
    path.write_bytes(b"no database" * 100)
    with pytest.raises(StewardError, match=r"cannot be read: file is not a database"):
        read_audit(str(path))


def test_old_entries_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    first = audit(path)
    day = 86400 * SECOND
    first.write([entry(NOW - 401 * day, "x" * 10**6), entry(NOW - 399 * day)])
    size = path.stat().st_size
    audit(path)
    assert [one.at for one in read_audit(str(path))] == [NOW - 399 * day]
    assert path.stat().st_size < size / 2


def test_each_entry_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ganeti_steward"):
        audit(tmp_path / "audit.db").write([entry(), entry(after="failed")])
        Audit("").write([entry()])
    assert caplog.messages == [entry().line, entry(after="failed").line, entry().line]
    assert [one.levelname for one in caplog.records] == ["INFO", "WARNING", "INFO"]


def test_a_file_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One warning, no failure; what was not written is written when that is possible again."""
    path = tmp_path / "audit.db"
    path.write_bytes(b"no database" * 100)
    one = audit(path)
    for n in range(5):
        one.write([entry(NOW + n)])
    fault = f"the audit log {path} cannot be written: file is not a database"
    assert caplog.messages == [fault]
    path.unlink()
    one.write([entry(NOW + 5)])
    assert [found.at - NOW for found in read_audit(str(path))] == [0, 1, 2, 3, 4, 5]


def test_a_directory_that_cannot_be_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    audit(tmp_path / "file" / "audit.db").write([entry()])
    assert "cannot be written" in caplog.text


def test_a_locked_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    one = audit(path)
    other = sqlite3.connect(path)
    try:
        other.execute("BEGIN EXCLUSIVE")
        one.write([entry()])
    finally:
        other.close()
    assert read_audit(str(path)) == []
    one.write([entry(NOW + 1)])
    assert len(read_audit(str(path))) == 2


def test_a_disk_that_does_not_answer(tmp_path: Path) -> None:
    """The daemon waits once, not for each round; nothing is there twice."""
    path, over = tmp_path / "audit.db", threading.Event()
    calls: list[str] = []

    class Slow(DiskTimeout):
        def __call__(self, function: Any, /) -> Any:
            def slow() -> object:
                calls.append("called")
                over.wait(300)
                return function()

            return super().__call__(slow)

    one = Audit(str(path), Slow(0.2))
    for n in range(20):
        one.write([entry(NOW + n)])
    assert calls == ["called"]
    over.set()
    for _ in range(6000):
        one.write([entry(NOW + 20)])
        # The file exists before its table does.
        with suppress(StewardError):
            if len(read_audit(str(path))) == 21:
                break
        time.sleep(0.05)
    assert [found.at - NOW for found in read_audit(str(path))] == list(range(21))


def test_what_waits_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    os.mkdir(path)
    one = Audit(str(path))
    for n in range(1500):
        one.write([entry(NOW + n)])
    os.rmdir(path)
    one.write([])
    assert len(read_audit(str(path))) == 1000


def test_what_is_kept_beside_the_entries(tmp_path: Path) -> None:
    """The latest rows, each once."""
    path = str(tmp_path / "audit.db")
    audit = Audit(path)
    audit.write([], [KeptRow(OBJECTS, f"object{at}", at, f"{at}") for at in range(1, 1100)])
    audit.write(
        [], [KeptRow(OBJECTS, "object1099", 2000, "again"), KeptRow(FORGOTTEN, "u", 1, "r")]
    )
    found = read_kept(path, OBJECTS)
    assert (len(found), found["object1099"], [*found][-1]) == (1000, "again", "object1099")
    assert "object99" not in found
    assert read_kept(path, FORGOTTEN) == {"u": "r"}
    assert read_kept(path, OBJECTS, "object500") == {"object500": "500"}
    with pytest.raises(StewardError, match="there is no audit log"):
        read_kept(str(tmp_path / "other.db"), FORGOTTEN)


def test_what_is_kept_waits_for_the_disk(tmp_path: Path) -> None:
    directory = tmp_path / "state"
    directory.write_text("in the way")
    audit = Audit(str(directory / "audit.db"))
    audit.write([], [KeptRow(FORGOTTEN, "u", 1, "r")])
    directory.unlink()
    audit.write([])
    assert read_kept(str(directory / "audit.db"), FORGOTTEN) == {"u": "r"}


def test_a_text_that_no_encoding_has_keeps_no_other_out(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    one = audit(path)
    one.write([entry(reason="disk \ud800 gone", node_name="\udfff")])
    one.write([entry(NOW + 1)])
    found = read_audit(str(path))
    assert [each.reason for each in found] == ["disk \\ud800 gone", "why"]
    assert one.latest(5) == tuple(found)


@pytest.mark.parametrize(
    "row",
    [
        (5, None, *"bcdefgh"),
        ("now", *"abcdefgh"),
        (1.5, *"abcdefgh"),
        (1, b"change", *"bcdefgh"),
    ],
)
def test_rows_of_another_program(
    tmp_path: Path, row: tuple[object, ...], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.db"
    with sqlite3.connect(path) as database:
        database.execute(f"CREATE TABLE history ({', '.join(AuditEntry._fields)})")
        database.execute("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    database.close()
    with pytest.raises(StewardError, match="cannot be read: a row is not an entry of an audit log"):
        read_audit(str(path), since=-1)
    assert Audit(str(path)).latest(5) == ()
    assert "a row is not an entry of an audit log" in caplog.text
