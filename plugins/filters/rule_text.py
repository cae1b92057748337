"""Rules as people write them: the options of commands, and JSON files as RAPI prints them.

Everything is checked before anything is sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from ganeti_steward.core.errors import StewardError, join_faults
from ganeti_steward.core.ganeti.reasons import USER, Reason
from ganeti_steward.core.json_nesting import TooDeep, load_json
from ganeti_steward.core.json_reader import Faults, describe, quoted
from ganeti_steward.plugins.filters.filter_rules import (
    RATE_LIMIT,
    TOO_DEEP,
    FilterRule,
    Rules,
    ascii_fault,
    read_action,
    read_number,
    read_predicates,
    rules_of,
)
from ganeti_steward.plugins.filters.language import faults_of

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
_LIMITED: Final = re.compile(rf"{RATE_LIMIT}\s+([0-9]{{1,9}})", re.ASCII)


def action_text(rule: FilterRule) -> str:
    """The action as gnt-filter takes it: ``PAUSE``, ``RATE_LIMIT 3``."""
    return f"{RATE_LIMIT} {rule.limit}" if rule.action == RATE_LIMIT else rule.action


def parsed_action(text: str, faults: Faults) -> tuple[str, int]:
    """Action and limit of a text as `action_text` writes it."""
    limited = _LIMITED.fullmatch(text)
    return read_action([RATE_LIMIT, int(limited[1])] if limited else text, faults)


def parsed_priority(text: str, faults: Faults) -> int | None:
    """A priority, from 0; None after a fault."""
    return read_number("priority", int(text) if _NUMBER.fullmatch(text) else text, faults)


#: A rule in examples.
EXAMPLE_UUID: Final = "5b0c9f7e-6a39-5f0e-9d2b-6f3c3c1f7f10"


def is_uuid(text: str) -> bool:
    """Whether it can be the uuid of a rule."""
    return _UUID.fullmatch(text) is not None


def check_uuid(text: str, faults: Faults) -> None:
    """Note a fault where it cannot be the uuid of a new rule."""
    if not is_uuid(text):
        faults.add("uuid", f"{quoted(text)} is not a uuid in lower case, which Ganeti requires")


def parsed_predicates(text: str, faults: Faults) -> tuple[Any, ...]:
    """The predicates of a JSON text, with every fault in them."""
    try:
        return valid_predicates(load_json(text), faults)
    except TooDeep:
        faults.add("predicates", TOO_DEEP)
    except ValueError as err:
        faults.add("predicates", f"not JSON: {err}")
    return ()


def valid_predicates(value: Any, faults: Faults) -> tuple[Any, ...]:
    """Predicates that luxid takes."""
    predicates = read_predicates(value, faults)
    faults.found += faults_of(predicates)
    check_ascii("predicates", json.dumps(predicates, ensure_ascii=False, default=str), faults)
    return predicates


def user_reasons(text: str | None, now: int, faults: Faults) -> tuple[Reason, ...]:
    """The entry of a reason trail for what a user gave."""
    check_ascii("reason", text or "", faults)
    return (Reason(USER, text, now),) if text else ()


def check_ascii(place: str, text: str, faults: Faults) -> None:
    """Note a fault where a text may not be in a rule."""
    if fault := ascii_fault(text):
        faults.add(place, fault)


#: Keys in lists of rules; the last ones are not part of a rule.
_KEYS: Final = (
    *("uuid", "watermark", "priority", "predicates", "action", "reason", "reason_trail"),
    *("purpose", "uri", "ctime", "mtime", "serial_no"),
)
_UNREADABLE: Final = re.compile(r"unreadable: .+", re.DOTALL)


def read_rule_file(text: str | bytes, name: str) -> Rules:
    """The rules of a file, a list of objects; raises StewardError when it is none.

    A rule without uuid gets ``entry N`` for one, without other keys what luxid would set.  What
    luxid would refuse is among the unreadable ones, except for faults in predicates.
    """
    try:
        rows = load_json(text)
    except ValueError as err:
        raise StewardError(f"{name}: this is not JSON, or too deeply nested: {err}") from None
    if not isinstance(rows, list):
        raise StewardError(f"{name}: a list of rules is expected, found {describe(rows)}")
    return rules_of(_entries(rows))


def valid_rules(rules: Rules, name: str) -> tuple[FilterRule, ...]:
    """The rules, all valid; raises StewardError naming the faults."""
    faults = [f"rule {uuid}: {text}" for uuid, text in rules.unreadable.items()]
    faults += [
        f"rule {rule.uuid}: {text}" for rule in rules.rules for text in faults_of(rule.predicates)
    ]
    if faults:
        raise StewardError(f"{name}: {join_faults(faults)}")
    return rules.rules


def _entries(rows: list[Any]) -> Iterator[tuple[str, Mapping[str, Any], Faults]]:
    """What a list of rules has in addition to the rows of luxid is checked here."""
    seen = set[str]()
    for number, row in enumerate(rows, 1):
        uuid, faults = f"entry {number}", Faults()
        if not isinstance(row, dict):
            faults.found.append(f"a rule is expected, found {describe(row)}")
            yield uuid, {}, faults
            continue
        given = row.get("uuid")
        if isinstance(given, str) and given:
            uuid = given
        if uuid in seen:
            faults.found.append("two rules have this uuid")
        seen.add(uuid)
        if _UNREADABLE.fullmatch(str(row.get("purpose", ""))):
            faults.found.append(str(row["purpose"]).removeprefix("unreadable: "))
            yield uuid, {}, faults
            continue
        if given:
            check_uuid(uuid, faults)
        check_keys(row, _KEYS, faults)
        predicates = json.dumps(row.get("predicates"), ensure_ascii=False)
        check_ascii("predicates", predicates, faults)
        yield uuid, row, faults


def check_keys(row: Mapping[str, Any], known: Collection[str], faults: Faults) -> None:
    """Note the keys of an object that are not known."""
    for key in sorted(row.keys() - {*known}):
        faults.found.append(f"there is no key {quoted(key)}; {', '.join(known)} are known")
