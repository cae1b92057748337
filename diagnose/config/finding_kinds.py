"""Kinds of keys about findings: their statuses, and commands of Ganeti's directories."""

from __future__ import annotations

from typing import Any, Final

from ganeti_steward.core.config.kinds import ValueKind, one_of, word
from ganeti_steward.core.json_reader import describe
from ganeti_steward.core.model.finding import STATUSES, is_name

#: The status of a finding.
STATUS: Final = one_of(*STATUSES)._replace(text="status")

#: A repair or diagnose command, or none; Ganeti's own rule for restricted commands.
COMMAND: Final = word(is_name, "command name", hint="letters, digits, _ and - only")._replace(
    text="command"
)


def _command_line(value: Any) -> str:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        return f"a list of words is expected, found {describe(value)}"
    if not value or not value[0].startswith("/"):
        return "the first word must be a program's absolute path"
    return "" if all(map(str.isprintable, value)) else "a word cannot be printed"


COMMAND_LINE: Final = ValueKind(_command_line, "list: absolute path, then arguments")
