"""Pairs of rules that concern each other, found without comparing every rule with every other.

A rule that covers another one shares a condition with it, so that rules are looked up by their
conditions.  Rules that require different values of one field have no job in common.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import merge
from typing import Any, Final, NamedTuple

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.chain import link
from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.language import AND, OR, replaced
from ganeti_steward.plugins.filters.lint.reach import reach
from ganeti_steward.plugins.filters.lint.witness import (
    an_opcode,
    covers,
    job_span,
    made_up,
    number_for,
    one_spelling,
    reason_for,
    witness,
)
from ganeti_steward.plugins.filters.pins import pins
from ganeti_steward.plugins.filters.rule_notes import noted_action, shown_action

#: For how many pairs a job is searched that both match, in all; that takes up to 2 ms each.  64
#: rules have no more pairs.
_SEARCHES: Final = 2_000
#: How many pairs are looked at, in all.  300 rules have no more.
_PAIRS: Final = 50_000
#: How many earlier rules that contradict it are found for one rule.
_CONTRADICTING: Final = 10


class _Need(NamedTuple):
    """One condition of a rule, which not all jobs satisfy."""

    keys: tuple[str, ...]
    """parts of it as texts: a rule whose jobs satisfy it has all of them among its own"""
    sure: frozenset[str]
    """names of the opcodes that always satisfy it"""


class KnownRule:
    """A valid rule that can match, and what is derived from it once."""

    def __init__(self, rule: FilterRule) -> None:
        self.rule, self.action = rule, shown_action(rule)
        self.first, self.last = job_span(rule)
        self.has = {one[0] for one in rule.predicates}

    @cached_property
    def offers(self) -> frozenset[str]:
        """Conditions that its jobs satisfy, as texts."""
        found = [(one[0], replaced(one[1], one_spelling)) for one in self.rule.predicates]
        return frozenset(
            name + key
            for name, expression in found
            for part in _conjuncts(expression)
            for key in _keys(part)
        )

    @cached_property
    def opcodes(self) -> frozenset[frozenset[str]]:
        """Of each of its predicates of opcodes the names of those that can match."""
        return frozenset(
            reach(one, self.rule.watermark).opcodes
            for one in self.rule.predicates
            if one[0] == "opcode"
        )

    @cached_property
    def needs(self) -> list[_Need]:
        """Its conditions about opcodes and reasons."""
        found = []
        for one in self.rule.predicates:
            ends = reach(one, self.rule.watermark)
            if one[0] != "jobid" and not ends.certain:
                keys = _keys(replaced(one[1], one_spelling))
                found.append(_Need(tuple(one[0] + key for key in keys), ends.sure))
        return found

    @cached_property
    def pins(self) -> Mapping[tuple[str, str], frozenset[str | int]]:
        """Predicate and field -> the values of which one opcode, reason or job needs one.

        Two predicates of one name can be met by two different opcodes, so they pin nothing.
        """
        names = Counter(one[0] for one in self.rule.predicates)
        return {
            (name, field): values
            for name, expression in self.rule.predicates
            if names[name] == 1
            for field, values in pins(expression).items()
            if name != "jobid" or all(isinstance(value, int) for value in values)
        }

    @cached_property
    def opcode(self) -> Mapping[str, Any] | None:
        """An opcode that satisfies its predicates of opcodes."""
        return an_opcode([self.rule])

    @cached_property
    def reason(self) -> Reason | None:
        """A reason that satisfies its predicates of reasons."""
        return reason_for([self.rule])

    @cached_property
    def link(self) -> Any:
        """The rule ready to be evaluated."""
        return link(self.rule)

    def excludes(self, other: KnownRule) -> bool:
        """Whether no opcode, reason or job id is in the reach of both."""
        if self.last < other.first or other.last < self.first:
            return True
        return any(
            place in other.pins and values.isdisjoint(other.pins[place])
            for place, values in self.pins.items()
        )


def _conjuncts(expression: Any) -> Iterator[Any]:
    """An expression, and all others that are true where it is, as `covers` sees it."""
    yield expression
    if expression is not None and expression[0] == AND:
        for part in expression[1:]:
            yield from _conjuncts(part)


def _keys(expression: Any) -> list[str]:
    """Texts, of which each is among the keys of the conjuncts of what contains the expression."""
    if expression is None:
        return []
    operator, *parts = expression
    if operator == AND and parts:
        return [key for part in parts for key in _keys(part)]
    if operator == OR and parts:
        return _keys(parts[0])
    return [json.dumps(expression)]


class _Covering:
    """The rules seen so far, to be looked up by those that they may cover."""

    def __init__(self, users: Mapping[str, int]) -> None:
        """``users``: key -> how many rules have it."""
        self._users = users
        self._rules: list[KnownRule] = []
        self._free: list[int] = []
        self._by_key: dict[str, list[int]] = {}
        self._by_sure: dict[frozenset[str], list[int]] = {}
        self._kept: set[str] = set()

    def add(self, rule: KnownRule) -> None:
        """Have a further rule, once of those that match the same jobs for sure."""
        same = json.dumps([rule.rule.watermark, rule.rule.predicates])
        if same in self._kept:
            return
        self._kept.add(same)
        at = len(self._rules)
        self._rules.append(rule)
        # By the condition that the fewest rules have in common.
        rare = [
            (self._users[key], key) for need in rule.needs if not need.sure for key in need.keys
        ]
        sure = next((need for need in rule.needs if need.sure and need.keys), None)
        if rare:
            self._by_key.setdefault(min(rare)[1], []).append(at)
        elif sure is not None:
            self._by_sure.setdefault(sure.sure, []).append(at)
            self._by_key.setdefault(sure.keys[0], []).append(at)
        else:
            self._free.append(at)

    def of(self, later: KnownRule) -> KnownRule | None:
        """The first of them that certainly matches all jobs of a rule."""
        places = [*self._within(self._free, later)]
        for key in later.offers:
            places += self._within(self._by_key.get(key, ()), later)
        for sure, some in self._by_sure.items():
            if any(names <= sure for names in later.opcodes):
                places += self._within(some, later)
        found = (self._rules[at] for at in sorted(places))
        return next((one for one in found if covers(one.rule, later.rule)), None)

    def _within(self, places: Iterable[int], later: KnownRule) -> list[int]:
        """Those whose job ids can be all that the later rule has."""
        first, last, rules = later.first, later.last, self._rules
        return [at for at in places if rules[at].first <= first and last <= rules[at].last]


def shadowed(rules: Sequence[KnownRule]) -> dict[str, KnownRule]:
    """uuid of a rule -> the first rule before it that matches all of its jobs.

    ``rules``: in the order in which jobs meet them.  An action that is not Ganeti's lets jobs
    through to later rules at some time.
    """
    covering = _Covering(Counter(key for one in rules for need in one.needs for key in need.keys))
    found = {}
    for one in rules:
        if earlier := covering.of(one):
            found[one.rule.uuid] = earlier
        if noted_action(one.rule) is None:
            covering.add(one)
    return found


class _RuleGroup:
    """Rules of one priority and action, to be looked up by those with which they share jobs."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._by: dict[tuple[str, str], dict[str | int, list[int]]] = {}
        self._all: dict[tuple[str, str], list[int]] = {}

    def add(self, at: int, rule: KnownRule, users: Mapping[Any, int]) -> None:
        """Have a further rule; ``users``: pin -> how many rules have it."""
        if not rule.pins:
            self._free.append(at)
            return
        place = min(rule.pins, key=lambda one: max(users[one, value] for value in rule.pins[one]))
        self._all.setdefault(place, []).append(at)
        for value in rule.pins[place]:
            self._by.setdefault(place, {}).setdefault(value, []).append(at)

    def beside(self, rule: KnownRule) -> Iterator[int]:
        """Places of the rules that a rule does not exclude, and of some others, in order."""
        lists = [self._free]
        for place, each in self._all.items():
            values = rule.pins.get(place)
            known = self._by[place]
            lists += [each] if values is None else [known.get(value, []) for value in values]
        return merge(*lists)


class _Search:
    """Looks for a job that two rules match."""

    def __init__(self) -> None:
        self._left, self._pairs = _SEARCHES, _PAIRS

    @property
    def is_over(self) -> bool:
        """Whether enough pairs were looked at."""
        return self._pairs <= 0

    def share(self, one: KnownRule, other: KnownRule) -> bool:
        """Whether there is one."""
        self._pairs -= 1
        if one.excludes(other) or (number := _number(one, other)) is None:
            return False
        if any(_match(number, opcode, reason, one, other) for opcode, reason in _made(one, other)):
            return True
        self._left -= 1
        if self._left < 0:
            return False
        return covers(other.rule, one.rule) or witness([one.rule, other.rule]) is not None


def _number(one: KnownRule, other: KnownRule) -> int | None:
    """The number of a job that satisfies the predicates of job ids of both; None: there is none."""
    if "jobid" in one.has | other.has:
        return number_for([one.rule, other.rule])
    return 1


def _made(
    one: KnownRule, other: KnownRule
) -> Iterator[tuple[Mapping[str, Any] | None, Reason | None]]:
    """The opcodes and reasons that are at hand for two rules."""
    for first in (one, other):
        if "opcode" in first.has or not {"opcode"} & (one.has | other.has):
            for second in (one, other):
                if "reason" in second.has or not {"reason"} & (one.has | other.has):
                    yield first.opcode, second.reason


def _match(
    number: int, opcode: Mapping[str, Any] | None, reason: Reason | None, *rules: KnownRule
) -> bool:
    if opcode is None or reason is None:
        return False
    job = made_up(number, opcode, [reason])
    return all(one.link.matched(job) == one.rule for one in rules)


def contradictions(rules: Sequence[KnownRule]) -> Iterator[tuple[KnownRule, KnownRule]]:
    """Pairs of the same priority and with different actions that match the same job."""
    search = _Search()
    groups: dict[int, list[KnownRule]] = {}
    for one in rules:
        groups.setdefault(one.rule.priority, []).append(one)
    for group in groups.values():
        yield from _in_group(group, search)


def _in_group(rules: Sequence[KnownRule], search: _Search) -> Iterator[tuple[KnownRule, KnownRule]]:
    if len({one.action for one in rules}) < 2:
        return
    users = Counter(
        (place, value) for one in rules for place, values in one.pins.items() for value in values
    )
    by_action: dict[str, _RuleGroup] = {}
    for at, later in enumerate(rules):
        others = [group for action, group in by_action.items() if action != later.action]
        left = _CONTRADICTING
        for place in merge(*(group.beside(later) for group in others)):
            if search.is_over:
                return
            if search.share(rules[place], later):
                yield rules[place], later
                left -= 1
                if not left:
                    break
        by_action.setdefault(later.action, _RuleGroup()).add(at, later, users)
