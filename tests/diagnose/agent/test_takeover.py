"""A request to become the master: followed once, soon, and only where all is as it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from repair_bench import Bench
from repair_requests import NODE, question, request

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.ganeti.signing import sign
from ganeti_steward.core.node_agent.protocol import (
    MASTER_FAILOVER,
    CommandEnd,
    RepairRequest,
)
from ganeti_steward.diagnose.agent.takeover import PROGRAM, VALID, Takeover

MASTER: Final = "node9.lab"
NOW: Final = 100_000


class Candidate(Bench):
    """An agent that may make its node the master; the others are node9.lab and node2.lab."""

    def __init__(self, path: Path, *, permitted: bool = True) -> None:
        super().__init__(path, NOW)
        self.data = path / "ganeti"
        self.data.mkdir()
        self.knows(MASTER)
        self.taken: list[RepairRequest] = []
        self.end = CommandEnd(0, "")
        if permitted:
            self.takeover = Takeover(str(self.data), lambda: NODE, lambda: self.now, self._take)
        self.runs_commands = False
        self.repairs = self.process()

    def knows(self, master: str, *candidates: str) -> None:
        """What Ganeti's files on this node have."""
        (self.data / "ssconf_master_node").write_text(f"{master}\n")
        names = candidates or (MASTER, NODE.name)
        (self.data / "ssconf_master_candidates").write_text("".join(f"{x}\n" for x in names))

    def _take(self, given: RepairRequest) -> CommandEnd:
        self.taken.append(given)
        return self.end

    def requested(self, **changed: Any) -> dict[str, Any] | None:
        """The answer to a request that is good but for what is changed; None: it is unsigned."""
        good = {
            "purpose": MASTER_FAILOVER,
            "command": MASTER_FAILOVER,
            "diagnose": {"master": MASTER, "maintenance": "m1"},
            "id": "id-1",
            "submitted": int(self.now),
        }
        return self.ask(request(self.nonce(), **good | changed))


def test_it_becomes_the_master(tmp_path: Path) -> None:
    candidate = Candidate(tmp_path)
    answer = candidate.requested()
    assert answer is not None
    assert (answer["state"], answer["status"], answer["started"]) == ("ended", 0, NOW)
    assert [one.id for one in candidate.taken] == ["id-1"]


def test_once(tmp_path: Path) -> None:
    """A second request gets the first one's result, also from another process of the agent."""
    candidate = Candidate(tmp_path)
    first = candidate.requested()
    again = candidate.requested()
    candidate.repairs = candidate.process()
    last = candidate.requested()
    found = [answer["started"] for answer in (first, again, last) if answer]
    assert found == [NOW] * 3
    assert len(candidate.taken) == 1


def test_what_was_queried_before_it_came_is_not_followed(tmp_path: Path) -> None:
    candidate = Candidate(tmp_path)
    wanted = question(id="id-1", submitted=NOW, purpose="repair-question")
    raw = sign(candidate.key_file.read_bytes(), canonical(wanted).decode(), candidate.nonce())
    found = candidate.query(raw)
    assert found is not None
    assert found["state"] in ("never", "unknown")
    answer = candidate.requested()
    assert answer is not None
    assert answer["state"] == found["state"]
    assert candidate.taken == []


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"submitted": NOW - VALID - 1}, "the request is 61 s old, and it is valid for 60 s"),
        ({"submitted": NOW + VALID + 1}, "the request is 61 s ahead of this node's clock"),
        (
            {"diagnose": {"master": "node2.lab"}},
            "it names the text 'node2.lab' as the master, and node1.lab knows node9.lab as that",
        ),
        ({"diagnose": {}}, "it names null as the master, and"),
    ],
)
def test_refusals_are_signed(tmp_path: Path, changed: dict[str, Any], fault: str) -> None:
    """So the caller knows for certain that nothing is done."""
    candidate = Candidate(tmp_path)
    answer = candidate.requested(**changed)
    assert answer is not None
    assert answer["fault"].startswith(f"it was not run: {fault}")
    assert (answer["state"], answer["started"], candidate.taken) == ("ended", 0, [])


@pytest.mark.parametrize(
    ("master", "candidates", "fault"),
    [
        (NODE.name, (NODE.name,), "it names the text 'node9.lab' as the master"),
        (MASTER, (MASTER, "node2.lab"), "node1.lab is not a master candidate"),
        ("", (NODE.name,), "who is the master is not known on node1.lab"),
    ],
)
def test_the_files_of_ganeti_decide(
    tmp_path: Path, master: str, candidates: tuple[str, ...], fault: str
) -> None:
    candidate = Candidate(tmp_path)
    candidate.knows(master, *candidates)
    answer = candidate.requested()
    assert answer is not None
    assert answer["fault"].startswith(f"it was not run: {fault}")
    assert candidate.taken == []


def test_the_master_does_not_become_the_master(tmp_path: Path) -> None:
    candidate = Candidate(tmp_path)
    candidate.knows(NODE.name, NODE.name)
    answer = candidate.requested(diagnose={"master": NODE.name})
    assert answer is not None
    assert answer["fault"] == "it was not run: node1.lab is the master already"
    assert candidate.taken == []


def test_off_by_default(tmp_path: Path) -> None:
    """Where repair commands are run, the permission is still another one."""
    candidate = Candidate(tmp_path, permitted=False)
    candidate.runs_commands = True
    candidate.repairs = candidate.process()
    answer = candidate.requested()
    assert answer is not None
    assert answer["fault"] == "it was not run: it is not permitted here (agent.master-failover)"
    assert candidate.run == []


def test_the_permission_is_for_nothing_else(tmp_path: Path) -> None:
    """Neither for repair commands, nor for one that is called so."""
    candidate = Candidate(tmp_path)
    named = {"status": "live-repair", "command": MASTER_FAILOVER, "master": MASTER}
    assert candidate.ask(request(candidate.nonce())) is None
    raw = request(candidate.nonce(), command=MASTER_FAILOVER, diagnose=named)
    assert candidate.ask(raw) is None
    candidate.wait()
    assert candidate.requested(command="reboot") is None
    assert (candidate.run, candidate.taken) == ([], [])


def test_a_failure_is_no_refusal(tmp_path: Path) -> None:
    candidate = Candidate(tmp_path)
    candidate.end = CommandEnd(1, "no votes")
    answer = candidate.requested()
    assert answer is not None
    assert (answer["status"], answer["output"], answer["started"]) == (1, "no votes", NOW)


def test_the_votes_of_the_nodes_decide() -> None:
    """Ganeti has them vote, unless an option forbids it."""
    assert PROGRAM == ("/usr/sbin/gnt-cluster", "master-failover")
