"""Rules with an expression that cannot be decided: only what depends on it is unknown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from hanging import in_a_child

from ganeti_steward.plugins.filters.analysis.explain import explain
from ganeti_steward.plugins.filters.analysis.simulation import TimedJob, simulate
from ganeti_steward.plugins.filters.chain import Chain, Unknown, link
from ganeti_steward.plugins.filters.filter_rules import (
    ACCEPT,
    CONTINUE,
    PAUSE,
    RATE_LIMIT,
    REJECT,
    FilterRule,
)
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.language import LUXID
from ganeti_steward.plugins.filters.regex import Undecided

EVIL: Final = ["=~", "name", "^(a+)+$"]
TEXT: Final = "a" * 40 + "!"
TRUE: Final = ["=", "kind", "cluster"]
FALSE: Final = ["=", "kind", "node"]
MISMATCH: Final = ["?", "kind"]

A, B, C = (f"{one * 8}-1111-4111-8111-111111111111" for one in "abc")


def job(number: int, *names: str) -> Job:
    opcodes = tuple({"OP_ID": "OP_TAGS_SET", "kind": "cluster", "name": one} for one in names)
    return Job(number, opcodes=opcodes)


def about(*expressions: Any) -> tuple[Any, ...]:
    return tuple(["opcode", one] for one in expressions)


def rule(uuid: str, action: str, *expressions: Any, limit: int = 0) -> FilterRule:
    return FilterRule(uuid, 50, about(*expressions), action, limit)


def matched(*expressions: Any, names: tuple[str, ...] = (TEXT,)) -> bool | None:
    """Whether a rule with these predicates matches a job; None: that is unknown."""
    try:
        return link(rule(A, PAUSE, *expressions)).matches(job(1, *names))
    except Undecided:
        return None


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (EVIL, None),
        (["!", EVIL], None),
        (["|", EVIL, TRUE], True),
        (["|", TRUE, EVIL], True),
        (["|", EVIL, FALSE], None),
        (["|", FALSE, EVIL], None),
        (["&", EVIL, TRUE], None),
        (["&", EVIL, FALSE], False),
        (["&", FALSE, EVIL], False),
        (["!", ["&", EVIL, FALSE]], True),
        (["!", ["|", EVIL, TRUE]], False),
        # Where it is true, the second part is not evaluated.
        (["|", EVIL, MISMATCH], None),
        # False or a mismatch: neither matches, but below a negation one of them does.
        (["&", EVIL, MISMATCH], False),
        (["!", ["&", EVIL, MISMATCH]], None),
        (["|", MISMATCH, EVIL], False),
        (["&", ["=", "nosuch", 1], EVIL], False),
        (["=~", "kind", "("], None),
        (["&", ["=~", "kind", "("], FALSE], False),
    ],
)
@in_a_child
def test_of_one_opcode(expression: Any, expected: bool | None) -> None:
    assert matched(expression) is expected


@in_a_child
def test_of_several_opcodes_and_predicates() -> None:
    assert matched(EVIL, names=(TEXT, "aa")) is True
    assert matched(EVIL, names=("aa", TEXT)) is True
    assert matched(EVIL, names=("b", TEXT)) is None
    assert matched(EVIL, FALSE) is False
    assert matched(FALSE, EVIL) is False
    assert matched(TRUE, EVIL) is None


@in_a_child
def test_the_chain() -> None:
    """Which rule applies is unknown only where no earlier one does."""
    evil, pause = rule(B, REJECT, EVIL), rule(C, PAUSE)
    found = Chain([evil, pause]).applying(job(1, TEXT))
    assert isinstance(found, Unknown)
    assert found.sentence.startswith(
        f"filter rule {B} cannot be evaluated, it may apply to the job: the regular expression "
    )
    assert Chain([evil, pause]).applying(job(1, "b")) == pause
    assert Chain([evil, pause]).applying(job(1, "aa")) == evil
    assert Chain([rule(A, ACCEPT), evil]).applying(job(1, TEXT)) == rule(A, ACCEPT)
    assert Chain([rule(A, CONTINUE, EVIL), pause]).applying(job(1, TEXT)) == pause


@in_a_child
def test_the_simulation_goes_on() -> None:
    """The job is taken to wait, and others are not held back by it."""
    rules = [rule(B, RATE_LIMIT, EVIL, limit=1), rule(C, RATE_LIMIT, limit=1)]
    jobs = [TimedJob(job(at, TEXT if at % 2 else "b"), at, 5.0) for at in range(1, 21)]
    courses = simulate(jobs, rules, LUXID, 2)
    assert [one.outcome for one in courses] == ["waiting", "ended"] * 10
    for one in courses[::2]:
        assert one.waiting
        assert (one.rule, one.waiting.cause, one.waiting.rule) == (None, "unknown", rules[0])


@in_a_child
def test_why_it_is_unknown() -> None:
    rules = [rule(B, REJECT, ["&", TRUE, ["!", EVIL]]), rule(C, PAUSE, ["&", EVIL, FALSE])]
    found = explain(1, [job(1, TEXT)], rules, LUXID, 20)
    first, second = found.steps
    assert (first.matched, second.matched) == (None, False)
    (cause,) = first.predicates[0].causes
    assert (cause.place, cause.part, cause.unknown) == ("predicates[0][1][2][1]", EVIL, True)
    assert "takes too long" in cause.text
    (other,) = second.predicates[0].causes
    assert (other.place, other.unknown) == ("predicates[0][1]", False)
    assert other.text.startswith('kind is "cluster", name is "aaaa')
    assert isinstance(found.applying, Unknown)
    assert found.outcome.startswith(f"it is unknown whether rule {B} (REJECT) applies to it: the")


RULES: Final = [
    {"uuid": A, "action": "REJECT", "predicates": about(EVIL)},
    {"uuid": B, "action": "PAUSE", "predicates": about(["=~", "OP_ID", "^(.+)+!$"])},
]
JOBS: Final = [
    {"id": number, "submitted": number, "duration": 1, "ops": job(number, name).opcodes}
    for number, name in enumerate((TEXT, "aa", "b"), 1)
]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "explain 1 --jobs JOBS --rules RULES",
            f"Result: may apply: {A}; it is unknown whether rule {A} (REJECT) applies to it: the "
            "regular expression '^(a+)+$' takes too long",
        ),
        ("explain 2 --jobs JOBS --rules RULES", f"Result: applies: {A}; rule {A} (REJECT) cancels"),
        ("explain 1 --jobs JOBS --rules RULES --json", f'"may_apply": "{A}"'),
        ("simulate RULES JOBS", f"waiting  unknown {A}"),
        ("simulate RULES JOBS --json", '"cause": "unknown"'),
        ("diff NONE RULES --jobs JOBS", f"waits: unknown {A}"),
        ("diff RULES NONE --jobs JOBS", f"waits: unknown {A} starts"),
        ("lint RULES", ""),
    ],
)
def test_commands_end(tmp_path: Path, words: str, expected: str) -> None:
    files = {"RULES": RULES, "JOBS": JOBS, "NONE": []}
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    command = [str(tmp_path / one) if one in files else one for one in words.split()]
    program = "import sys; from ganeti_steward.core.commands.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, "filter", *command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert "Warning" not in done.stderr
    assert expected in done.stdout
