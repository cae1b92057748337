"""Rules of a file become those of the cluster, in an order in which no half state is wrong.

New rules are written from the first to the last, then old ones are deleted from the last to the
first.  So at each time every job meets, as the first rule that matches it, the one that it meets
under the old rules or the one that it meets under the new ones.  A rule that changes is written
under another uuid, because to replace it would do both at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid5

from ganeti_steward.core.ganeti.luxi import REASON_SOURCE
from ganeti_steward.core.ganeti.reasons import USER, Reason
from ganeti_steward.plugins.filters import rule_notes
from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.language import replaced

_UUIDS: Final = UUID("6c2b7f0e-4f0d-5a54-8f0c-2a6a3f3d9b11")


class Wanted(NamedTuple):
    """One rule of a file."""

    name: str
    """which no other rule of the file has"""
    rule: FilterRule
    """without uuid and watermark; of its reasons only the action of the daemon"""
    comment: str = ""


class RuleFile(NamedTuple):
    """The rules of one owner."""

    owner: str
    rules: tuple[Wanted, ...]


class Plan(NamedTuple):
    """What is done to the rules of the cluster, in this order."""

    writes: tuple[FilterRule, ...]
    """new rules, each with its uuid"""
    deletes: tuple[FilterRule, ...]
    kept: tuple[FilterRule, ...]
    """rules of the owner that stay as they are"""

    def result(self, present: Iterable[FilterRule], newest: int) -> tuple[FilterRule, ...]:
        """The rules of the cluster afterwards; ``newest``: the number of the newest job."""
        gone = {rule.uuid for rule in self.deletes}
        stay = [rule for rule in present if rule.uuid not in gone]
        new = [rule._replace(watermark=newest) for rule in self.writes]
        return tuple(sorted([*stay, *new], key=lambda rule: rule.order))


def name_of(rule: FilterRule) -> str:
    """The name that the rule has in its owner's file."""
    return rule_notes.purpose_of(rule).name.partition(":")[2]


def is_of(rule: FilterRule, owner: str) -> bool:
    """Whether the rule was written from a file of this owner."""
    purpose = rule_notes.purpose_of(rule)
    return purpose.kind == rule_notes.FILE and purpose.name.partition(":")[0] == owner


def planned(present: Sequence[FilterRule], file: RuleFile, now: int, *, prune: bool) -> Plan:
    """How the rules of the cluster become those of a file.

    ``present``: in the order in which jobs meet them; ``prune``: also delete the owner's rules that
    are not in the file; ``now``: ns since the epoch.
    """
    own = [rule for rule in rule_notes.users_rules(present) if is_of(rule, file.owner)]
    taken = {rule.uuid for rule in present}
    # Reversed, so that of several that are the same the first one is kept.
    there = {_content(rule): rule for rule in reversed(own)}
    kept: dict[str, FilterRule] = {}
    writes = []
    for one in file.rules:
        rule = _marked(one, file.owner, now)
        same = there.get(_content(rule))
        if same is None:
            writes.append(rule._replace(uuid=_uuid(rule, taken)))
        else:
            kept[same.uuid] = same
    names = {one.name for one in file.rules}
    over = [rule for rule in own if rule.uuid not in kept and (prune or name_of(rule) in names)]
    gone = {rule.uuid for rule in over}
    return Plan(
        # Of the same watermark, rules are sorted by their uuids.
        tuple(sorted(writes, key=lambda rule: (rule.priority, rule.uuid))),
        tuple(reversed(over)),
        tuple(rule for rule in own if rule.uuid not in gone),
    )


def _marked(one: Wanted, owner: str, now: int) -> FilterRule:
    comment = (Reason(USER, one.comment, now),) if one.comment else ()
    mark = Reason(REASON_SOURCE, rule_notes.file_mark(owner, one.name), now)
    return one.rule._replace(reasons=(*comment, mark, *one.rule.reasons))


def _uuid(rule: FilterRule, taken: set[str]) -> str:
    """The same for the same rule, so that a write that was not confirmed is found again."""
    number, uuid = 0, ""
    while not uuid or uuid in taken:
        uuid = str(uuid5(_UUIDS, json.dumps([_content(rule), number])))
        number += 1
    taken.add(uuid)
    return uuid


def _content(rule: FilterRule) -> str:
    """What makes two rules the same, in the one form that luxid keeps."""
    reasons = [
        [reason.source, reason.text]
        for reason in rule.reasons
        if reason.source in (USER, REASON_SOURCE, rule_notes.ACTION_SOURCE)
    ]
    predicates = [[one[0], replaced(one[1], _as_kept)] for one in rule.predicates]
    return json.dumps([rule.priority, predicates, rule.native_action, reasons])


def _as_kept(leaf: Any) -> Any:
    operator, *rest = leaf
    if operator == "!=":
        return ["!", ["=", *rest]]
    return ["=" if operator == "==" else operator, *rest]


def described(plan: Plan, words: Mapping[str, str]) -> list[dict[str, Any]]:
    """Each change as data; ``words``: for ``writes`` and ``deletes``."""
    return [
        {
            "change": words[part],
            "name": name_of(rule),
            "uuid": rule.uuid,
            "priority": rule.priority,
            "predicates": list(rule.predicates),
            "action": _shown(rule),
        }
        for part, rules in (("writes", plan.writes), ("deletes", plan.deletes))
        for rule in rules
    ]


def _shown(rule: FilterRule) -> str | list[Any]:
    """The action as it is stored, or by its name where that is not Ganeti's."""
    return rule_notes.shown_action(rule) if rule_notes.noted_action(rule) else rule.native_action
