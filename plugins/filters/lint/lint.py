"""All checks of a set of rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ganeti_steward.plugins.filters.filter_rules import CONTINUE, FilterRule
from ganeti_steward.plugins.filters.language import faults_of
from ganeti_steward.plugins.filters.lint.chain_checks import check_chain
from ganeti_steward.plugins.filters.lint.daemon_check import check_daemon
from ganeti_steward.plugins.filters.lint.findings import ERROR, LEVELS, NOTE, Finding
from ganeti_steward.plugins.filters.lint.predicate_checks import check_predicates
from ganeti_steward.plugins.filters.purpose import INCIDENT, purpose_of


def lint(rules: Sequence[FilterRule], unreadable: Mapping[str, str]) -> list[Finding]:
    """All findings, by rule in the order in which jobs meet them, errors first.

    ``unreadable``: uuid -> why the rule cannot be read.  Records of incidents, which apply to no
    job, are left out.  Rules that a program has made get no notes: their effect is intended.
    """
    checked = sorted((one for one in rules if not _is_record(one)), key=lambda rule: rule.order)
    faults = {rule.uuid: faults_of(rule.predicates) for rule in checked}
    valid = [rule for rule in checked if not faults[rule.uuid]]
    found = [
        *(Finding(ERROR, uuid, "invalid", "", text) for uuid, text in unreadable.items()),
        *(_invalid(uuid, one) for uuid, texts in faults.items() for one in texts),
        *(finding for rule in valid for finding in check_predicates(rule)),
        *check_chain(valid),
        *check_daemon(valid),
    ]
    made = {rule.uuid for rule in checked if purpose_of(rule).kind}
    at = {rule.uuid: number for number, rule in enumerate(checked)}
    return sorted(
        (one for one in found if one.level != NOTE or one.uuid not in made),
        key=lambda one: (at.get(one.uuid, len(at)), LEVELS.index(one.level)),
    )


def _is_record(rule: FilterRule) -> bool:
    return rule.action == CONTINUE and purpose_of(rule).kind == INCIDENT


def _invalid(uuid: str, text: str) -> Finding:
    place, _, sentence = text.partition(": ")
    return Finding(ERROR, uuid, "invalid", place, sentence)
