"""The parts of a rule as people write them, checked before anything is sent."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from ganeti_steward.core.errors import StewardError, join_faults
from ganeti_steward.core.json_nesting import TooDeep, load_json
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.plugins.filters.filter_rules import PLAIN_ACTIONS, RATE_LIMIT, FilterRule
from ganeti_steward.plugins.filters.language import faults_of

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
_LIMITED: Final = re.compile(rf"{RATE_LIMIT}\s+(0*[1-9][0-9]{{0,8}})", re.ASCII)


def action_text(rule: FilterRule) -> str:
    """The action as gnt-filter takes it: ``PAUSE``, ``RATE_LIMIT 3``."""
    return f"{RATE_LIMIT} {rule.limit}" if rule.action == RATE_LIMIT else rule.action


def parsed_action(text: str) -> tuple[str, int]:
    """Action and limit of a text as `action_text` writes it; raises StewardError."""
    if text in PLAIN_ACTIONS:
        return text, 0
    if limited := _LIMITED.fullmatch(text):
        return RATE_LIMIT, int(limited[1])
    raise StewardError(
        f"action {quoted(text)}: ACCEPT, PAUSE, REJECT, CONTINUE or 'RATE_LIMIT n' with n from 1 "
        "is expected, in upper case"
    )


def parsed_priority(text: str) -> int:
    """A priority, from 0; raises StewardError."""
    if not _NUMBER.fullmatch(text):
        raise StewardError(f"priority {quoted(text)}: a whole number from 0 is expected")
    return int(text)


#: A rule in examples.
EXAMPLE_UUID: Final = "5b0c9f7e-6a39-5f0e-9d2b-6f3c3c1f7f10"


def checked_uuid(text: str) -> str:
    """The uuid of a rule; raises StewardError."""
    if not _UUID.fullmatch(text):
        raise StewardError(f"{quoted(text)} is no uuid in lower case, as Ganeti requires it")
    return text


def parsed_predicates(text: str) -> tuple[Any, ...]:
    """The predicates of a JSON text; raises StewardError naming every fault with its place."""
    try:
        predicates = load_json(text)
        faults = faults_of(predicates)
    except (TooDeep, RecursionError):
        raise StewardError("predicates: they are nested too deeply") from None
    except ValueError as err:
        raise StewardError(f"predicates: not JSON: {err}") from None
    if faults:
        raise StewardError(join_faults(faults))
    checked_ascii("predicates", json.dumps(predicates, ensure_ascii=False))
    return tuple(predicates)


def checked_ascii(what: str, text: str) -> str:
    """A text that may be in a rule; raises StewardError.

    Ganeti's daemons can stop at other text than ASCII.
    """
    other = next((char for char in text if not char.isascii()), "")
    if other:
        raise StewardError(f"{what}: {other!a} is not ASCII, and Ganeti's daemons can stop at that")
    return text
