"""The messages of confd, Ganeti's daemon for questions about the configuration.

Text only: nothing here opens a socket or looks at a clock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.signing import BadMessage, sign, strict_json, verify

#: What each datagram begins with.
MAGIC: Final = b"plj0"

#: Bytes of a request; confd cuts longer ones and then does not answer.
LONGEST_REQUEST: Final = 4096

_PROTOCOL: Final = 1

#: Of a number of 64 bits.
_LARGEST_SERIAL: Final = 2**63 - 1

#: A query: a name, a path or a list of addresses by the number of their kind.
Query = str | Mapping[str, Any] | None


class QueryType(IntEnum):
    """What can be queried."""

    PING = 0
    NODE_ROLE = 1
    NODE_PRIMARY_IP_BY_INSTANCE_IP = 2
    CLUSTER_MASTER = 3
    NODE_PRIMARY_IPS = 4
    MASTER_CANDIDATE_IPS = 5
    INSTANCE_IPS = 6
    NODE_DRBD = 7
    NODE_INSTANCES = 8
    INSTANCE_DISKS = 9
    CONFIG = 10
    DATA_COLLECTORS = 11


#: The name, the cluster's address and the master's primary address, as `CLUSTER_MASTER` takes it.
MASTER_FIELDS: Final[Mapping[str, Any]] = {"3": [0, 1, 2]}


class ReplyStatus(IntEnum):
    """How confd judges a query."""

    OK = 0
    ERROR = 1
    NOT_IMPLEMENTED = 2


class Reply(NamedTuple):
    """A verified reply of one master candidate."""

    peer: str
    """the address that was queried"""
    status: ReplyStatus
    answer: Any
    serial: int
    """of the object the answer is from, mostly the cluster; 0 for errors and pings"""


class BadReply(StewardError):
    """A datagram that is no reply to this request."""


def request(kind: QueryType, query: Query, *, key: bytes, reply_salt: str, now: int) -> bytes:
    """A signed request; ``now``: s since 1970, the salt of the request.

    ``reply_salt`` ties the reply to this request.  Raises StewardError where confd could not
    read it whole.
    """
    inner: dict[str, Any] = {"protocol": _PROTOCOL, "type": int(kind), "rsalt": reply_salt}
    if query is not None:
        inner["query"] = query
    raw = MAGIC + sign(key, json.dumps(inner), str(now))
    if len(raw) > LONGEST_REQUEST:
        raise StewardError(
            f"the query is too long: {len(raw)} bytes, confd reads {LONGEST_REQUEST}"
        )
    return raw


def read_reply(raw: bytes, *, key: bytes, reply_salt: str, peer: str) -> Reply:
    """The reply in a datagram; raises BadReply for anything else."""
    if not raw.startswith(MAGIC):
        raise BadReply("the datagram does not begin with plj0")
    try:
        inner = strict_json(verify(key, raw.removeprefix(MAGIC), reply_salt))
        status, serial = ReplyStatus(inner["status"]), inner["serial"]
        reply = Reply(peer, status, inner["answer"], serial)
    except BadMessage as err:
        raise BadReply(str(err)) from None
    except (ValueError, TypeError, KeyError):
        raise BadReply("the signed text is not a reply of confd") from None
    if type(serial) is not int or not 0 <= serial <= _LARGEST_SERIAL:
        raise BadReply("the reply has an invalid serial number")
    if inner.get("protocol") != _PROTOCOL:
        raise BadReply("the signed text is not a reply of confd")
    return reply
