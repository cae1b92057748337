"""Rules of a file become those of the cluster: what holds whenever it is killed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

import clusters
import pytest
from asserting import some
from made_rules import made_jobs, made_rules
from standin import StandIn
from thorough import seeds

from ganeti_steward.core.ganeti.reasons import USER, Reason
from ganeti_steward.plugins.filters.applying import RuleFile, Wanted, name_of, planned
from ganeti_steward.plugins.filters.chain import Chain, known
from ganeti_steward.plugins.filters.cli.apply import carry_out
from ganeti_steward.plugins.filters.filter_rules import FilterRule, FilterRules
from ganeti_steward.plugins.filters.jobs import Job, read_job
from ganeti_steward.plugins.filters.rule_notes import ACTION_SOURCE, noted_action

OWNER: Final = "team"
NAMES: Final = tuple("abcdefgh")


class Client:
    """The rules in a stand-in for luxid, where jobs are submitted all the time."""

    def __init__(self, stand_in: StandIn, rng: random.Random) -> None:
        self.stand_in, self._rng = stand_in, rng
        self.states: list[tuple[FilterRule, ...]] = []
        """the rules after each change"""
        self.submits = False
        """whether jobs are submitted after each change, and not only numbers used"""

    def rows(self, what: str, fields: Sequence[str]) -> list[dict[str, Any]]:
        assert (what, "uuid" in fields) == ("filter", True)
        return deepcopy(list(self.stand_in.filters.values()))

    def write_filter(self, uuid: str, content: Mapping[str, Any]) -> str:
        values = [uuid or None, *deepcopy(list(content.values()))]
        answer = self.stand_in.call("ReplaceFilter", values)
        self._changed()
        return str(answer["result"])

    def delete_filter(self, uuid: str) -> None:
        assert self.stand_in.call("DeleteFilter", [uuid])["success"]
        self._changed()

    def _changed(self) -> None:
        self.states.append(FilterRules(self).read().rules)  # type: ignore[arg-type]
        if self.submits:
            self.submit()
        else:
            self.stand_in.queue.last += self._rng.choice((0, 0, 1, 3))

    def submit(self) -> None:
        """Submit some jobs, which then run for long."""
        jobs = [[_operation(self._rng)] for _ in range(self._rng.randrange(4))]
        assert self.stand_in.call("SubmitManyJobs", [jobs])["success"]


def _operation(rng: random.Random) -> dict[str, Any]:
    reason = [rng.choice(("gnt:user", "x")), rng.choice(("bunny", "pony")), 7]
    name = rng.choice(("OP_TEST_DELAY", "OP_TAGS_SET", "OP_TAGS_DEL"))
    usual = {"no_locks": rng.random() < 0.5, "kind": "cluster", "tags": ["x"], "duration": 1}
    return {"OP_ID": name, **usual, "reason": [reason]}


class World:
    """One cluster, and what is done to its rules."""

    def __init__(self, message: clusters.Message, seed: int) -> None:
        self.client = Client(StandIn(message), random.Random(seed))
        self.client.stand_in.queue.last = 3
        self.rules = FilterRules(self.client)  # type: ignore[arg-type]

    def steps(self, file: RuleFile, *, prune: bool) -> Iterator[None]:
        """Each change, as `carry_out` makes it."""
        plan = planned(self.rules.read().rules, file, 1, prune=prune)
        yield from (None for _ in carry_out(plan, self.rules))

    def apply(self, file: RuleFile, *, prune: bool = True, most: int = 1000) -> int:
        """Make at most so many changes; how many were made."""
        return sum(1 for _, _ in zip(range(most), self.steps(file, prune=prune), strict=False))


#: Predicates that many of the jobs satisfy.
PREDICATES: Final[tuple[tuple[Any, ...], ...]] = (
    (),
    (["opcode", ["=", "OP_ID", "OP_TEST_DELAY"]],),
    (["opcode", ["=~", "OP_ID", "TAGS"]],),
    (["opcode", ["?", "no_locks"]],),
    (["reason", ["=", "reason", "bunny"]],),
    (["jobid", [">", "id", "watermark"]],),
    (["jobid", ["<", "id", 9]], ["reason", ["=", "source", "gnt:user"]]),
)
ACTIONS: Final = ("ACCEPT", "PAUSE", "REJECT", "RATE_LIMIT", "CONTINUE")


def plain_rules(rng: random.Random, count: int) -> list[FilterRule]:
    """Rules that match many jobs."""
    found = []
    for _ in range(count):
        action = rng.choice(ACTIONS)
        limit = rng.randrange(1, 3) if action == "RATE_LIMIT" else 0
        found.append(FilterRule("", rng.randrange(4), rng.choice(PREDICATES), action, limit))
    return found


def effects(rules: Sequence[FilterRule], jobs: Sequence[Job]) -> list[Any]:
    chain = Chain(rules)
    found = [known(chain.applying(job)) for job in jobs]
    return [rule and rule.native_action for rule in found]


def file(names: Sequence[str], rules: Sequence[FilterRule]) -> RuleFile:
    bare = [rule._replace(uuid="", watermark=0) for rule in rules]
    return RuleFile(OWNER, tuple(Wanted(*one) for one in zip(names, bare, strict=True)))


def made_pair(seed: int) -> tuple[RuleFile, RuleFile, list[FilterRule]]:
    """The old rules and the new ones, of which some are the same, and those of others."""
    rng, made = random.Random(seed), made_rules if seed % 4 == 3 else plain_rules
    old = file(NAMES[:5], made(rng, 5))
    new = file(NAMES[2:7], made(rng, 5))
    kept = {one.name: one for one in old.rules if rng.random() < 0.5}
    new = RuleFile(OWNER, tuple(kept.get(one.name, one) for one in new.rules))
    return old, new, made(rng, 2)


def begun(message: clusters.Message, seed: int) -> tuple[World, RuleFile]:
    world, (old, new, others) = World(message, seed), made_pair(seed)
    for rule in others:
        world.rules.write(rule._replace(uuid=""))
    world.apply(old)
    return world, new


@pytest.fixture(scope="module")
def message() -> clusters.Message:
    return clusters.generate("--nodes=2", "--seed=5")


@pytest.mark.parametrize("seed", seeds(200, 2000))
def test_no_state_does_what_neither_the_old_nor_the_new_rules_do(
    message: clusters.Message, seed: int
) -> None:
    """Killed between any two changes, and started again."""
    jobs = [
        job._replace(number=number)
        for number, job in enumerate(made_jobs(random.Random(seed)) * 3, 1)
    ]
    prune = seed % 3 > 0
    count = begun(message, seed)[0].apply(made_pair(seed)[1], prune=prune)
    for kill in range(count + 1):
        world, new = begun(message, seed)
        old = effects(world.rules.read().rules, jobs)
        others = {rule.uuid for rule in world.rules.read().rules if not rule.reasons[:-1]}
        world.client.states.clear()
        world.apply(new, prune=prune, most=kill)
        world.apply(new, prune=prune)
        assert len(world.client.states) == count
        final = effects(world.rules.read().rules, jobs)
        for state in world.client.states:
            for before, now, after in zip(old, effects(state, jobs), final, strict=True):
                assert now in (before, after)
            assert others <= {rule.uuid for rule in state}
        assert world.apply(new, prune=prune) == 0


@pytest.mark.parametrize("seed", seeds(200, 2000))
def test_no_job_starts_or_is_canceled_where_both_sets_agree(
    message: clusters.Message, seed: int
) -> None:
    """Jobs are submitted after each change, and the first run is killed."""
    world, new = begun(message, seed)
    old, stand_in = world.rules.read().rules, world.client.stand_in
    stand_in.operations.pace = 1e6
    world.client.submits = True
    world.client.submit()
    world.apply(new, most=seed % 5)
    world.apply(new)
    world.client.submit()
    jobs = [read_job(row) for row in stand_in.queue.rows.values()]
    assert jobs
    final = effects(world.rules.read().rules, jobs)
    for job, *both in zip(jobs, effects(old, jobs), final, strict=True):
        if job.status == "canceled":
            assert "REJECT" in both
        elif job.status != "queued":
            assert not all(one in ("PAUSE", "REJECT") for one in both)


def test_a_pair_of_rules_is_really_changed(message: clusters.Message) -> None:
    """What the test above sees: most pairs need several changes."""
    counts = [begun(message, seed)[0].apply(made_pair(seed)[1]) for seed in range(20)]
    assert min(counts) > 1
    assert max(counts) > 6


def wanted(name: str, action: str = "PAUSE", comment: str = "", **more: Any) -> Wanted:
    return Wanted(name, FilterRule("", action=action, **more), comment)


def read_fields(rules: Sequence[FilterRule]) -> list[tuple[Any, ...]]:
    """What anything reads of each rule, by the name of the rule."""
    fields = [
        (
            name_of(rule),
            rule.priority,
            rule.predicates,
            rule.native_action,
            noted_action(rule),
            [one.text for one in rule.reasons if one.source == USER],
        )
        for rule in rules
    ]
    return sorted(fields, key=lambda one: one[0])


def noted(text: str) -> tuple[Reason, ...]:
    return (Reason(ACTION_SOURCE, text, 1),)


#: A rule of a file, then the same with one thing changed each time.
VARIANTS: Final = (
    wanted("a", predicates=PREDICATES[1]),
    wanted("a", predicates=PREDICATES[2]),
    wanted("a", predicates=PREDICATES[1], priority=7),
    wanted("a", "REJECT", predicates=PREDICATES[1]),
    wanted("a", "RATE_LIMIT", predicates=PREDICATES[1], limit=2),
    wanted("a", "RATE_LIMIT", predicates=PREDICATES[1], limit=3),
    wanted("a", comment="why", predicates=PREDICATES[1]),
    wanted("a", predicates=PREDICATES[1], reasons=noted("WINDOW Mon-Fri 20:00-06:00")),
    wanted("a", predicates=PREDICATES[1], reasons=noted("WINDOW Mon-Fri 21:00-06:00")),
    wanted("a", predicates=PREDICATES[1], reasons=noted("RAMP 3")),
)


@pytest.mark.parametrize("first", range(len(VARIANTS)))
def test_the_last_file_decides_all_that_is_read(message: clusters.Message, first: int) -> None:
    """Whatever the file before has had under the same name."""
    for second in some(VARIANTS):
        world, last, fresh = World(message, 1), RuleFile(OWNER, (second,)), World(message, 2)
        world.apply(RuleFile(OWNER, (VARIANTS[first],)))
        changes = world.apply(last)
        fresh.apply(last)
        assert read_fields(world.rules.read().rules) == read_fields(fresh.rules.read().rules)
        assert (changes == 0) == (second == VARIANTS[first])


def test_only_rules_of_the_owner_are_deleted(message: clusters.Message) -> None:
    world = World(message, 1)
    foreign = world.rules.write(FilterRule("", action="PAUSE"))
    world.apply(RuleFile("other", (wanted("a"),)))
    world.apply(RuleFile(OWNER, (wanted("a"), wanted("b"))))
    assert world.apply(RuleFile(OWNER, ()), prune=False) == 0
    assert world.apply(RuleFile(OWNER, (wanted("a"),))) == 1
    assert world.apply(RuleFile(OWNER, ())) == 1
    left = world.rules.read().rules
    assert foreign in {rule.uuid for rule in left}
    assert len(left) == 2


def test_what_luxid_writes_in_another_way_is_the_same(message: clusters.Message) -> None:
    predicates = (["opcode", ["&", ["!=", "OP_ID", "a"], ["==", "OP_ID", "b"]]],)
    world, one = World(message, 1), RuleFile(OWNER, (wanted("a", predicates=predicates),))
    world.apply(one)
    (row,) = world.client.stand_in.filters.values()
    row["predicates"] = [["opcode", ["&", ["!", ["=", "OP_ID", "a"]], ["=", "OP_ID", "b"]]]]
    assert world.apply(one) == 0


def test_a_rule_that_was_changed_by_hand_is_written_again(message: clusters.Message) -> None:
    world, one = World(message, 1), RuleFile(OWNER, (wanted("a", comment="why"),))
    world.apply(one)
    (row,) = world.client.stand_in.filters.values()
    row["priority"] = 9
    assert world.apply(one, prune=False) == 2
    (rule,) = world.rules.read().rules
    assert rule.priority == 0
    assert Reason("gnt:user", "why", 1) in rule.reasons
    assert world.apply(RuleFile(OWNER, (wanted("a", comment="other"),))) == 2
