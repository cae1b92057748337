"""What is silenced during a maintenance, and for how long, without a real Alertmanager."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import pytest
from worlds import NOW, SECOND, incident, instance, node, uuid_of, world

from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.notify import silences
from ganeti_steward.plugins.maintenance.notify.silences import (
    LASTS,
    Silence,
    Silences,
    keep,
    matchers,
    wanted_silences,
)
from ganeti_steward.plugins.model.incident import (
    MAINTENANCE,
    NOTED,
    PENDING,
    Incident,
    Maintenance,
)
from ganeti_steward.plugins.model.world import World

AUTHOR: Final = "gnt-steward of test"
ONE: Final = Silence("u1", "n2.lab", ("n2.lab", "web.lab"))


class Server:
    """Silences as Alertmanager keeps them: one that has ended stays in the list."""

    def __init__(self) -> None:
        self.known: list[dict[str, Any]] = []

    def silences(self) -> list[dict[str, Any]]:
        return [*self.known]

    def put(self, content: Mapping[str, Any]) -> None:
        number = content.get("id") or f"s{len(self.known)}"
        self.known = [one for one in self.known if one["id"] != number]
        self.known.append({**content, "id": number, "status": {"state": "active"}})

    def end(self, number: str) -> None:
        (one,) = (one for one in self.known if one["id"] == number)
        one["status"] = {"state": "expired"}

    def kept(self, *wanted: Silence, now: int = NOW) -> list[str]:
        """The comments of what is silent then."""
        server: Any = self
        keep(server, wanted, "instance", AUTHOR, now)
        return [one["comment"] for one in self.known if one["status"]["state"] == "active"]


def maintained(status: str = PENDING) -> Incident:
    return incident("n2", MAINTENANCE, status=status, maintenance=Maintenance("stop"))


def seen(*incidents: Incident) -> World:
    down = f"maintd:shutdown:{uuid_of('n2')}"
    there = [
        instance("web", "n2", up=False, status="ADMIN_down", tags=(down,)),
        instance("moves", "n2", "n3"),
        instance("other", "n2", up=False, status="ADMIN_down"),
        instance("started", "n2", tags=(down,)),
    ]
    return world([node("n1"), node("n2"), node("n3")], there, incidents)


def test_a_node_and_what_is_shut_down_with_it() -> None:
    """Instances that migrate run on, and their alerts are real ones."""
    found = maintained()
    assert wanted_silences(seen(found), [found]) == (Silence(found.uuid, "n2", ("n2", "web")),)


def test_what_has_not_begun_or_is_over_is_loud() -> None:
    over = maintained()._replace(status="completed", acknowledged=True)
    for found in (maintained(NOTED), maintained("failed"), over, incident("n2", "evacuate")):
        assert wanted_silences(seen(found), [found]) == ()


@pytest.mark.parametrize(
    ("value", "silent"),
    [
        *(("n2.lab", True), ("n2", True), ("n2.lab:9100", True), ("web:80", True)),
        *(("n22.lab", False), ("n2xlab", False), ("n2.lab:http", False), ("my-n2", False)),
        *(("n2.example.org", False), ("", False)),
    ],
)
def test_the_names_of_an_alert(value: str, silent: bool) -> None:
    (found,) = matchers(ONE, "instance")
    assert (found["name"], found["isRegex"], found["isEqual"]) == ("instance", True, True)
    assert (re.fullmatch(found["value"], value) is not None) == silent


def test_it_is_made_once_renewed_and_ended() -> None:
    server, text = Server(), "maintenance of n2.lab: incident u1"
    assert server.kept(ONE) == [text]
    (made,) = server.known
    assert server.kept(ONE, now=NOW + 60 * SECOND) == [text]
    assert server.known == [made]
    assert server.kept(ONE, now=NOW + LASTS * SECOND // 2) == [text]
    (renewed,) = server.known
    assert (renewed["id"], renewed["startsAt"]) == (made["id"], made["startsAt"])
    assert renewed["endsAt"] > made["endsAt"]
    assert server.kept() == []
    assert server.kept() == []


def test_another_instance_is_shut_down() -> None:
    server = Server()
    server.kept(ONE)
    server.kept(ONE._replace(names=("n2.lab", "web.lab", "db.lab")))
    (one,) = server.known
    assert "db" in one["matchers"][0]["value"]


def test_those_of_others_are_left_alone() -> None:
    server, foreign = Server(), []
    for author in ("admin", "gnt-steward of another"):
        server.put({"createdBy": author, "comment": "incident u1", "id": author})
        foreign.append("incident u1")
    # Two of ours about the same node: one is enough.
    server.kept(ONE)
    server.put({**server.known[-1], "id": "twice"})
    assert server.kept(ONE) == [*foreign, "maintenance of n2.lab: incident u1"]
    assert server.kept() == foreign


class Calls:
    """What the thread would be given; it ends at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.settings = NOW, Maintd(alertmanager="http://192.0.2.1:9093/")
        self.made: list[tuple[Silence, ...]] = []
        self.fault: Exception | None = None
        monkeypatch.setattr(silences, "keep", self._keep)
        self.keeper = self.new()

    def new(self) -> Silences:
        return Silences(lambda: self.settings, lambda: self.now)

    def _keep(self, server: Any, wanted: tuple[Silence, ...], *_: Any) -> None:
        if self.fault:
            raise self.fault
        self.made.append(wanted)

    def round(self, *incidents: Incident) -> str:
        """What fails; empty: nothing."""
        try:
            self.keeper(seen(*incidents), incidents)
        except Exception as err:
            return str(err)
        finally:
            self.keeper.finish(60)
        return ""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


def test_when_alertmanager_is_called(calls: Calls) -> None:
    found = maintained()
    silent = wanted_silences(seen(found), [found])
    for _ in range(3):
        calls.round()
    # Once: an earlier daemon may have left something.
    assert calls.made == [()]
    for _ in range(3):
        calls.round(found)
    assert calls.made == [(), silent]
    calls.now += 61 * SECOND
    calls.round(found)
    calls.round()
    assert calls.made == [(), silent, silent, ()]
    calls.settings = Maintd()
    calls.round(found)
    assert len(calls.made) == 4


def test_a_fault_is_reported_until_it_works_again(calls: Calls) -> None:
    found = maintained()
    calls.fault = OSError("connection refused")
    assert calls.round(found) == ""
    why = "Alertmanager at http://192.0.2.1:9093: connection refused"
    assert [calls.round(found), calls.round(found)] == [why, why]
    calls.fault = None
    assert calls.round(found) == why
    assert calls.round(found) == ""
    assert len(calls.made) == 1
