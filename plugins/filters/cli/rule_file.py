"""Files of rules with names, as people keep them: TOML, or the same as JSON."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

from ganeti_steward.core.errors import StewardError, join_faults
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.json_reader import describe, quoted
from ganeti_steward.plugins.filters import rule_text
from ganeti_steward.plugins.filters.applying import RuleFile, Wanted
from ganeti_steward.plugins.filters.cli.write import with_action, with_priority
from ganeti_steward.plugins.filters.filter_rules import CONTINUE, FilterRule, Rules

_OWNER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*", re.ASCII)
_KEYS: Final = ("name", "priority", "predicates", "action", "comment")


def read_named_rules(content: bytes, file: str, now: int) -> RuleFile | None:
    """The rules of a file; None where it is a list of rules without names.

    ``now``: ns since the epoch.  Raises StewardError naming the file and all faults.
    """
    data = _data(content, file)
    if isinstance(data, list):
        return None
    try:
        return _rule_file(data, now)
    except StewardError as err:
        raise StewardError(f"{file}: {err}") from None


def read_rules_of_file(content: bytes, file: str, now: int) -> Rules:
    """The rules of a file of either kind; those with names have them in place of uuids.

    Raises StewardError.
    """
    named = read_named_rules(content, file, now)
    if named is None:
        return rule_text.read_rule_file(content, file)
    rules = [one.rule._replace(uuid=one.name) for one in named.rules]
    return Rules(tuple(sorted(rules, key=lambda rule: rule.order)), {})


def _data(content: bytes, file: str) -> Any:
    is_toml = PurePath(file).suffix == ".toml"
    try:
        return tomllib.loads(content.decode()) if is_toml else load_json(content)
    except (ValueError, RecursionError) as err:
        kind = "TOML" if is_toml else "JSON, or too deeply nested"
        raise StewardError(f"{file}: this is not {kind}: {err}") from None


def _rule_file(data: Any, now: int) -> RuleFile:
    if not isinstance(data, dict):
        raise StewardError(f"a list of rules, or their owner and rules, is expected, not {data!r}")
    faults = [f"there is no key {quoted(key)}" for key in sorted(data.keys() - {"owner", "rule"})]
    owner, rows = data.get("owner"), data.get("rule", [])
    if not isinstance(owner, str) or not _OWNER.fullmatch(owner):
        faults.append("key 'owner': a word of letters, digits and . _ @ - is expected")
    if not isinstance(rows, list):
        raise StewardError(f"key 'rule': a list of rules is expected, found {describe(rows)}")
    found: list[Wanted] = []
    for number, row in enumerate(rows, 1):
        try:
            found.append(_wanted(row, {one.name for one in found}, now))
        except StewardError as err:
            faults.append(f"rule {_shown(row, number)}: {err}")
    if faults:
        raise StewardError(join_faults(faults))
    return RuleFile(str(owner), tuple(found))


def _shown(row: Any, number: int) -> str:
    name = row.get("name") if isinstance(row, dict) else None
    return quoted(name) if isinstance(name, str) and name else str(number)


def _wanted(row: Any, names: set[str], now: int) -> Wanted:
    if not isinstance(row, dict):
        raise StewardError(f"a rule is expected, found {describe(row)}")
    if unknown := sorted(row.keys() - {*_KEYS}):
        raise StewardError(f"there is no key {quoted(unknown[0])}; {', '.join(_KEYS)} are known")
    name, comment = _text(row, "name"), _text(row, "comment")
    if not name or name != name.strip() or not name.isprintable():
        raise StewardError("key 'name': words without blanks around are expected")
    if name in names:
        raise StewardError("another rule has this name")
    rule = FilterRule("", predicates=_predicates(row.get("predicates", [])))
    rule = with_action(rule, _action(row), now)
    return Wanted(name, with_priority(rule, _priority(row)), comment)


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key, "")
    if not isinstance(value, str):
        raise StewardError(f"key {key!r}: a string is expected, found {describe(value)}")
    return rule_text.checked_ascii(f"key {key!r}", value)


def _priority(row: Mapping[str, Any]) -> int | None:
    value = row.get("priority")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise StewardError(f"key 'priority': a whole number from 0 is expected, not {value!r}")
    return rule_text.parsed_priority(str(value))


def _action(row: Mapping[str, Any]) -> str:
    """As the option ``--action`` has it; also ``["RATE_LIMIT", 3]``."""
    value = row.get("action", CONTINUE)
    if isinstance(value, list):
        value = " ".join(str(one) for one in value)
    if not isinstance(value, str):
        raise StewardError(f"key 'action': a string is expected, found {describe(value)}")
    return value


def _predicates(value: Any) -> tuple[Any, ...]:
    """A list, or that as JSON in a string: TOML has no null."""
    if isinstance(value, str):
        return rule_text.parsed_predicates(value)
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise StewardError(
            "key 'predicates': only strings, numbers and lists can be in it"
        ) from None
    return rule_text.parsed_predicates(text)
