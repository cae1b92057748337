"""The protocol of the node agent: paths, purposes, and what messages about repairs contain.

Each message names its ``purpose``, so that a signature that was made for one
thing is good for nothing else: neither a report nor the answer to a repair can be handed in
as a request, and confd's messages have no purpose at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.signing import is_salt, strict_json
from ganeti_steward.core.json_reader import describe, quoted
from ganeti_steward.core.model.finding import LIVE_REPAIR, is_name

#: The agent's TCP port, as configured where nothing else is.
PORT: Final = 1817

#: The paths of the agent.
REPORT_PATH: Final = "/1/report/node/diagnose"
NONCE_PATH: Final = "/1/repair/nonce"
REPAIR_PATH: Final = "/1/repair"

#: The purposes of signed messages: a report, a repair request, and its answer.
REPORT: Final = "report"
REPAIR: Final = "repair"
REPAIRED: Final = "repaired"

#: Bytes of a diagnose object in canonical form; it becomes part of Ganeti's configuration.
LONGEST_OBJECT: Final = 2**16

_MEMBERS: Final = ("purpose", "node", "command", "diagnose", "rsalt")


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


class Outcome(NamedTuple):
    """What came of a repair command."""

    status: int | None
    """exit status, negative for the signal that ended it; None unless it ended by itself"""
    output: str = ""
    fault: str = ""
    """why it was stopped or not started; empty when it ended by itself"""


def request_text(node: str, command: str, diagnose: Mapping[str, Any], rsalt: str) -> str:
    """The text of a signed request; ``diagnose``: the object that requests the command."""
    return json.dumps(dict(zip(_MEMBERS, (REPAIR, node, command, diagnose, rsalt), strict=True)))


def read_request(text: str, is_this_node: Callable[[str], bool]) -> RepairRequest:
    """The request in the text of a signed message; raises BadRequest."""
    try:
        given = strict_json(text)
    except ValueError:
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


def read_outcome(content: Mapping[str, Any], node: str, command: str) -> Outcome:
    """The outcome in the content of a signed answer; raises BadAnswer."""
    if (content.get("node"), content.get("command")) != (node, command):
        raise BadAnswer("the answer is about another repair")
    status, output, fault = (content.get(key) for key in Outcome._fields)
    if not isinstance(output, str) or not isinstance(fault, str):
        raise BadAnswer("the answer lacks the outcome of the repair")
    if status is not None and type(status) is not int:
        raise BadAnswer(f"status: a whole number is expected, found {describe(status)}")
    return Outcome(status, output, fault)
