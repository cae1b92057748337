"""The job filter rules of a cluster: read, written and deleted through luxid or RAPI.

They are part of Ganeti's configuration and survive a failover of the master.  `read_rule` and the
functions that it calls read rules of every form: rows of luxid, files, and options of commands.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ganeti_steward.core.errors import RefusedByGaneti, join_faults
from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.core.json_nesting import is_deep
from ganeti_steward.core.json_reader import Faults, describe
from ganeti_steward.plugins.texts import read_reasons

if TYPE_CHECKING:
    from ganeti_steward.core.ganeti.luxi import Luxi
    from ganeti_steward.core.ganeti.rapi import Rapi

ACCEPT: Final = "ACCEPT"
CONTINUE: Final = "CONTINUE"
PAUSE: Final = "PAUSE"
REJECT: Final = "REJECT"
#: At most `FilterRule.limit` jobs at a time.
RATE_LIMIT: Final = "RATE_LIMIT"
#: The actions without a number.
PLAIN_ACTIONS: Final = frozenset({ACCEPT, CONTINUE, PAUSE, REJECT})

#: Levels of lists and objects in the predicates of a rule, which are evaluated recursively.
_DEEPEST: Final = 200
TOO_DEEP: Final = f"more than {_DEEPEST} levels are too many to be evaluated"
#: Numbers of Ganeti are smaller.
_LIMIT: Final = 2**63

_FIELDS: Final = ("uuid", "priority", "predicates", "action", "reason_trail", "watermark")


class FilterRule(NamedTuple):
    """One rule; jobs meet rules in the order of priority, watermark and uuid."""

    uuid: str
    """in lower case; empty in a new rule whose uuid luxid is to choose"""
    priority: int = 0
    """from 0; the lowest number comes first"""
    predicates: tuple[Any, ...] = ()
    """each ``[name, expression]`` as in Ganeti's JSON; all must match, none match every job"""
    action: str = CONTINUE
    """one of the five"""
    limit: int = 0
    """of `RATE_LIMIT`: jobs at a time, from 1; else 0"""
    reasons: tuple[Reason, ...] = ()
    """who made it, and why; luxid adds an entry whenever it is written"""
    watermark: int = 0
    """the last job number when it was written; set by luxid"""

    @property
    def native_action(self) -> str | list[Any]:
        """The action as luxid and RAPI have it: ``"PAUSE"``, ``["RATE_LIMIT", 3]``."""
        return [RATE_LIMIT, self.limit] if self.action == RATE_LIMIT else self.action

    @property
    def content(self) -> dict[str, Any]:
        """What is written, with the names and in the order of RAPI and luxid."""
        return {
            "priority": self.priority,
            "predicates": list(self.predicates),
            "action": self.native_action,
            "reason": [list(reason) for reason in self.reasons],
        }

    @property
    def order(self) -> tuple[int, int, str]:
        """Sorts rules as jobs meet them."""
        return self.priority, self.watermark, self.uuid


class Rules(NamedTuple):
    """All rules of a cluster."""

    rules: tuple[FilterRule, ...]
    """in the order jobs meet them"""
    unreadable: Mapping[str, str]
    """uuid -> why the rule cannot be read"""


def read_rules(client: Luxi | Rapi) -> Rules:
    """All rules of the cluster of a client; raises StewardError."""
    return rules_of((row["uuid"], row, Faults()) for row in client.rows("filter", _FIELDS))


def rules_of(rows: Iterable[tuple[str, Mapping[str, Any], Faults]]) -> Rules:
    """The rules of rows, each with its uuid and the faults that were found in it before."""
    found, faulty = [], dict[str, list[str]]()
    for uuid, row, faults in rows:
        rule = read_rule(row, uuid, faults)
        if faults.found:
            faulty.setdefault(uuid, []).extend(faults.found)
        else:
            found.append(rule)
    unreadable = {uuid: join_faults(faults) for uuid, faults in faulty.items()}
    return Rules(tuple(sorted(found, key=lambda rule: rule.order)), unreadable)


class FilterRules:
    """The rules of the cluster of one client; every call raises StewardError."""

    def __init__(self, client: Luxi | Rapi) -> None:
        self._client = client

    def read(self) -> Rules:
        """All rules."""
        return read_rules(self._client)

    def write(self, rule: FilterRule) -> str:
        """Create the rule, or replace the one of its uuid; its uuid.

        The new rule has a new watermark; what ``rule`` has as its own is ignored.  With the
        StewardError `RefusedByGaneti` the rules are as before; with another one that is not known.
        """
        content = rule.content
        if fault := ascii_fault(json.dumps(content, ensure_ascii=False)):
            raise RefusedByGaneti(f"filter rule {rule.uuid or '(new)'}: {fault}")
        return self._client.write_filter(rule.uuid, content)

    def watermark(self, uuid: str) -> int | None:
        """The number of the last job when the rule was written; None where there is none."""
        rows = self._client.rows("filter", ("uuid", "watermark"))
        return next((row["watermark"] for row in rows if row["uuid"] == uuid), None)

    def delete(self, uuid: str) -> bool:
        """Delete the rule; false when there was none of this uuid."""
        try:
            self._client.delete_filter(uuid)
        except RefusedByGaneti:
            if self._exists(uuid):
                raise
            return False
        return True

    def _exists(self, uuid: str) -> bool:
        return any(row["uuid"] == uuid for row in self._client.rows("filter", ("uuid",)))


def read_rule(row: Mapping[str, Any], uuid: str, faults: Faults) -> FilterRule:
    """A rule with the members that luxid gives, or RAPI; a missing one has its default.

    Each fault has its place.  Those inside of predicates are left to
    `ganeti_steward.plugins.filters.language.faults_of`: luxid has rules with such faults.
    """
    action, limit = read_action(row.get("action", CONTINUE), faults)
    rule = FilterRule(
        uuid,
        read_number("priority", row.get("priority", 0), faults) or 0,
        read_predicates(row.get("predicates", []), faults),
        action,
        limit,
        watermark=read_number("watermark", row.get("watermark", 0), faults) or 0,
    )
    try:
        trail = read_reasons(row.get("reason_trail", row.get("reason", [])))
    except ValueError as err:
        faults.found.append(str(err))
        return rule
    return rule._replace(reasons=trail)


def read_action(value: Any, faults: Faults) -> tuple[str, int]:
    """Action and limit of an action as `FilterRule.native_action`."""
    if isinstance(value, str) and value in PLAIN_ACTIONS:
        return value, 0
    if isinstance(value, list) and len(value) == 2 and value[0] == RATE_LIMIT:
        limit = _whole(value[1])
        if limit:
            return RATE_LIMIT, limit
    found = json.dumps(value, default=describe)[:80] if isinstance(value, list) else describe(value)
    faults.add(
        "action",
        f"ACCEPT, PAUSE, REJECT, CONTINUE or {RATE_LIMIT} with a number from 1 is expected, found "
        f"{found}",
    )
    return CONTINUE, 0


def read_number(place: str, value: Any, faults: Faults) -> int | None:
    """A priority or watermark, from 0; None after a fault."""
    number = _whole(value)
    if number is None:
        faults.add(place, f"a whole number from 0 is expected, found {describe(value)}")
    return number


def _whole(value: Any) -> int | None:
    """A number from 0 without a fraction; None for anything else."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < _LIMIT else None


def read_predicates(value: Any, faults: Faults) -> tuple[Any, ...]:
    """Predicates that can be evaluated if `language` finds no faults in them."""
    if not isinstance(value, list):
        faults.add("predicates", f"a list is expected, found {describe(value)}")
    elif is_deep(value, _DEEPEST):
        faults.add("predicates", TOO_DEEP)
    else:
        return tuple(value)
    return ()


def ascii_fault(text: str) -> str:
    """Why a text must not be in a rule; empty: it may be."""
    other = next((char for char in text if not char.isascii()), "")
    return f"{other!a} is not ASCII, and Ganeti's daemons can stop at that" if other else ""
