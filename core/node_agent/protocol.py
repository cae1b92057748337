"""The protocol of the node agent: paths, purposes, and what messages about repairs contain.

Each message names its ``purpose``, so that a signature that was made for one
thing is good for nothing else: neither a report nor the answer to a repair can be handed in
as a request, and confd's messages have no purpose at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical_object
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.signing import is_salt, strict_json
from ganeti_steward.core.json_reader import describe, quoted
from ganeti_steward.core.model.finding import LIVE_REPAIR, is_name, object_id

#: The agent's TCP port, as configured where nothing else is.
PORT: Final = 1817

#: The paths of the agent.
REPORT_PATH: Final = "/1/report/node/diagnose"
NONCE_PATH: Final = "/1/repair/nonce"
REPAIR_PATH: Final = "/1/repair"
STATE_PATH: Final = "/1/repair/state"

#: The purposes of signed messages: a report, and a repair request.
REPORT: Final = "report"
REPAIR: Final = "repair"

#: Bytes of a diagnose object in canonical form; it becomes part of Ganeti's configuration.
LONGEST_OBJECT: Final = 2**16

_MEMBERS: Final = ("purpose", "node", "command", "diagnose", "rsalt", "id", "submitted")

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
    given: bytes
    """the diagnose object, for its standard input"""
    rsalt: str
    """what the answer is signed with"""
    id: str
    """the same id is never run twice"""
    submitted: int
    """when the caller decided to have it run, s since the epoch"""

    @property
    def object_id(self) -> str:
        """The hash of the diagnose object: the same for the same object."""
        return object_id(self.given)


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


def is_seconds(value: object) -> bool:
    """Whether this may be a time in seconds since the epoch, to the year 6325."""
    return type(value) is int and 0 <= value < 2**37


def request_text(
    node: str,
    command: str,
    diagnose: Mapping[str, Any],
    rsalt: str,
    once: tuple[str, int],
) -> str:
    """The text of a signed request; ``diagnose``: the object that requests the command.

    ``once``: its id, and when it was submitted, s since the epoch.
    """
    values = (REPAIR, node, command, diagnose, rsalt, *once)
    return json.dumps(dict(zip(_MEMBERS, values, strict=True)))


def read_request(text: str, is_this_node: Callable[[str], bool]) -> RepairRequest:
    """The request in the text of a signed message; raises BadRequest."""
    given = read_members(text, REPAIR, _MEMBERS, is_this_node)
    _check_command(given)
    try:
        content = canonical_object(given["diagnose"])
    except ValueError as err:
        raise BadRequest(f"its diagnose object cannot be used: {err}") from None
    once = given["id"], given["submitted"]
    return RepairRequest(given["node"], given["command"], content, given["rsalt"], *once)


def read_members(
    text: str, purpose: str, members: Sequence[str], is_this_node: Callable[[str], bool]
) -> dict[str, Any]:
    """The members of a signed message with a purpose, for this node; raises BadRequest."""
    try:
        given = strict_json(text)
    except ValueError:
        raise BadRequest("it is not valid JSON") from None
    if not isinstance(given, dict) or set(given) != {*members}:
        raise BadRequest(f"it does not have exactly the members {', '.join(members)}")
    for name in ("purpose", "node", "rsalt"):
        _check_text(given, name)
    if given["purpose"] != purpose:
        raise BadRequest(f"its purpose is {quoted(given['purpose'])}")
    if not is_this_node(given["node"]):
        raise BadRequest(f"it is for the node {quoted(given['node'])}")
    if not is_salt(given["rsalt"]):
        raise BadRequest(f"its rsalt is no salt: {quoted(given['rsalt'])}")
    _check_once(given)
    return given


def _check_text(given: Mapping[str, Any], name: str) -> None:
    if not isinstance(given[name], str):
        raise BadRequest(f"{name}: a text is expected, found {describe(given[name])}")


def _check_once(given: Mapping[str, Any]) -> None:
    if not is_id(given["id"]):
        raise BadRequest(f"id: 1 to 64 letters, digits, _ or -, found {describe(given['id'])}")
    if not is_seconds(given["submitted"]):
        raise BadRequest(f"submitted: seconds are expected, found {describe(given['submitted'])}")


def _check_command(given: Mapping[str, Any]) -> None:
    _check_text(given, "command")
    if not is_name(given["command"]):
        raise BadRequest(f"{quoted(given['command'])} is no name of a command")
    diagnose = given["diagnose"]
    if not isinstance(diagnose, dict):
        raise BadRequest(f"diagnose: an object is expected, found {describe(diagnose)}")
    if diagnose.get("status") != LIVE_REPAIR or diagnose.get("command") != given["command"]:
        raise BadRequest("its diagnose object does not request this command")


def outcome_in(content: Mapping[str, object]) -> CommandEnd:
    """The outcome among other members; raises BadAnswer."""
    status, output, fault = (content.get(key) for key in CommandEnd._fields)
    if not isinstance(output, str) or not isinstance(fault, str):
        raise BadAnswer("the answer lacks the outcome of the repair")
    if status is not None and type(status) is not int:
        raise BadAnswer(f"status: a whole number is expected, found {describe(status)}")
    return CommandEnd(status, output, fault)
