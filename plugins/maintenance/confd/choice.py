"""Which of several replies counts, and what they say about the master."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from ganeti_steward.core.errors import StewardError
from ganeti_steward.plugins.maintenance.confd.messages import Reply, ReplyStatus

#: The name of a host; it becomes part of sentences in logs and on pages.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")


class Disagreement(StewardError):
    """Replies of equal serial with different answers: nothing may be concluded from them."""


class NoAnswer(StewardError):
    """No master candidate gave a usable reply."""


def newest(replies: Iterable[Reply]) -> Reply:
    """The reply that counts: a successful one before an error, then the highest serial.

    Raises NoAnswer, and Disagreement where two such replies differ.
    """
    found = list(replies)
    good = [reply for reply in found if reply.status is ReplyStatus.OK] or found
    if not good:
        raise NoAnswer("no master candidate answered")
    highest = max(reply.serial for reply in good)
    first, *others = [reply for reply in good if reply.serial == highest]
    for other in others:
        if (other.status, other.answer) != (first.status, first.answer):
            raise Disagreement(
                f"{first.peer} and {other.peer} answer differently with the same serial {highest}"
            )
    return first


def is_enough(replies: Sequence[Reply], queried: int) -> bool:
    """Whether waiting for more replies can end: most of the candidates agree.

    All of one or two, all but one of three or four, more than half from five on.  Replies that
    do not agree are never enough.
    """
    needed = queried if queried < 3 else queried - 1 if queried < 5 else queried // 2 + 1
    alike: dict[tuple[int, str], int] = {}
    for reply in replies:
        if reply.status is ReplyStatus.OK:
            key = (reply.serial, repr(reply.answer))
            alike[key] = alike.get(key, 0) + 1
    return max(alike.values(), default=0) >= needed


class Mastership(Enum):
    """Whether this node is the master."""

    MASTER = "master"
    NOT_MASTER = "not master"
    UNDECIDED = "undecided"


class Vote(NamedTuple):
    """The result of a vote and the sentence that explains it."""

    mastership: Mastership
    reason: str
    master: str = ""
    """the name of the master at the highest serial; empty where no candidate answered"""


def vote(own_name: str, replies: Sequence[Reply], candidates: int) -> Vote:
    """Count the replies to `CLUSTER_MASTER` of all known master candidates.

    ``own_name``: the full name of this node; ``candidates``: how many there are, also those
    that did not answer.  This node is the master only if more than half of the candidates say
    so at the highest serial; of one or two, all of them.  Another one is only if the highest
    serial says so, and no more candidates name this node than another: one candidate can invent
    any serial.  A failover reaches the others within seconds, those that are down as they return.
    """
    usable = [(reply, name) for reply in replies if (name := _master(reply))]
    if not usable:
        return Vote(Mastership.UNDECIDED, f"none of {candidates} master candidates answered")
    highest = max(reply.serial for reply, _ in usable)
    current = [name for reply, name in usable if reply.serial == highest]
    names = sorted(set(current))
    if len(names) > 1:
        reason = f"master candidates disagree at serial {highest}: {', '.join(names)}"
        return Vote(Mastership.UNDECIDED, reason)
    (master,) = names
    counted = f"{len(current)} of {candidates} master candidates name {master} (serial {highest})"
    if master == own_name:
        if 2 * len(current) > candidates:
            return Vote(Mastership.MASTER, counted, master)
        return Vote(Mastership.UNDECIDED, f"{counted}, more than half is required", master)
    own = [reply.serial for reply, name in usable if name == own_name]
    if 2 * len(own) > len(usable):
        others = f"{len(own)} name this node, {own_name} (serial {max(own)})"
        reason = f"{counted}, but {others}: one of the two is old or wrong"
        return Vote(Mastership.UNDECIDED, reason, master)
    return Vote(Mastership.NOT_MASTER, f"{counted}, this node is {own_name}", master)


def current_candidates(own_name: str, replies: Iterable[Reply]) -> frozenset[str]:
    """Addresses of those that name this node as the master at the highest serial of all replies."""
    usable = [(reply, name) for reply in replies if (name := _master(reply))]
    highest = max((reply.serial for reply, _ in usable), default=0)
    found = {reply.peer: name for reply, name in usable if reply.serial == highest}
    return frozenset(peer for peer, name in found.items() if name == own_name)


def _master(reply: Reply) -> str:
    """The master's name in a reply to `CLUSTER_MASTER`; empty in an unusable one."""
    answer: Any = reply.answer
    if isinstance(answer, list) and answer:
        answer = answer[0]
    good = reply.status is ReplyStatus.OK and isinstance(answer, str) and _NAME.fullmatch(answer)
    return answer if good else ""
