"""Every scenario file is played as it expects, and together they show the operator's guide."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import source_facts
from asserting import some
from fault_world.scenarios.command import compare, difference
from fault_world.scenarios.events import EVENTS
from fault_world.scenarios.playing import narrative
from fault_world.scenarios.scenario import BadScenario, Scenario, read_scenario
from paths import DATA, DOCS

from ganeti_steward.core.model.finding import STATUSES
from ganeti_steward.plugins.filters.actions.changes import BRAKE
from ganeti_steward.plugins.maintenance.engine.transitions import TABLE
from ganeti_steward.plugins.model.incident import STATUSES as INCIDENT_STATES

FILES: Final = sorted((DATA / "scenarios").glob("*.txt"))

#: Words of what is held back that no scenario shows -> why.
NOT_SHOWN: Final[Mapping[str, str]] = {
    "person": "no built-in plugin sets a tag of a person",
    "canceled": "in scenarios no tag is set between the reading of the cluster and a task",
    "configuration": "the world has no configuration file that changes",
    "reporting": "what cannot be reported is only in the status, which is no part of a scenario",
    "candidate": "the world has no configuration file that changes",
    "filter-action": "the world's daemon has no actions of job filters",
}


@pytest.fixture(autouse=True)
def universal_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Windows are in local time."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@cache
def scenario(path: Path) -> Scenario:
    return read_scenario(path.name, path.read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_played_as_expected(path: Path) -> None:
    found = scenario(path)
    played = narrative(found)
    text = "\n".join(difference(path.name, found.expected, played))
    assert played == found.expected, f"contrib/simulate-faults --accept {path}\n{text}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_invariant_is_broken(path: Path) -> None:
    assert not [line for line in scenario(path).expected if "BROKEN" in line]
    assert path.read_text().startswith("# ")


def lines() -> Iterator[str]:
    return (line for path in FILES for line in scenario(path).expected)


def shown(pattern: str) -> set[str]:
    return {found[1] for line in lines() if (found := re.search(pattern, line))}


def test_enough_scenarios() -> None:
    assert len(FILES) >= 230


def test_every_word_of_what_is_held_back() -> None:
    words = shown(r"^ *[0-9.]+ held .*? ([a-z-]+): ")
    known = source_facts.held_words() | {BRAKE}
    assert known - words - {*NOT_SHOWN} == set()
    assert {*NOT_SHOWN} & words == set()
    assert {*NOT_SHOWN} <= known


def test_every_state_of_an_incident() -> None:
    states = shown(r"incident #\d+ of \S+: ([a-z]+)$")
    assert {*INCIDENT_STATES, *TABLE.values()} - states == {"forgotten"}
    assert shown(r"record (#\d+) was deleted")


def test_every_status_and_observation() -> None:
    reported = shown(r" is ill: (\S+)")
    assert {*STATUSES} - reported == {"Ok", "suspect"}
    assert shown(r" \S+ is ([a-z]+)") >= {"healthy", "suspect", "ill", "silent", "refused"}


def test_every_event_happens() -> None:
    happened = {one.kind for path in FILES for one in scenario(path).events}
    assert {*EVENTS} - happened == set()


BAD: Final = """\
node
node a
node a
node b yellow
volume a
volume c /dev/sda 1
instance w drbd a a
instance x foo
instance y plain a memory much
set hold-time = x
set hold-tim = 3
set hold-time 3
set storm-share = 1
set storm-share = 0.5
at x falls-ill a evacuate
at 3 falls-ill c evacuate
at 3 falls-ill a purple
at 3 paused for 3 4
at 3 daemon-killed for 3
at 3 quux
at 3
until soon
seed 1 2
candidates 0
foo
"""


def test_every_fault_of_a_file_is_named_in_one_sentence() -> None:
    with pytest.raises(BadScenario) as err:
        read_scenario("bad.txt", BAD)
    numbers = [int(fault.split(":")[1]) for fault in some(err.value.faults)]
    good = {2, 13}
    assert numbers == [n for n in range(1, len(BAD.splitlines()) + 1) if n not in good]
    assert all("\n" not in fault for fault in err.value.faults)
    assert err.value.faults[0] == "bad.txt:1: a name is missing"


def test_a_file_without_nodes() -> None:
    with pytest.raises(BadScenario, match="no node is given"):
        read_scenario("empty.txt", "# nothing\n")


def test_files_are_compared_and_accepted(tmp_path: Path) -> None:
    printed: list[str] = []
    file = tmp_path / "site.txt"
    file.write_text("node node1\nnode node2\nat 10 agent-silent node2\nuntil 60\n")
    assert compare([str(file)], accept=False, say=printed.append) == 1
    assert "+     10.0 * agent-silent node2" in printed
    assert compare([str(file)], accept=True, say=printed.append) == 0
    assert compare([str(file)], accept=False, say=printed.append) == 0
    assert printed[-1] == f"{file}: as expected"
    assert "expect:\n" in file.read_text()


def test_files_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    binary, bad = tmp_path / "binary.txt", tmp_path / "bad.txt"
    binary.write_bytes(b"\xff")
    bad.write_text("foo\n")
    missing = tmp_path / "missing.txt"
    assert compare([str(one) for one in (binary, bad, missing)], accept=False) == 1
    faults = capsys.readouterr().err
    assert f"{binary}: it cannot be read: it is not UTF-8 text\n" in faults
    assert f"{bad}:1: foo begins no line" in faults
    assert f"{missing}: it cannot be read: No such file or directory\n" in faults


def test_the_example_of_the_manual() -> None:
    page = (DOCS / "how-to" / "write-a-scenario.md").read_text()
    (example,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    found = read_scenario("example", example)
    assert narrative(found) == found.expected
    for word in some(EVENTS):
        assert f"`{word}`" in page, word
