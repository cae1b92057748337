"""Actions that Ganeti does not have: stored as a PAUSE, with the action in the reason trail.

luxid holds the jobs, whether or not a maintenance daemon runs that releases them.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.filter_rules import PAUSE, FilterRule
from ganeti_steward.plugins.filters.rule_text import action_text

#: The source of the reason whose text is the action.
SOURCE: Final = "steward:filter-action"

_FORM: Final = re.compile(r"([A-Z][A-Z0-9_]*)(?: +(\S.*))?", re.ASCII)


class NotedAction(NamedTuple):
    """An action that a plugin decides."""

    name: str
    """such as ``WINDOW``"""
    arguments: str = ""

    @property
    def text(self) -> str:
        """The action as people write it."""
        return f"{self.name} {self.arguments}".strip()


def read_action(text: str) -> NotedAction | None:
    """An action of a text; None where it has not the form of any."""
    found = _FORM.fullmatch(text.strip())
    return NotedAction(found[1], found[2] or "") if found else None


def noted_action(rule: FilterRule) -> NotedAction | None:
    """The action in a rule's reason trail; None in a rule with an action of Ganeti.

    A text that has not the form of an action is one without a name, which no plugin knows.
    """
    if rule.action != PAUSE:
        return None
    for reason in rule.reasons:
        if reason.source == SOURCE:
            return read_action(reason.text) or NotedAction("", reason.text)
    return None


def shown_action(rule: FilterRule) -> str:
    """The action by its name, also where it is not Ganeti's."""
    noted = noted_action(rule)
    return noted.text if noted else action_text(rule)


def note_of(action: NotedAction, now: int) -> Reason:
    """The entry of the reason trail; ``now``: ns since the epoch."""
    return Reason(SOURCE, action.text, now)
