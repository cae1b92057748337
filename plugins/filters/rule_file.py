"""Rules in a JSON file, as ``filter list --json`` and RAPI print them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from ganeti_steward.core.errors import StewardError, join_faults
from ganeti_steward.core.ganeti.reasons import Reason, read_reasons
from ganeti_steward.core.json_nesting import load_json
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
from ganeti_steward.plugins.filters.rule_text import checked_ascii, checked_uuid

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
