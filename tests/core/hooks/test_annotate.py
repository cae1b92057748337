"""Notes on an answer: added to its info, and lost without harm when the plugin fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ganeti_steward.core.model.answer import Answer

if TYPE_CHECKING:
    from sites import Capture, Site


def annotate(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"@hookimpl\ndef steward_annotate(request, cluster, outcome):\n{body}"


def test_notes_follow_the_info(site: Site, capture: Capture) -> None:
    site.plugin("kinds", annotate("yield type(request).__name__", "yield str(len(cluster.nodes))"))
    site.plugin("last", annotate("return ['last']"))
    site.configure()
    plain = site.ask(capture("allocate-drbd"))
    site.configure("kinds", "last")
    noted = site.ask(capture("allocate-drbd"))
    assert isinstance(noted, Answer)
    assert noted == plain._replace(info=f"{plain.info} (Allocate; 6; last)")


def test_a_refusal_is_noted_too(site: Site, capture: Capture) -> None:
    site.plugin("why", annotate("return [f'was {type(outcome).__name__}']"))
    site.configure("why")
    message = capture("allocate-drbd")
    message["request"]["memory"] = 10**7
    assert site.refused(message).endswith(" (was Refusal)")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("raise ValueError('no rack')", "failed: ValueError: no rack"),
        ("return 'one text'", "steward_annotate must give a list, not 'one text'"),
        ("return [5]", "a note is 5, not a text"),
        ("return ['']", "a note is '', not a text"),
        ("return ['\\udc80']", "a note, '\\udc80', cannot be written as UTF-8"),
        ("while True: pass", "took longer than its 0.5 s and was stopped"),
    ],
)
def test_a_failure_loses_only_its_own_notes(
    site: Site, capture: Capture, caplog: pytest.LogCaptureFixture, line: str, fault: str
) -> None:
    site.plugin("broken", annotate(line))
    site.plugin("good", annotate("return ['good']"))
    site.configure()
    plain = site.ask(capture("allocate-drbd"))
    site.configure("broken", "good", limit=0.5)
    assert site.ask(capture("allocate-drbd")) == plain._replace(info=f"{plain.info} (good)")
    assert f"plugin broken: {fault}" in caplog.text


@pytest.mark.parametrize("line", ["return", "return []", "yield from ()"])
def test_no_notes(site: Site, capture: Capture, line: str) -> None:
    site.plugin("silent", annotate(line))
    site.configure()
    plain = site.ask(capture("allocate-drbd"))
    site.configure("silent")
    assert site.ask(capture("allocate-drbd")) == plain


def test_real_process(site: Site, capture: Capture) -> None:
    site.plugin("kinds", annotate("yield type(request).__name__"))
    site.configure("kinds")
    answer = site.run(capture("relocate-drbd"))
    assert answer["success"] is True
    assert answer["info"].endswith(" (Relocate)")
