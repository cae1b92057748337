"""Files of rules with names, as people keep them: TOML, or the same as JSON."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

from ganeti_steward.core.errors import StewardError, join_faults
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.json_reader import Faults, describe, quoted
from ganeti_steward.plugins.filters import rule_text
from ganeti_steward.plugins.filters.applying import RuleFile, Wanted
from ganeti_steward.plugins.filters.cli.write import with_action, with_priority
from ganeti_steward.plugins.filters.filter_rules import (
    CONTINUE,
    FilterRule,
    Rules,
    read_action,
    read_number,
)

_OWNER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*", re.ASCII)
_KEYS: Final = ("name", "priority", "predicates", "action", "comment")


def read_named_rules(content: bytes, file: str, now: int) -> RuleFile | None:
    """The rules of a file; None where it is a list of rules without names.

    ``now``: ns since the epoch.  Raises StewardError naming the file and all faults.
    """
    data = _data(content, file)
    if isinstance(data, list):
        return None
    faults = Faults()
    found = _rule_file(data, now, faults)
    if faults.found:
        raise StewardError(f"{file}: {join_faults(faults.found)}")
    return found


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


def _rule_file(data: Any, now: int, faults: Faults) -> RuleFile:
    if not isinstance(data, dict):
        expected = "a list of rules, or their owner and rules, is expected"
        faults.found.append(f"{expected}, found {describe(data)}")
        return RuleFile("", ())
    rule_text.check_keys(data, ("owner", "rule"), faults)
    owner, rows = data.get("owner"), data.get("rule", [])
    if not isinstance(owner, str) or not _OWNER.fullmatch(owner):
        faults.add("owner", "a word of letters, digits and . _ @ - is expected")
    if not isinstance(rows, list):
        faults.add("rule", f"a list of rules is expected, found {describe(rows)}")
        rows = []
    found = dict[str, Wanted]()
    for number, row in enumerate(rows, 1):
        own = Faults()
        one = _wanted(row, now, own)
        if one.name and one.name in found:
            own.add("name", "another rule has this name")
        found[one.name] = one
        faults.found += [
            f"rule {quoted(one.name) if one.name else number}: {fault}" for fault in own.found
        ]
    return RuleFile(str(owner), tuple(found.values()))


def _wanted(row: Any, now: int, faults: Faults) -> Wanted:
    if not isinstance(row, dict):
        faults.found.append(f"a rule is expected, found {describe(row)}")
        return Wanted("", FilterRule(""))
    rule_text.check_keys(row, _KEYS, faults)
    name, comment = _text(row, "name", faults), _text(row, "comment", faults)
    if not name or name != name.strip() or not name.isprintable():
        faults.add("name", "words without blanks around are expected")
    predicates = row.get("predicates", [])
    # Also as JSON in a string, because TOML has no null.
    read = (
        rule_text.parsed_predicates if isinstance(predicates, str) else rule_text.valid_predicates
    )
    rule = FilterRule("", predicates=read(predicates, faults))
    rule = with_action(rule, _action(row, faults), now, faults)
    priority = row.get("priority")
    given = None if priority is None else read_number("priority", priority, faults)
    return Wanted(name, with_priority(rule, given, faults), comment)


def _text(row: Mapping[str, Any], key: str, faults: Faults) -> str:
    value = row.get(key, "")
    if not isinstance(value, str):
        faults.add(key, f"a text is expected, found {describe(value)}")
        return ""
    rule_text.check_ascii(key, value, faults)
    return value


def _action(row: Mapping[str, Any], faults: Faults) -> str:
    """As the option ``--action`` has it; also ``["RATE_LIMIT", 3]``."""
    value = row.get("action", CONTINUE)
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join(map(str, value))
    return read_action(value, faults)[0]
