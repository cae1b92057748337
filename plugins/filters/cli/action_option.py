"""The option ``--action``: an action of Ganeti, or one that the maintenance daemon carries out."""

from __future__ import annotations

from typing import Final

from ganeti_steward.core.config.load import config_path, load_config
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.plugins.filters.actions.calling import plugins_with_actions
from ganeti_steward.plugins.filters.actions.holding import ACTIONS, fault_of
from ganeti_steward.plugins.filters.filter_rules import PAUSE, PLAIN_ACTIONS, RATE_LIMIT, FilterRule
from ganeti_steward.plugins.filters.rule_notes import (
    ACTION_SOURCE,
    NotedAction,
    note_of,
    noted_action,
    read_action,
)
from ganeti_steward.plugins.filters.rule_text import checked_ascii, parsed_action

HELP: Final = (
    "ACCEPT, PAUSE, REJECT, CONTINUE or 'RATE_LIMIT n'; or one that the maintenance daemon "
    "carries out: 'WINDOW Mon-Fri 22:00-06:00', 'AFTER_INCIDENT NODE', APPROVE"
)

#: Of a rule with an action that is not Ganeti's, where none is given.
_PRIORITY: Final = 50


def with_action(rule: FilterRule, text: str, now: int) -> FilterRule:
    """The rule with the action of a text; raises StewardError.  ``now``: ns since the epoch."""
    others = tuple(reason for reason in rule.reasons if reason.source != ACTION_SOURCE)
    noted = _noted(text)
    if noted is None:
        action, limit = parsed_action(text)
        return rule._replace(action=action, limit=limit, reasons=others)
    return rule._replace(action=PAUSE, limit=0, reasons=(*others, note_of(noted, now)))


def with_priority(rule: FilterRule, given: int | None) -> FilterRule:
    """The rule with a priority that leaves room before it where that is needed.

    ``given``: None where the user chose none.  Raises StewardError.
    """
    rule = rule if given is None else rule._replace(priority=given)
    noted = noted_action(rule)
    if noted is None or rule.priority > 0:
        return rule
    if given is None:
        return rule._replace(priority=_PRIORITY)
    raise StewardError(
        f"priority 0: the action {noted.name} requires 1 or more, because a rule that releases "
        "a job comes before it"
    )


def _noted(text: str) -> NotedAction | None:
    """An action that is not Ganeti's, with arguments it takes; None for Ganeti's, and for none."""
    found = read_action(checked_ascii("action", text))
    if found is None or found.name in (*PLAIN_ACTIONS, RATE_LIMIT):
        return None
    if found.name not in ACTIONS:
        _check_plugin(found.name)
    elif fault := fault_of(*found):
        raise StewardError(f"action {quoted(text)}: {fault}")
    return found


def _check_plugin(name: str) -> None:
    """Raise StewardError unless a plugin may know the action: a misspelt one holds jobs forever."""
    if not plugins_with_actions(load_config(config_path(), ("plugins", "plugin"))):
        raise StewardError(
            f"action {quoted(name)} is none of {', '.join(sorted(PLAIN_ACTIONS))}, {RATE_LIMIT}, "
            f"{', '.join(ACTIONS)}, and [plugins] load names no plugin with other actions here"
        )
