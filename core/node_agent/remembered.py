"""What an agent remembers of a repair command: the question by its id, and the signed answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.node_agent import protocol
from ganeti_steward.core.typed_json import from_json

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


class CommandQuestion(NamedTuple):
    """What became of a command."""

    node: str
    """this node, as the caller calls it"""
    id: str
    submitted: protocol.Seconds
    """when the caller decided to have it run"""
    rsalt: str
    """what the answer is signed with"""


class RepairState(NamedTuple):
    """What became of a command."""

    state: str
    """one of `STATES`"""
    command: str = ""
    """its name; empty where it was never started or is not known"""
    started: protocol.Seconds = 0
    """when it was started; 0 where it was not"""
    outcome: protocol.CommandEnd = protocol.CommandEnd(None)
    """its result, once it has ended; of its output the end"""


class _Answer(NamedTuple):
    """The members of the signed answer about a command."""

    node: str
    id: str
    state: str
    command: str
    started: protocol.Seconds
    status: int | None
    output: str
    fault: str


def read_question(text: str, is_this_node: Callable[[str], bool]) -> CommandQuestion:
    """The question in the text of a signed message; raises BadRequest."""
    return protocol.read_message(CommandQuestion, text, QUESTION, is_this_node)


def state_text(node: str, id_: str, found: RepairState) -> str:
    """The text of the signed answer about the command with an id."""
    answer = _Answer(node, id_, found.state, found.command, found.started, *found.outcome)
    # The output of a command may be any text.
    return canonical({"purpose": STATE, **answer._asdict()}).decode()


def read_state(content: Mapping[str, Any], node: str, id_: str) -> RepairState:
    """The state in the content of a signed answer; raises BadAnswer."""
    known = {name: content[name] for name in _Answer._fields if name in content}
    try:
        found = from_json(_Answer, known)
    except ValueError as err:
        raise protocol.BadAnswer(f"the answer lacks the state of the repair: {err}") from None
    if (found.node, found.id) != (node, id_):
        raise protocol.BadAnswer("the answer is about another repair")
    if found.state not in STATES:
        raise protocol.BadAnswer(f"the state of the repair is {quoted(found.state)}")
    outcome = protocol.CommandEnd(found.status, found.output, found.fault)
    return RepairState(found.state, found.command, found.started, outcome)
