"""The protocol of the node agent: paths, purposes, and what messages about repairs contain.

Each message names its ``purpose``, so that a signature that was made for one
thing is good for nothing else: neither a report nor the answer to a repair can be handed in
as a request, and confd's messages have no purpose at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Final, NamedTuple, Protocol, TypeVar

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.signing import is_salt, strict_json
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.json_reader import Range, describe, quoted
from ganeti_steward.core.model.finding import LIVE_REPAIR, is_name
from ganeti_steward.core.typed_json import from_json, to_json

#: The agent's TCP port, as configured where nothing else is.
PORT: Final = 1817

#: The paths of the agent.
REPORT_PATH: Final = "/1/report/node/diagnose"
NONCE_PATH: Final = "/1/repair/nonce"
REPAIR_PATH: Final = "/1/repair"
STATE_PATH: Final = "/1/repair/state"

#: The purposes of signed messages: a report, a repair request, and a request to become the master,
#: which is a `RepairRequest` with this word as its command as well.
REPORT: Final = "report"
REPAIR: Final = "repair"
MASTER_FAILOVER: Final = "master-failover"

#: The status of an object that requests a hook of the master: no agent runs another directory's
#: command of that name in its place.
HOOK: Final = "hook"

#: Bytes of a diagnose object in canonical form; it becomes part of Ganeti's configuration.
LONGEST_OBJECT: Final = 2**16

#: s since the epoch, to the year 6325.
Seconds = Annotated[int, Range(0, 2**37 - 1)]

#: The member of a message that says what it is for.
_PURPOSE: Final = "purpose"

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class BadAnswer(StewardError):
    """A signed answer to a repair request that is unusable."""


class BadRequest(StewardError):
    """A request that was signed but is impossible."""


class RepairRequest(NamedTuple):
    """A command that is to be run on this node."""

    node: str
    """this node, as the caller calls it"""
    command: str
    diagnose: bytes
    """the diagnose object, for its standard input"""
    rsalt: str
    """what the answer is signed with"""
    id: str
    """the same id is never run twice"""
    submitted: Seconds
    """when the caller decided to have it run"""


class Message(Protocol):
    """What each signed message to an agent has."""

    @property
    def node(self) -> str:
        """The node it is for."""

    @property
    def id(self) -> str:
        """The id of the command it is about."""

    @property
    def rsalt(self) -> str:
        """What the answer is signed with."""


_Message = TypeVar("_Message", bound=Message)


class CommandEnd(NamedTuple):
    """The result of a repair command."""

    status: int | None
    """exit status, negative for the signal that ended it; None unless it ended by itself"""
    output: str = ""
    fault: str = ""
    """why it was stopped or not started; empty when it ended by itself"""


def is_id(text: object) -> bool:
    """Whether this may be the id of a command that is run once."""
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def message_text(purpose: str, message: Any) -> str:
    """The text of a signed message with a purpose: a request or a question."""
    return canonical({_PURPOSE: purpose} | to_json(type(message), message)).decode()


def read_request(text: str, is_this_node: Callable[[str], bool]) -> RepairRequest:
    """The request in the text of a signed message; raises BadRequest."""
    request = read_message(RepairRequest, text, REPAIR, is_this_node)
    if not is_name(request.command):
        raise BadRequest(f"{quoted(request.command)} is not a command name")
    diagnose = load_json(request.diagnose)
    named = diagnose.get("command") == request.command
    if not named or diagnose.get("status") not in (LIVE_REPAIR, HOOK):
        raise BadRequest("its diagnose object does not request this command")
    return request


def read_message(
    kind: type[_Message], text: str, purpose: str, is_this_node: Callable[[str], bool]
) -> _Message:
    """A signed message with a purpose, for this node; raises BadRequest."""
    try:
        given = strict_json(text)
    except ValueError:
        raise BadRequest("it is not valid JSON") from None
    if not isinstance(given, dict):
        raise BadRequest(f"an object is expected, found {describe(given)}")
    if (found := given.pop(_PURPOSE, None)) != purpose:
        raise BadRequest(f"its purpose is {describe(found)}")
    try:
        message = from_json(kind, given)
    except ValueError as err:
        raise BadRequest(str(err)) from None
    if not is_this_node(message.node):
        raise BadRequest(f"it is for the node {quoted(message.node)}")
    if not is_salt(message.rsalt):
        raise BadRequest(f"its rsalt is not a salt: {quoted(message.rsalt)}")
    if not is_id(message.id):
        raise BadRequest(f"id: 1 to 64 letters, digits, _ or -, found {describe(message.id)}")
    return message
