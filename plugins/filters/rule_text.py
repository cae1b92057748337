"""Rules as people write them: the options of commands, and JSON files as RAPI prints them.

Everything is checked before anything is sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from ganeti_steward.core.errors import StewardError, join_faults
from ganeti_steward.core.ganeti.reasons import USER, Reason
from ganeti_steward.core.json_nesting import TooDeep, load_json
from ganeti_steward.core.json_reader import describe, quoted
from ganeti_steward.plugins.filters.filter_rules import (
    CONTINUE,
    PLAIN_ACTIONS,
    RATE_LIMIT,
    FilterRule,
    Rules,
    evaluable,
)
from ganeti_steward.plugins.filters.language import faults_of
from ganeti_steward.plugins.texts import read_reasons

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


def is_uuid(text: str) -> bool:
    """Whether it can be the uuid of a rule."""
    return _UUID.fullmatch(text) is not None


def checked_uuid(text: str) -> str:
    """The uuid of a rule; raises StewardError."""
    if not is_uuid(text):
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


def user_reasons(text: str | None, now: int) -> tuple[Reason, ...]:
    """The entry of a reason trail for what a user gave; raises StewardError."""
    return (Reason(USER, checked_ascii("reason", text), now),) if text else ()


def checked_ascii(what: str, text: str) -> str:
    """A text that may be in a rule; raises StewardError.

    Ganeti's daemons can stop at other text than ASCII.
    """
    other = next((char for char in text if not char.isascii()), "")
    if other:
        raise StewardError(f"{what}: {other!a} is not ASCII, and Ganeti's daemons can stop at that")
    return text


_KEYS: Final = frozenset(
    {"uuid", "watermark", "priority", "predicates", "action", "reason", "reason_trail"}
)
#: Keys of lists that are no part of a rule.
_MORE: Final = frozenset({"purpose", "uri", "ctime", "mtime", "serial_no"})
_UNREADABLE: Final = re.compile(r"unreadable: .+", re.DOTALL)


def read_rule_file(text: str | bytes, name: str) -> Rules:
    """The rules of a file, a list of objects; raises StewardError when it is none.

    A rule without uuid gets ``entry N`` for one, without other keys what luxid would set.  What
    luxid would refuse is among the unreadable ones, except for faults in predicates.
    """
    rows = _rows(text, name)
    found: list[FilterRule] = []
    unreadable = {}
    for number, row in enumerate(rows, 1):
        uuid = f"entry {number}"
        try:
            if not isinstance(row, dict):
                raise ValueError(f"a rule is expected, found {describe(row)}")
            if isinstance(row.get("uuid"), str) and row["uuid"]:
                uuid = row["uuid"]
            if any(rule.uuid == uuid for rule in found):
                raise ValueError("two rules have this uuid")
            found.append(_rule(row, uuid))
        except (StewardError, ValueError) as err:
            unreadable[uuid] = str(err)
    return Rules(tuple(sorted(found, key=lambda rule: rule.order)), unreadable)


def valid_rules(rules: Rules, name: str) -> tuple[FilterRule, ...]:
    """The rules, all valid; raises StewardError naming the faults."""
    faults = [f"rule {uuid}: {text}" for uuid, text in rules.unreadable.items()]
    faults += [
        f"rule {rule.uuid}: {text}" for rule in rules.rules for text in faults_of(rule.predicates)
    ]
    if faults:
        raise StewardError(f"{name}: {join_faults(faults)}")
    return rules.rules


def _rows(text: str | bytes, name: str) -> list[Any]:
    try:
        rows = load_json(text)
    except ValueError as err:
        raise StewardError(f"{name}: this is not JSON, or too deeply nested: {err}") from None
    if not isinstance(rows, list):
        raise StewardError(f"{name}: a list of rules is expected, found {describe(rows)}")
    return rows


def _rule(row: Mapping[str, Any], uuid: str) -> FilterRule:
    """Raises ValueError or StewardError with one sentence."""
    if _UNREADABLE.fullmatch(str(row.get("purpose", ""))):
        raise ValueError(str(row["purpose"]).removeprefix("unreadable: "))
    unknown = sorted(row.keys() - _KEYS - _MORE)
    if unknown:
        raise ValueError(f"there is no key {quoted(unknown[0])} in a rule")
    if row.get("uuid"):
        checked_uuid(uuid)
    predicates = row.get("predicates", [])
    if not isinstance(predicates, list):
        raise ValueError(f"key 'predicates': a list is expected, found {describe(predicates)}")
    checked_ascii("predicates", json.dumps(predicates, ensure_ascii=False))
    action, limit = _action(row.get("action", CONTINUE))
    return FilterRule(
        uuid,
        _number(row, "priority"),
        evaluable(predicates),
        action,
        limit,
        _reasons(row),
        _number(row, "watermark"),
    )


def _number(row: Mapping[str, Any], key: str) -> int:
    value = row.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ValueError(f"key {key!r}: a number from 0 is expected, found {describe(value)}")
    return int(value)


def _reasons(row: Mapping[str, Any]) -> tuple[Reason, ...]:
    trail = row.get("reason_trail", row.get("reason", []))
    if not isinstance(trail, list):
        raise ValueError(f"key 'reason_trail': a list is expected, found {describe(trail)}")
    return read_reasons(trail)


def _action(value: Any) -> tuple[str, int]:
    if isinstance(value, str) and value in PLAIN_ACTIONS:
        return value, 0
    if isinstance(value, list) and len(value) == 2 and value[0] == RATE_LIMIT:
        limit = value[1]
        whole = isinstance(limit, int | float) and not isinstance(limit, bool)
        if whole and limit >= 1 and limit == int(limit):
            return RATE_LIMIT, int(limit)
    shown = quoted(value) if isinstance(value, str) else json.dumps(value)
    raise ValueError(
        f"key 'action': {shown} is none that luxid takes: ACCEPT, PAUSE, REJECT, CONTINUE or "
        '["RATE_LIMIT", n] with n from 1'
    )
