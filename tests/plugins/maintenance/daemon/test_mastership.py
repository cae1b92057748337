"""The vote before the start and between submissions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.plugins.maintenance.confd.choice import Mastership, Vote
from ganeti_steward.plugins.maintenance.confd.client import Confd
from ganeti_steward.plugins.maintenance.confd.messages import Query, QueryType, Reply, ReplyStatus
from ganeti_steward.plugins.maintenance.daemon.mastership import (
    NotMaster,
    Voting,
    require_master,
)

MASTER, UNDECIDED = Mastership.MASTER, Mastership.UNDECIDED


class Candidates(Confd):
    """Three candidates; each names a master, or does not answer."""

    def __init__(self, *named: str) -> None:
        super().__init__(KeyFile("/nowhere"), ["192.0.2.1", "192.0.2.2", "192.0.2.3"])
        self._named = named

    def query(
        self, kind: QueryType, query: Query = None, *, all_replies: bool = False
    ) -> list[Reply]:
        return [
            Reply(f"192.0.2.{i}", ReplyStatus.OK, [name], 7) for i, name in enumerate(self._named)
        ]


@pytest.mark.parametrize(
    ("named", "result"),
    [(["n1", "n1"], MASTER), (["n1"], UNDECIDED), ([], UNDECIDED), (["n1", "n2"], UNDECIDED)],
)
def test_a_vote(named: Sequence[str], result: Mastership) -> None:
    assert Voting(lambda: Candidates(*named), "n1")().mastership is result
    taken = Voting(lambda: Candidates(*named), "n1", undecided_is_master=True)()
    assert taken.mastership is MASTER
    assert ("--no-voting" in taken.reason) == (result is UNDECIDED)


@pytest.mark.parametrize(
    ("named", "current"),
    [
        ([("n1", 7), ("n1", 7), ("n1", 7)], {0, 1, 2}),
        ([("n1", 8), ("n1", 7), ("n1", 8)], {0, 2}),
        ([("n1", 7), ("n2", 7)], {0}),
        ([("n1", 7), ("n2", 8)], set()),
        ([], set()),
    ],
)
def test_candidates_with_the_latest_configuration(
    named: Sequence[tuple[str, int]], current: set[int]
) -> None:
    """All are waited for; who does not answer is not among them."""

    class All(Candidates):
        def query(
            self, kind: QueryType, query: Query = None, *, all_replies: bool = False
        ) -> list[Reply]:
            assert all_replies
            return [
                Reply(f"192.0.2.{i}", ReplyStatus.OK, [name], serial)
                for i, (name, serial) in enumerate(named)
            ]

    found = Voting(All, "n1").current()
    assert found == {f"192.0.2.{i}" for i in current}


def test_without_a_key_no_candidate_is_known_to_be_current() -> None:
    def no_client() -> Confd:
        raise StewardError("there is no key")

    assert Voting(no_client, "n1").current() == frozenset()


def test_no_voting_is_no_answer_to_a_candidate_with_newer_data() -> None:
    """That may be a failover which has not reached the others yet."""

    class Newer(Candidates):
        def query(
            self, kind: QueryType, query: Query = None, *, all_replies: bool = False
        ) -> list[Reply]:
            return [*super().query(kind, query), Reply("192.0.2.3", ReplyStatus.OK, ["n2"], 8)]

    voting = Voting(lambda: Newer("n1", "n1"), "n1", undecided_is_master=True)
    assert voting().mastership is UNDECIDED


@pytest.mark.parametrize("undecided_is_master", [False, True])
def test_a_lost_vote_is_lost(undecided_is_master: bool) -> None:
    voting = Voting(lambda: Candidates("n2", "n2"), "n1", undecided_is_master=undecided_is_master)
    with pytest.raises(NotMaster, match="2 of 3 master candidates name n2"):
        voting()


def test_without_a_key_the_vote_is_undecided() -> None:
    def no_client() -> Confd:
        raise StewardError("there is no key /nowhere")

    assert Voting(no_client, "n1")() == Vote(UNDECIDED, "there is no key /nowhere")


def test_the_start_waits_for_a_decision() -> None:
    votes = [Vote(UNDECIDED, "first"), Vote(UNDECIDED, "second"), Vote(MASTER, "won")]
    waits: list[float] = []
    reported: list[str] = []
    assert require_master(lambda: votes.pop(0), waits.append, reported.append).reason == "won"
    assert (waits, reported) == ([10, 10], ["first", "second"])


def test_the_start_does_not_wait_for_ever() -> None:
    waits: list[float] = []
    with pytest.raises(StewardError, match="is undecided: none answers"):
        require_master(lambda: Vote(UNDECIDED, "none answers"), waits.append, lambda text: None)
    assert waits == [10] * 5
