"""Whether this node is the master, by the vote of the master candidates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.plugins.maintenance.confd.choice import (
    Mastership,
    Vote,
    current_candidates,
    vote,
)
from ganeti_steward.plugins.maintenance.confd.client import Confd
from ganeti_steward.plugins.maintenance.confd.messages import MASTER_FIELDS, QueryType

#: Votes before the start while none is decided, and seconds between two of them.
TRIES: Final = 6
BETWEEN_TRIES: Final = 10.0


class NotMaster(StewardError):
    """This node is not the master: the daemon ends."""


class Voting:
    """Counts the votes for this node."""

    def __init__(
        self, confd: Callable[[], Confd], own_name: str, *, undecided_is_master: bool = False
    ) -> None:
        """``confd``: a client with the candidates of that moment; ``own_name``: full node name.

        ``undecided_is_master``: an admin answers for it where too few candidates answer, but not
        against one that names another master at the highest serial.
        """
        self._confd, self._own_name = confd, own_name
        self._undecided_is_master = undecided_is_master

    def __call__(self) -> Vote:
        """The vote now: master or undecided; raises NotMaster where it is lost."""
        result = self._vote()
        if result.mastership is Mastership.NOT_MASTER:
            raise NotMaster(result.reason)
        contradicted = result.master not in ("", self._own_name)
        if (
            result.mastership is Mastership.UNDECIDED
            and self._undecided_is_master
            and not contradicted
        ):
            reason = f"{result.reason}; taken as won because of --no-voting"
            return result._replace(mastership=Mastership.MASTER, reason=reason)
        return result

    def current(self) -> frozenset[str]:
        """Addresses of the candidates that name this node as the master at the highest serial.

        That serial is the highest of all that answered: who did not may have a higher one.
        """
        try:
            client = self._confd()
            replies = client.query(QueryType.CLUSTER_MASTER, MASTER_FIELDS, all_replies=True)
        except StewardError:
            return frozenset()
        return current_candidates(self._own_name, replies)

    def _vote(self) -> Vote:
        try:
            client = self._confd()
            replies = client.query(QueryType.CLUSTER_MASTER, MASTER_FIELDS)
        except StewardError as err:
            return Vote(Mastership.UNDECIDED, str(err))
        return vote(self._own_name, replies, len(client.candidates))


def require_master(
    voting: Callable[[], Vote], wait: Callable[[float], object], report: Callable[[str], None]
) -> Vote:
    """The vote before the start; raises NotMaster, and StewardError while it stays undecided.

    ``wait``: waits for that many seconds; ``report`` gets the sentence of each undecided vote.
    """
    for number in range(TRIES):
        if number:
            wait(BETWEEN_TRIES)
        result = voting()
        if result.mastership is Mastership.MASTER:
            return result
        report(result.reason)
    raise StewardError(f"whether this node is the master is undecided: {result.reason}")
