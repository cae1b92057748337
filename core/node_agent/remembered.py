"""What an agent remembers of a repair command: the question by its id, and the signed answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.node_agent import protocol

#: The purposes of the question and of its answer; a request with an id gets that answer as well.
QUESTION: Final = "repair-question"
STATE: Final = "repair-state"

#: What may have become of a command.
RUNNING: Final = "running"
ENDED: Final = "ended"
#: It was started, and its end is not known: the agent or the node was restarted meanwhile.
LOST: Final = "lost"
#: It was never started, and never will be: a request that comes late is not followed any more.
NEVER: Final = "never"
#: The agent's memory does not go back so far.
UNKNOWN: Final = "unknown"
STATES: Final = (RUNNING, ENDED, LOST, NEVER, UNKNOWN)

_MEMBERS: Final = ("purpose", "node", "id", "submitted", "rsalt")


class CommandQuestion(NamedTuple):
    """What became of a command."""

    node: str
    """this node, as the caller calls it"""
    id: str
    submitted: int
    """when the caller decided to have it run, s since the epoch"""
    rsalt: str
    """what the answer is signed with"""


class RepairState(NamedTuple):
    """What became of a command."""

    state: str
    """one of `STATES`"""
    command: str = ""
    """its name; empty where it was never started or is not known"""
    started: int = 0
    """when it was started, s since the epoch; 0 where it was not"""
    outcome: protocol.CommandEnd = protocol.CommandEnd(None)
    """its result, once it has ended; of its output the end"""


def question_text(question: CommandQuestion) -> str:
    """The text of a signed question."""
    return json.dumps(dict(zip(_MEMBERS, (QUESTION, *question), strict=True)))


def read_question(text: str, is_this_node: Callable[[str], bool]) -> CommandQuestion:
    """The question in the text of a signed message; raises BadRequest."""
    given = protocol.read_members(text, QUESTION, _MEMBERS, is_this_node)
    return CommandQuestion(given["node"], given["id"], given["submitted"], given["rsalt"])


def state_text(node: str, id_: str, found: RepairState) -> str:
    """The text of the signed answer about the command with an id."""
    content = {
        "purpose": STATE,
        "node": node,
        "id": id_,
        "state": found.state,
        "command": found.command,
        "started": found.started,
        **found.outcome._asdict(),
    }
    return canonical(content).decode()


def read_state(content: Mapping[str, Any], node: str, id_: str) -> RepairState:
    """The state in the content of a signed answer; raises BadAnswer."""
    if (content.get("node"), content.get("id")) != (node, id_):
        raise protocol.BadAnswer("the answer is about another repair")
    state, command, started = (content.get(name) for name in ("state", "command", "started"))
    if state not in STATES or not isinstance(command, str) or not protocol.is_seconds(started):
        raise protocol.BadAnswer("the answer lacks the state of the repair")
    return RepairState(content["state"], command, content["started"], protocol.outcome_in(content))
