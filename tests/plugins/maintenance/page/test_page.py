"""The page as a parser sees it: its structure, its words, and that nothing in it is markup."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any, Final

import pages
import pytest
from statuses import INCIDENT, NOW, SECOND, STATUS

from ganeti_steward.allocators.overview.amounts import Amount, Filled, FilledGroup
from ganeti_steward.plugins.maintenance.edges.history import AuditEntry
from ganeti_steward.plugins.maintenance.edges.status import RoundLine, Status
from ganeti_steward.plugins.maintenance.page.http import StatusApplication, StatusServer
from ganeti_steward.plugins.maintenance.page.render import Page
from ganeti_steward.plugins.maintenance.page.view import duration, moment, view
from ganeti_steward.plugins.model.incident import Incident, Maintenance
from ganeti_steward.plugins.model.routine import RoutineJob
from ganeti_steward.plugins.model.task import Held
from ganeti_steward.plugins.model.world import Refused

_EMPTY: Final = frozenset({"meta", "input", "rect", "path", "polyline"})
_MAKE: Final = Page()


class Document(HTMLParser):
    """Elements with their attributes, and the text; fails where a tag is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.parents: list[tuple[str, ...]] = []
        self.texts: list[tuple[str, str]] = []
        """the innermost element of each text, and the text"""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names))
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self.parents.append(tuple(self._open))
        if tag not in _EMPTY:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _EMPTY:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self._open[-1] if self._open else "", " ".join(data.split())))

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def words(self) -> str:
        return " ".join(text for tag, text in self.texts if tag not in ("style", "script"))


def rolling(name: str, status: str = "noted", **more: Any) -> Incident:
    """A node of a roll of three."""
    request = Maintenance("stop", roll="r1", roll_nodes=3)._replace(**more)
    return INCIDENT._replace(
        uuid=name, node_name=name, action="maintenance", maintenance=request, status=status
    )


def test_a_roll() -> None:
    """The time that is left is shown where the records have it."""
    left = rolling("n2"), rolling("n3")
    words = page(STATUS._replace(incidents=left)).words
    assert "Planned maintenance: 1 of 3 nodes are over." in words
    left = rolling("n2", expected=720), rolling("n3", expected=600, deadline=NOW)
    words = page(STATUS._replace(incidents=left)).words
    assert (
        "Planned maintenance: 1 of 3 nodes are over, 1 would be late and will not begin, about 12 "
        "min of work left."
    ) in words
    assert "Planned maintenance" not in page(STATUS).words


def page(status: Status, fault: str = "", now: int = NOW) -> Document:
    return Document(_MAKE(status, fault, now).decode())


@pytest.mark.parametrize("name", pages.ALL)
def test_the_structure(name: str) -> None:
    document = page(pages.ALL[name]())
    tags = Counter(tag for tag, _ in document.elements)
    single = ("html", "head", "h1", "main", "header", "footer", "style", "script")
    assert {tags[one] for one in single} == {1}
    assert ("title", "Ganeti Steward: maintenance of cluster1.example.com") in document.texts
    assert ("h1", "cluster1.example.com: maintenance") in document.texts
    assert document.all("html") == [{"lang": "en"}]
    ids = [attributes["id"] for _, attributes in document.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    named = [attributes.get("aria-labelledby", ids[0]) for _, attributes in document.elements]
    assert {*named} <= {*ids}
    levels = [int(tag[1]) for tag, _ in document.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("name", pages.ALL)
def test_no_two_landmarks_have_one_name(name: str) -> None:
    """What axe calls landmark-unique."""
    regions = [
        attributes.get("aria-label") or attributes.get("aria-labelledby", "")
        for tag, attributes in page(pages.ALL[name]()).elements
        if tag == "section" or attributes.get("role") == "region"
    ]
    assert all(regions)
    assert len(regions) == len({*regions})


def test_every_picture_and_field_has_a_name() -> None:
    document = page(pages.busy())
    pictures = [one for one in document.all("svg") if one.get("role") == "img"]
    titles = [text for tag, text in document.texts if tag == "title"][1:]
    assert len(pictures) == len(titles) == 4 + 3 * (12 + 1)
    assert titles[0] == "Incidents: 1 in 24 h, at most 1 in one hour"
    assert all(title.startswith(("memory: ", "disk: ", "CPU: ")) for title in titles[4:])
    assert any("; planned: " in title for title in titles)
    hidden = [one for one in document.all("svg") if one.get("role") != "img"]
    assert [one["aria-hidden"] for one in hidden] == ["true"]
    inside = [
        parents
        for (tag, _), parents in zip(document.elements, document.parents, strict=True)
        if tag == "input"
    ]
    assert inside
    assert all("label" in parents for parents in inside)
    assert {one["scope"] for one in document.all("th")} == {"row", "col"}


def test_nothing_comes_from_elsewhere() -> None:
    document = page(pages.busy())
    for tag, attributes in document.elements:
        assert not {"src", "style", "srcset", "action"} & {*attributes}, tag
        assert not any(name.startswith("on") for name in attributes)
    targets = [one["href"] for one in document.all("a")]
    assert {*targets} == {
        *("", "#live", "1/status", "1/daemon", "1/jobs", "1/nodes", "1/history", "metrics"),
        *("#incidents", "#nodes"),
    }
    ids = {attributes.get("id") for _, attributes in document.elements}
    assert {one[1:] for one in targets if one.startswith("#")} <= ids
    assert document.all("link") == []


def test_the_policy_allows_its_own_style_and_script_only() -> None:
    document = page(STATUS)
    raw = _MAKE(STATUS, "", NOW).decode()
    for kind in ("style", "script"):
        (content,) = re.findall(rf"<{kind}>(.*?)</{kind}>", raw, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in _MAKE.policy
        assert len(document.all(kind)) == 1
    assert _MAKE.policy.startswith("default-src 'none'; ")


def test_what_the_four_pages_say() -> None:
    assert "No incident is recorded." in page(pages.quiet()).words
    assert "Nothing is held back." in page(pages.quiet()).words
    assert "Room for 2.0G instances about 1201" in page(pages.quiet()).words
    busy = page(pages.busy()).words
    assert "node001.example.com: move (jobs 4711, 4712), since 3 min ago ; uses" in busy
    assert "rebalance group00: move (job 4720)" in busy
    assert "harep web3.example.com: repair , job 4690: error disk 0 is degraded" in busy
    assert "1 node is under repair, the limit is 1" in busy
    assert "when the moves under way are done" in busy
    failed = page(pages.failed(), "the last round failed: no luxid").words
    assert "The daemon is not healthy: the last round failed: no luxid." in failed
    assert failed.index("00000003-1111") < failed.index("00000001-1111")
    assert "db1.example.com : its disk template is file" in failed
    paused = page(pages.paused()).words
    assert "Paused: new switch in rack 7. Nothing new is started." in paused
    assert "Observe mode: the daemon records incidents" in paused
    assert "when the moves it would make are done" in paused


def test_an_incident_names_its_cause_and_progress() -> None:
    assert '{"disk": "sda"} 2 of 4 moved, moving web1' in page(STATUS).words


def test_an_event_is_shown_once() -> None:
    """What belongs to an incident is with it, and a task and its change are one line."""
    status = pages.busy()
    busy = page(status).words
    for entry in status.history:
        assert busy.count(entry.reason) == 1 or entry.kind == "held", entry
    assert busy.count("1 node is under repair, the limit is 1") == 2, "now, and since when"
    assert busy.count("move (jobs 4711, 4712)") == 1
    assert "For incidents: 1, listed with them." in busy
    assert "Of incidents: 2, listed with them." in busy
    assert "Tasks under way 2" in busy
    gone = page(status._replace(incidents=())).words
    assert gone.count("it reports evacuate") == 1


def test_silent_agents_come_before_what_is_held_all_the_time() -> None:
    held = [Held("node1", brake, brake) for brake in ("window", "most-nodes", "silent")]
    shown = view(Status(NOW, held=tuple(held)), "", NOW).held
    assert [one.brake for one in shown] == ["silent", "window", "most-nodes"]


def test_before_the_first_round() -> None:
    words = page(Status(NOW - 5 * SECOND)).words
    assert "They have not been read from Ganeti's configuration yet." in words
    assert "The nodes have not been read yet." in words
    assert "No round has ended yet." in words
    assert "Last round never" in words
    assert "Not known yet: the cluster has not been read." in words


def test_nodes_without_figures_are_shown_all_the_same() -> None:
    words = page(STATUS._replace(overview=())).words
    assert [word for word in words.split() if re.fullmatch(r"node\d\.lab", word)][-5:] == [
        f"node{number}.lab" for number in (1, 3, 4, 5, 2)
    ]
    assert "silent no route" in words
    assert "refused 901 s old" in words


def test_a_group_without_nodes() -> None:
    empty = FilledGroup(Filled("empty", (Amount(0, None),) * 3), ())
    status = pages.busy()
    words = page(status._replace(overview=(*status.overview, empty))).words
    assert "Group empty 0 nodes, memory unknown, disk unknown, CPU unknown" in words


def test_rounds_that_did_nothing_are_one_row() -> None:
    """A round that started something or failed, and one that held back more, are not lost."""

    def line(number: int, started: int = 0, held: int = 0, fault: str = "") -> RoundLine:
        return RoundLine(number, NOW - (9 - number) * SECOND, number / 10, started, held, fault)

    recent = (line(1), line(2), line(3, 2), line(4, 1), line(5), line(6, fault="no luxid"), line(7))
    rounds = view(Status(NOW, recent=(*recent, line(8), line(9, held=1))), "", NOW).rounds
    assert [one.numbers for one in rounds] == ["9", "7 to 8", "6", "5", "4", "3", "1 to 2"]
    assert (rounds[1].seconds, rounds[1].last.ended) == (0.8, NOW - SECOND)
    quiet = page(pages.quiet())
    assert "101 to 120" in quiet.words


def test_many_nodes() -> None:
    """Each has its row; a page of them is small enough to be sent often."""
    status = pages.busy(200)
    raw = _MAKE(status, "", NOW)
    assert len(raw) < 2_500 * 200
    document = Document(raw.decode())
    assert len(document.all("table")) == 5 + 1
    rows = [one for tag, one in document.texts if tag == "th" and one.startswith("node")]
    assert sorted(rows) == sorted(status.nodes.values())
    well = sum(one.get("class") == "well" for one in document.all("tr"))
    assert well == 200 - 5


HOSTILE: Final = "</script></style><b onclick=alert(1)>\"'&{{ 7*7 }}<!--"


def hostile(text: str) -> Status:
    """A status with this text wherever one can come from outside."""
    one = pages.incident(1, text, note=text, tag=text, unmovable=((text, text),))
    task = (
        pages.busy()
        .incidents[0]
        .open[0]
        ._replace(  # type: ignore[index]
            step=text, nodes=(text,), instances=(text,), command=text
        )
    )
    one = one._replace(original=json.dumps({"status": text}).encode(), action=text, open=(task,))
    filled = Filled(text, (Amount(1, 2),) * 3, (), (text,))
    return Status(
        started=NOW,
        mode="act",
        pause=text,
        incidents=(one,),
        held=(Held(one.uuid, text, text), Held(text, text, text)),
        routine=(
            RoutineJob(1, text, text, text, (text,), (text,), status="error", error=text),
            RoutineJob(2, text, text, text, (text,), (text,), status="running"),
        ),
        nodes={one.node: text},
        poll=STATUS.poll._replace(observations={one.node: Refused(NOW - SECOND, text)}),
        round_fault=text,
        recent=(RoundLine(1, NOW, 0.1, 0, 0, text),),
        history=(AuditEntry(NOW, "change", one.uuid, one.node, text, text, text, text, text),),
        overview=(FilledGroup(filled, (filled,)),),
    )


def test_texts_are_no_markup() -> None:
    shape = [tag for tag, _ in page(hostile("harmless"), "harmless").elements]
    document = page(hostile(HOSTILE), HOSTILE)
    assert [tag for tag, _ in document.elements] == shape
    assert document.words.count(HOSTILE) > 20
    assert page(hostile("\x00\x1b\u202e"), "\x00\ud800").elements


def get(server: StatusServer, path: str) -> tuple[http.client.HTTPMessage, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200
        return answer.headers, answer.read().decode()
    finally:
        connection.close()


def numbered(make: Callable[[str], Status]) -> Status:
    """Each text that is ``TEXT`` gets a number of its own."""
    count = 0

    def replaced(value: Any) -> Any:
        nonlocal count
        if value == "TEXT":
            count += 1
            return f"TEXT{count}."
        if isinstance(value, tuple):
            parts = [replaced(one) for one in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        return value

    status: Status = replaced(make("TEXT"))
    (only,) = status.nodes
    name = status.overview[0].nodes[0].name
    return status._replace(nodes={only: name})


def test_the_page_shows_no_more_than_the_other_paths() -> None:
    status = numbered(hostile)
    server = StatusServer(StatusApplication(status, lambda: 1e9, lambda: NOW), "127.0.0.1", 0)
    server.start()
    try:
        headers, shown = get(server, "/ui")
        paths = ("/1/status", "/1/daemon", "/1/jobs", "/1/nodes", "/1/history")
        data = "".join(get(server, path)[1] for path in paths)
    finally:
        server.stop()
    texts = {*re.findall(r"TEXT\d+\.", shown)}
    assert len(texts) > 20
    assert texts <= {*re.findall(r"TEXT\d+\.", data)}
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Content-Security-Policy"] == _MAKE.policy
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_a_page_is_made_once_a_second() -> None:
    """However many callers there are."""
    make, status = Page(), pages.quiet()
    first = make(status, "", NOW)
    assert make(status, "", NOW + SECOND - 1) is first
    assert make(status, "", NOW + SECOND) is not first
    assert make(status, "a fault", NOW + SECOND) is not first
    assert b"13 s ago" in make(status, "", NOW + SECOND)
    assert make(pages.quiet(), "", NOW) is not first


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s"),
        (119.9, "119 s"),
        (120, "2 min"),
        (7199, "119 min"),
        (7200, "2 h"),
        (172_799, "47 h"),
        (172_800, "2 days"),
        (10**9, "11574 days"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_moments() -> None:
    assert moment(0, NOW) is moment(None, NOW) is None
    assert moment(NOW - 7 * SECOND, NOW) == ("2026-01-07 11:59:53 UTC", "7 s ago")


@pytest.mark.parametrize("at", [10**40, -(10**40), 2**70])
def test_what_is_no_time_does_not_hide_the_page(at: int) -> None:
    found = moment(at, NOW)
    assert found
    assert found.iso == str(at) or found.iso.endswith(" UTC")
    late = INCIDENT._replace(first_seen=at, changed=at, progressed=at, healthy_since=at)
    assert page(STATUS._replace(incidents=(late,))).elements
