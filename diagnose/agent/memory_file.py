"""The file of the commands that were run on this node (`ganeti_steward.diagnose.agent.memory`)."""

from __future__ import annotations

import os
from typing import Any, Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.maintenance.kept_object import is_object_id
from ganeti_steward.core.model.finding import is_name
from ganeti_steward.core.node_agent.protocol import Outcome, is_id, is_seconds, outcome_in

#: Of the file's form; another one is not understood.
FORM: Final = 1


class Command(NamedTuple):
    """A command that was started."""

    command: str
    """its name"""
    started: int
    """s since the epoch"""
    ended: int = 0
    """s since the epoch; 0 before"""
    outcome: Outcome | None = None
    """None until it has ended"""
    object: str = ""
    """the hash of the diagnose object it was run for; empty where the version before noted it"""

    @property
    def at(self) -> int:
        """When something was known of it last, s since the epoch."""
        return max(self.started, self.ended)


class Known(NamedTuple):
    """All that is remembered, as it is in the file."""

    began: int
    """since when each command that was started is known by its id, s since the epoch"""
    lost: int
    """when something was lost, s since the epoch; 0: never.  A command that was submitted before
    and is not known may have been run"""
    commands: dict[str, Command]
    """id -> command, the oldest first"""


def written(known: Known) -> bytes:
    """What is remembered, as a file."""
    commands = [
        {
            "id": id_,
            "command": one.command,
            "started": one.started,
            "ended": one.ended,
            "outcome": one.outcome and one.outcome._asdict(),
            "object": one.object,
        }
        for id_, one in known.commands.items()
    ]
    content = {"form": FORM, "host": _host(), "began": known.began, "lost": known.lost}
    return canonical(content | {"commands": commands}) + b"\n"


def parse(raw: bytes) -> Known:
    """What a file has; raises StewardError.

    What was run on another machine, whose disk or backup this is, is of no use here.
    """
    try:
        given = load_json(raw)
    except ValueError:
        raise StewardError("it is not JSON") from None
    if not isinstance(given, dict) or given.get("form") != FORM:
        raise StewardError(f"its form is not {FORM}")
    if given.get("host") != _host():
        raise StewardError("it is of another machine")
    try:
        commands = {_id(one["id"]): _command(one) for one in given["commands"]}
        return Known(_seconds(given["began"]), _seconds(given["lost"]), commands)
    except (KeyError, TypeError, ValueError, AttributeError, StewardError):
        raise StewardError("something in it is of another kind than expected") from None


def _host() -> str:
    """This machine, by the name it has even where no file can be read."""
    return os.uname().nodename


def _command(given: Any) -> Command:
    if not is_name(given["command"]):
        raise ValueError
    outcome = None if given["outcome"] is None else outcome_in(given["outcome"])
    started, ended = _seconds(given["started"]), _seconds(given["ended"])
    return Command(given["command"], started, ended, outcome, _hash(given.get("object", "")))


def _id(given: Any) -> str:
    if not is_id(given):
        raise ValueError
    return str(given)


def _hash(given: Any) -> str:
    if given and not is_object_id(given):
        raise ValueError
    return str(given)


def _seconds(given: Any) -> int:
    if not is_seconds(given):
        raise ValueError
    return int(given)
