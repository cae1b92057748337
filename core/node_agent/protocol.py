"""The protocol of the node agent: paths, purposes, and what messages about repairs contain.

Each message names its ``purpose``, so that a signature that was made for one
thing is good for nothing else: neither a report nor the answer to a repair can be handed in
as a request, and confd's messages have no purpose at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.signing import is_salt, strict_json
from ganeti_steward.core.json_reader import describe, quoted
from ganeti_steward.core.model.finding import LIVE_REPAIR, is_name

REPAIR: Final = "repair"
REPAIRED: Final = "repaired"

_MEMBERS: Final = ("purpose", "node", "command", "diagnose", "rsalt")


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


class Outcome(NamedTuple):
    """What came of a repair command."""

    status: int | None
    """exit status, negative for the signal that ended it; None unless it ended by itself"""
    output: str = ""
    fault: str = ""
    """why it was stopped or not started; empty when it ended by itself"""


def read_request(text: str, is_this_node: Callable[[str], bool]) -> RepairRequest:
    """The request in the text of a signed message; raises BadRequest."""
    try:
        given = strict_json(text)
    except (ValueError, RecursionError):
        raise BadRequest("it is not valid JSON") from None
    if not isinstance(given, dict) or sorted(given) != sorted(_MEMBERS):
        raise BadRequest(f"it does not have exactly the members {', '.join(_MEMBERS)}")
    _check(given, is_this_node)
    try:
        content = canonical(given["diagnose"])
    except (ValueError, RecursionError):
        raise BadRequest("its diagnose object cannot be written as JSON") from None
    return RepairRequest(given["node"], given["command"], content, given["rsalt"])


def _check(given: dict[str, Any], is_this_node: Callable[[str], bool]) -> None:
    for name in ("purpose", "node", "command", "rsalt"):
        if not isinstance(given[name], str):
            raise BadRequest(f"{name}: a text is expected, found {describe(given[name])}")
    if given["purpose"] != REPAIR:
        raise BadRequest(f"its purpose is {quoted(given['purpose'])}")
    if not is_this_node(given["node"]):
        raise BadRequest(f"it is for the node {quoted(given['node'])}")
    if not is_name(given["command"]):
        raise BadRequest(f"{quoted(given['command'])} is no name of a command")
    if not is_salt(given["rsalt"]):
        raise BadRequest(f"its rsalt is no salt: {quoted(given['rsalt'])}")
    diagnose = given["diagnose"]
    if not isinstance(diagnose, dict):
        raise BadRequest(f"diagnose: an object is expected, found {describe(diagnose)}")
    if diagnose.get("status") != LIVE_REPAIR or diagnose.get("command") != given["command"]:
        raise BadRequest("its diagnose object does not request this command")


def answer_text(request: RepairRequest, outcome: Outcome) -> str:
    """The text of the signed answer."""
    content = {
        "purpose": REPAIRED,
        "node": request.node,
        "command": request.command,
        **outcome._asdict(),
    }
    return canonical(content).decode()
