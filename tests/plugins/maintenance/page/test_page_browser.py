"""The page in a real browser: accessibility, keyboard, refreshing, no JavaScript; --thorough."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pages
import pytest
from chromium import Browser, browser
from statuses import NOW

from ganeti_steward.plugins.maintenance.edges.status import Status
from ganeti_steward.plugins.maintenance.page.http import StatusApplication, StatusServer

pytestmark = pytest.mark.thorough

WIDTHS: Final = {"desktop": 1280, "phone": 360}
#: Scripts: what the keyboard reaches, and whether one of it can be seen.
_REACHED: Final = "[...document.querySelectorAll('summary, a, input')]"
_SEEN: Final = "one.checkVisibility()"
#: The part that is scrolled by itself where it does not fit.
_ROUNDS: Final = "document.querySelector('.scroll')"
TAB, ENTER, SPACE = ("Tab", 9), ("Enter", 13), (" ", 32)


@contextmanager
def serving(status: Status) -> Iterator[tuple[StatusServer, str]]:
    server = StatusServer(StatusApplication(status, lambda: 100, lambda: NOW), "127.0.0.1", 0)
    server.start()
    try:
        yield server, f"http://127.0.0.1:{server.port}/ui"
    finally:
        server.stop()


@pytest.fixture
def chromium(tmp_path: Path) -> Iterator[Browser]:
    with browser(tmp_path / "profile") as found:
        yield found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", [*pages.ALL, "many"])
def test_nothing_serious_for_axe(chromium: Browser, name: str, width: str, scheme: str) -> None:
    status = pages.busy(200) if name == "many" else pages.ALL[name]()
    chromium.size(WIDTHS[width], 900)
    chromium.call("Page.setBypassCSP", enabled=True)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    chromium.call("Emulation.setEmulatedMedia", features=features)
    with serving(status) as (_, address):
        chromium.open(address)
        chromium.run("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert chromium.faults() == []
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert chromium.run(wide) == 0
        assert chromium.run(f"{_ROUNDS}.scrollWidth - {_ROUNDS}.clientWidth") == 0


def test_axe_finds_what_is_wrong(chromium: Browser) -> None:
    chromium.call("Page.setBypassCSP", enabled=True)
    with serving(pages.quiet()) as (_, address):
        chromium.open(address)
        chromium.run("document.querySelector('svg[role=img] title').remove()")
        assert [one.partition(":")[0] for one in chromium.faults()] == ["svg-img-alt"]


def test_the_keyboard_alone(chromium: Browser) -> None:
    """Each part that opens or is checked gets the focus in turn, and answers to a key."""
    where = "document.activeElement.id || document.activeElement.textContent.slice(0, 30)"
    with serving(pages.busy()) as (_, address):
        chromium.open(address)
        wanted = chromium.run(f"{_REACHED}.length")
        seen = list[str]()
        chromium.press(*TAB)
        assert chromium.run(where) == "Skip to the content"
        assert chromium.run("document.activeElement.getBoundingClientRect().left") >= 0
        while chromium.run("document.activeElement !== document.body") and len(seen) < 3 * wanted:
            if chromium.run("document.activeElement.matches('summary')"):
                before = chromium.run("document.activeElement.parentElement.open")
                chromium.press(*ENTER)
                assert chromium.run("document.activeElement.parentElement.open") is not before
                chromium.press(*ENTER)
            if chromium.run("document.activeElement.matches('input')"):
                chromium.press(*SPACE)
                assert chromium.run("document.activeElement.checked")
            seen.append(chromium.run(where))
            chromium.press(*TAB)
        assert len(seen) >= wanted - chromium.run(f"{_REACHED}.filter(one => !{_SEEN}).length")
        assert "only" in seen


def test_only_the_nodes_to_look_at(chromium: Browser) -> None:
    rows = "[...document.querySelectorAll('.nodes tbody tr:not(.whole)')]"
    shown = f"{rows}.filter(one => {_SEEN}).length"
    with serving(pages.busy(200)) as (_, address):
        chromium.open(address)
        assert 0 < chromium.run(shown) < 200
        chromium.run("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert chromium.run(shown) == 200
        chromium.run("document.getElementById('only').click()")
        assert chromium.run(shown) == 5


def test_refreshing_keeps_what_the_reader_did(chromium: Browser) -> None:
    status = pages.busy()
    with serving(status) as (server, address):
        chromium.open(address)
        chromium.run("document.querySelector('details.card').open = false")
        chromium.run("document.getElementById('only').click()")
        chromium.run("document.querySelectorAll('details.card > summary')[1].focus()")
        focused = chromium.run("document.activeElement.textContent")
        server.publish(status._replace(pause="a new switch"))
        chromium.run("refresh()")
        assert "Paused: a new switch" in chromium.run("document.body.innerText")
        assert chromium.run("document.querySelector('details.card').open") is False
        assert chromium.run("document.getElementById('only').checked") is True
        assert chromium.run("document.activeElement.textContent") == focused
    chromium.run("refresh()")
    assert "The daemon does not answer." in chromium.run("document.body.innerText")


def test_the_page_refreshes_by_itself(chromium: Browser) -> None:
    status = pages.quiet()
    with serving(status) as (server, address):
        chromium.open(address)
        server.publish(status._replace(pause="a new switch"))
        chromium.until("document.body.innerText.includes('Paused: a new switch')")


def test_without_javascript(chromium: Browser) -> None:
    chromium.call("Emulation.setScriptExecutionDisabled", value=True)
    with serving(pages.failed()) as (_, address):
        chromium.open(address)
        root = chromium.call("DOM.getDocument", depth=-1)["root"]
        text = chromium.call("DOM.getOuterHTML", nodeId=root["nodeId"])["outerHTML"]
    assert "2 instances could not be moved" in text
    assert "refreshed every" not in text.partition("<script>")[0]


def test_hostile_texts_run_nothing(chromium: Browser) -> None:
    text = "<img src=x onerror=document.title='run'><script>document.title='run'</script>"
    status = pages.busy()
    (first, *others) = status.incidents or ()
    status = status._replace(incidents=(first._replace(note=text), *others), pause=text)
    with serving(status) as (_, address):
        chromium.open(address)
        assert text in chromium.run("document.body.innerText")
        # Nor would it, if it were markup.
        chromium.run(f"document.body.insertAdjacentHTML('beforeend', {text!r})")
        chromium.run("new Promise(done => setTimeout(done, 200))")
        assert chromium.run("document.title").startswith("Ganeti Steward: maintenance of ")
