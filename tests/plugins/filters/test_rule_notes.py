"""What the reason trail of a rule says that it is for."""

from __future__ import annotations

import random
from typing import Final

import pytest
from asserting import some

from ganeti_steward.core.ganeti.reasons import USER, Reason
from ganeti_steward.plugins.filters.applying import RuleFile, planned
from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.recipes import LIMIT
from ganeti_steward.plugins.filters.rule_notes import (
    DAEMON,
    INCIDENT,
    creation_rules,
    file_mark,
    mark,
    purpose_of,
    record_rule,
    users_rules,
    warning,
)

OWNER: Final = "team"
UUID: Final = "aaaaaaaa-0000-4000-8000-000000000000"
#: What anybody who may write rules can add to the trail of one.
MARKS: Final = (
    Reason(USER, "unused since spring", 7),
    Reason(USER, file_mark(OWNER, "a"), 7),
    Reason(USER, mark(LIMIT, "bunny"), 7),
)


def of_daemon() -> list[FilterRule]:
    """A record and the rules that hold new instances off its node."""
    record = record_rule(UUID, '{"node_name":"node1"}', 7)
    return [record, *creation_rules(UUID, "node1", 7)]


def edited(rule: FilterRule, rng: random.Random) -> FilterRule:
    """A rule with more entries in its trail, in any order."""
    reasons = [*rule.reasons, *rng.sample(MARKS, rng.randrange(len(MARKS) + 1))]
    return rule._replace(reasons=tuple(rng.sample(reasons, len(reasons))))


@pytest.mark.parametrize("seed", range(20))
def test_no_rule_of_the_daemon_is_a_users_rule(seed: int) -> None:
    rng = random.Random(seed)
    own = [edited(rule, rng) for rule in of_daemon()]
    plain = of_daemon()[0]._replace(uuid=UUID[::-1], reasons=())
    users = [plain._replace(reasons=tuple(rng.sample(MARKS, number))) for number in range(4)]
    mixed = rng.sample([*own, *users], len(own) + len(users))
    assert users_rules(mixed) == [rule for rule in mixed if rule in users]
    for rule in some(own):
        assert purpose_of(rule).kind in (INCIDENT, DAEMON)
        assert "maintenance daemon" in warning(rule)


@pytest.mark.parametrize("seed", range(20))
def test_a_file_that_is_applied_deletes_no_rule_of_the_daemon(seed: int) -> None:
    rng = random.Random(seed)
    present = [edited(rule, rng) for rule in of_daemon()]
    plan = planned(present, RuleFile(OWNER, ()), 8, prune=True)
    assert (plan.deletes, plan.kept) == ((), ())
