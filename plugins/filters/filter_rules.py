"""The job filter rules of a cluster: read, written and deleted through luxid or RAPI.

They are part of Ganeti's configuration and survive a failover of the master.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ganeti_steward.core.errors import RefusedByGaneti
from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.core.json_nesting import is_deep
from ganeti_steward.core.json_reader import describe, quoted
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
_TOO_DEEP: Final = f"its predicates have more than {_DEEPEST} levels, too many to be evaluated"

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
    found, unreadable = [], {}
    for row in client.rows("filter", _FIELDS):
        try:
            found.append(_rule(row))
        except ValueError as err:
            unreadable[row["uuid"]] = str(err)
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
        if not json.dumps(content, ensure_ascii=False).isascii():
            raise RefusedByGaneti(
                f"filter rule {rule.uuid or '(new)'}: only ASCII may be in it, for Ganeti's "
                "daemons can stop at other text"
            )
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


def _rule(row: Mapping[str, Any]) -> FilterRule:
    """A rule as luxid gives it; raises ValueError with one sentence."""
    action, limit = _action(row["action"])
    return FilterRule(
        uuid=_typed(row, "uuid", str),
        priority=_typed(row, "priority", int),
        predicates=evaluable(_typed(row, "predicates", list)),
        action=action,
        limit=limit,
        reasons=read_reasons(_typed(row, "reason_trail", list)),
        watermark=_typed(row, "watermark", int),
    )


def evaluable(predicates: list[Any]) -> tuple[Any, ...]:
    """The predicates of a rule; raises ValueError where they are nested too deeply."""
    if is_deep(predicates, _DEEPEST):
        raise ValueError(_TOO_DEEP)
    return tuple(predicates)


def _action(value: Any) -> tuple[str, int]:
    if isinstance(value, str) and value in PLAIN_ACTIONS:
        return value, 0
    if isinstance(value, list) and len(value) == 2 and value[0] == RATE_LIMIT:
        limit = value[1]
        if type(limit) is int and limit > 0:
            return RATE_LIMIT, limit
    shown = quoted(value) if isinstance(value, str) else describe(value)
    raise ValueError(f"{shown} is no action of a filter rule that is known here")


def _typed(row: Mapping[str, Any], key: str, kind: type) -> Any:
    value = row[key]
    if type(value) is not kind:
        raise ValueError(f"key {key!r}: {describe(value)} is not expected")
    return value
