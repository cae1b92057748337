"""Findings from run to run: a result takes effect when it has held."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti_steward.core.model.finding import CheckResult, Finding, NotApplicable, Unknown, severity
from ganeti_steward.diagnose.model.hysteresis import RunCounts, RunState, Update, update

OK = Finding("smart:sda", "Ok")
LIVE = Finding("smart:sda", "live-repair", "change-disk", {"failed": 1})
EVACUATE = Finding("smart:sda", "evacuate", "", "dying")
LOST = Unknown("smart", "smartctl was killed")

#: What is known when nothing was ever wrong.
CALM = RunState({}, ())


def runs(
    history: Sequence[Sequence[CheckResult]], appear: int, clear: int, state: RunState = CALM
) -> list[Update]:
    """The update after each of some runs."""
    updates = []
    for results in history:
        updates.append(update(state, results, RunCounts(appear, clear)))
        state = updates[-1].state
    return updates


def findings_each_run(
    history: Sequence[Sequence[CheckResult]], appear: int, clear: int, state: RunState = CALM
) -> list[tuple[Finding, ...]]:
    return [one.findings for one in runs(history, appear, clear, state)]


def statuses(
    history: Sequence[Sequence[CheckResult]], appear: int, clear: int, state: RunState = CALM
) -> list[str]:
    """The worst status after each run; ``-`` for none."""
    names = []
    for findings in findings_each_run(history, appear, clear, state):
        worst = max((finding.status for finding in findings), key=severity, default="-")
        names.append(worst)
    return names


def test_without_holding_every_run_counts() -> None:
    history = [[OK], [LIVE], [EVACUATE], [OK], [LIVE, EVACUATE]]
    assert findings_each_run(history, 1, 1) == [(), (LIVE,), (EVACUATE,), (), (EVACUATE, LIVE)]


@pytest.mark.parametrize("runs_needed", [2, 3, 5])
def test_a_finding_appears_after_so_many_runs(runs_needed: int) -> None:
    updates = runs([[LIVE]] * runs_needed, runs_needed, 1)
    assert [one.findings for one in updates] == [()] * (runs_needed - 1) + [(LIVE,)]
    waiting = [(one.runs, one.needed) for run in updates for one in run.waiting]
    assert waiting == [(n, runs_needed) for n in range(1, runs_needed)]


def test_it_must_be_seen_in_a_row() -> None:
    assert statuses([[LIVE], [OK], [LIVE], [OK], [LIVE], [LIVE]], 2, 1) == [
        "-", "-", "-", "-", "-", "live-repair",
    ]  # fmt: skip


def test_it_goes_after_so_many_runs() -> None:
    history: list[list[CheckResult]] = [[LIVE], [OK], [OK], [LIVE], [OK], [OK], [OK]]
    assert statuses(history, 1, 3) == ["live-repair"] * 6 + ["-"]


def test_a_worse_finding_takes_the_place_without_a_gap() -> None:
    """The node is never reported as healthy between the two."""
    history: list[list[CheckResult]] = [[LIVE], [LIVE], [EVACUATE], [EVACUATE], [OK]]
    assert statuses(history, 2, 1) == ["-", "live-repair", "live-repair", "evacuate", "-"]
    assert statuses(history[1:], 1, 9) == ["live-repair", "evacuate", "evacuate", "evacuate"]


def test_a_lesser_finding_has_to_hold_as_if_it_cleared() -> None:
    history: list[list[CheckResult]] = [[EVACUATE], [LIVE], [EVACUATE], [LIVE], [LIVE], [LIVE]]
    assert statuses(history, 1, 3) == ["evacuate"] * 5 + ["live-repair"]


def test_one_finding_of_two_goes() -> None:
    other = LIVE._replace(details="another")
    both: list[CheckResult] = [LIVE, other]
    assert findings_each_run([both, [LIVE], both, [LIVE], [LIVE]], 1, 2) == [
        *[(other, LIVE)] * 4,
        (LIVE,),
    ]


def test_one_odd_run_does_not_escalate() -> None:
    assert statuses([[LIVE], [LIVE], [EVACUATE], [LIVE]], 3, 1) == [
        "-", "-", "live-repair", "live-repair",
    ]  # fmt: skip


def test_a_finding_with_new_text_in_each_run_is_not_hidden() -> None:
    history = [[LIVE._replace(details={"hours": n})] for n in range(6)]
    assert statuses(history, 3, 1) == ["-", "-"] + ["live-repair"] * 4
    # Beside a finding that is always there, too.
    more = [[LIVE._replace(details="always"), *run] for run in history]
    assert [len(found) for found in findings_each_run(more, 3, 1)] == [0, 0, 1, 1, 1, 2]


def test_in_a_streak_counts_what_was_always_there() -> None:
    odd = LIVE._replace(details="odd")
    assert findings_each_run([[LIVE, odd], [LIVE], [LIVE]], 3, 1)[-1] == (LIVE,)
    assert findings_each_run([[LIVE], [LIVE], [LIVE, odd]], 3, 1)[-1] == (LIVE,)


def test_unknown_changes_nothing() -> None:
    history: list[list[CheckResult]] = [[LIVE], [LOST], [LOST], [OK], [LOST], [OK], [LOST]]
    assert statuses(history, 1, 2) == ["live-repair"] * 5 + ["-", "-"]
    # Not even the place in a streak.
    assert statuses([[LIVE], [LOST], [LIVE], [LOST]], 2, 1) == [
        "-", "-", "live-repair", "live-repair",
    ]  # fmt: skip


def test_unknown_covers_its_objects_only() -> None:
    other = Finding("smartest:sda", "evacuate")
    exact = Unknown("smart:sda", "no answer")
    for unknown in (LOST, exact):
        after = findings_each_run([[LIVE, other], [unknown]], 1, 1)[-1]
        assert after == (LIVE,)
    elsewhere = Unknown("smart:sdab", "no answer")
    assert findings_each_run([[LIVE], [elsewhere]], 1, 1)[-1] == ()


def test_an_object_that_is_known_beside_an_unknown_source() -> None:
    assert findings_each_run([[LIVE], [LOST, OK]], 1, 1)[-1] == ()
    assert findings_each_run([[LIVE], [LOST, EVACUATE]], 1, 1)[-1] == (EVACUATE,)


def test_a_source_that_knows_only_something_takes_nothing_back() -> None:
    part: list[CheckResult] = [Unknown("smart:sda", "half of it was read"), EVACUATE]
    assert findings_each_run([[LIVE], part], 1, 1)[-1] == (EVACUATE, LIVE)
    assert findings_each_run([[LIVE], [part[0], OK]], 1, 1)[-1] == (LIVE,)


def test_what_does_not_apply_any_more_stays_and_is_reported() -> None:
    """A tool that is being upgraded has not repaired a disk."""
    gone = NotApplicable("smart", "there is no smartctl")
    updates = runs([[LIVE], [gone], [gone]], 1, 1)
    assert [one.findings for one in updates] == [(LIVE,)] * 3
    kept = (Unknown("smart:sda", "earlier findings stay: there is no smartctl"),)
    assert [one.kept for one in updates] == [(), kept, kept]
    assert runs([[OK], [gone]], 1, 1)[-1].kept == ()


def test_what_does_not_apply_beside_what_does() -> None:
    """A command that was taken away, and a file in the whitelist that is no command."""
    command, other = Finding("command:raid", "evacuate"), Finding("command:bmc", "Ok")
    odd = NotApplicable("command", "no names of commands: 'x.old'")
    updates = runs([[command, other, odd], [other, odd]], 1, 1)
    assert [one.findings for one in updates] == [(command,), ()]
    assert updates[-1].kept == ()


def test_a_source_that_is_not_there_any_more_clears() -> None:
    """The disk was taken out, or the collector out of the configuration."""
    other = Finding("smart:sdb", "Ok")
    assert statuses([[LIVE, other], [other], [other]], 1, 2) == ["live-repair"] * 2 + ["-"]
    assert statuses([[LIVE], [], []], 1, 2) == ["live-repair"] * 2 + ["-"]


def test_the_very_first_run_holds_what_must_hold() -> None:
    """It may have been reported before: then no report may leave it out."""
    updates = runs([[LIVE], [LIVE], [LIVE]], 3, 1, RunState())
    assert [one.findings for one in updates] == [(), (), (LIVE,)]
    assert [[one.first for one in run.waiting] for run in updates] == [[True], [True], []]
    # It was nothing: from then on it is known.
    updates = runs([[LIVE], [OK], [LIVE]], 2, 1, RunState())
    assert [[one.first for one in run.waiting] for run in updates] == [[True], [], [False]]


def test_first_heard_later() -> None:
    """A source that returned nothing in the first run has its own first run later."""
    updates = runs([[LOST], [LOST], [LIVE], [LIVE]], 2, 1, RunState())
    assert [[one.first for one in run.waiting] for run in updates] == [[], [], [True], []]
    # Whatever else became known in the first run is known.
    other = Finding("md:md0", "evacuate")
    updates = runs([[LOST], [other, LOST]], 2, 1, RunState())
    assert [[one.first for one in run.waiting] for run in updates] == [[], [False]]


def test_without_holding_the_first_run_counts() -> None:
    (first,) = runs([[LIVE, LOST, Finding("md:md0", "Ok")]], 1, 1, RunState())
    assert (first.findings, first.waiting) == ((LIVE,), ())
    (fine,) = runs([[OK]], 5, 5, RunState())
    assert (fine.findings, fine.waiting, fine.state) == ((), (), CALM)


def test_only_what_is_not_fine_is_kept() -> None:
    (one,) = runs([[OK, Finding("md:md0", "Ok"), NotApplicable("ipmi", "none")]], 2, 2)
    assert one.state == CALM


def test_details_that_only_python_finds_equal() -> None:
    one, true = (LIVE._replace(details={"n": value}) for value in (1, True))
    assert [type(f[0].details["n"]) for f in findings_each_run([[one], [true]], 1, 1)] == [
        int,
        bool,
    ]


RESULTS: st.SearchStrategy[CheckResult] = st.one_of(
    st.builds(
        Finding,
        st.sampled_from(["smart", "smart:sda", "smart:sdb", "md"]),
        st.sampled_from(["Ok", "suspect", "live-repair", "evacuate"]),
        st.just(""),
        st.sampled_from([None, "x", "y"]),
    ),
    st.builds(Unknown, st.sampled_from(["smart", "smart:sda", "md"]), st.just("why")),
    st.builds(NotApplicable, st.sampled_from(["smart", "md"]), st.just("why")),
)
HISTORY = st.lists(st.lists(RESULTS, max_size=4), max_size=8)


@given(HISTORY, st.randoms(use_true_random=False), st.integers(1, 3), st.integers(1, 3))
def test_the_order_of_results_makes_no_difference(
    history: list[list[CheckResult]], chance: random.Random, appear: int, clear: int
) -> None:
    other = [chance.sample(results, len(results)) for results in history]
    for one, two in zip(
        runs(history, appear, clear, RunState()),
        runs(other, appear, clear, RunState()),
        strict=True,
    ):
        assert (one.state, one.findings, one.waiting) == (two.state, two.findings, two.waiting)


@given(HISTORY, st.lists(RESULTS, max_size=4), st.integers(1, 4), st.integers(1, 4))
def test_the_same_again_counts_in_the_end(
    history: list[list[CheckResult]], results: list[CheckResult], appear: int, clear: int
) -> None:
    """A result that stays unchanged for long enough takes effect, and then nothing waits."""
    again = [one for one in results if isinstance(one, Finding)]
    last = runs([*history, *[again] * 8], appear, clear)[-1]
    expected = {f for f in again if f.status != "Ok"}
    assert set(last.findings) == expected
    assert last.waiting == ()


@given(HISTORY, st.integers(1, 3), st.integers(1, 3))
def test_nothing_takes_effect_that_was_never_reported(
    history: list[list[CheckResult]], appear: int, clear: int
) -> None:
    seen: set[Finding] = set()
    for results, one in zip(history, runs(history, appear, clear), strict=True):
        seen |= {f for f in results if isinstance(f, Finding)}
        assert set(one.findings) <= seen


@given(HISTORY)
def test_unknown_never_heals(history: list[list[CheckResult]]) -> None:
    before = runs([*history, []], 1, 1)
    state = before[-2].state if len(before) > 1 else CALM
    held = before[-2].findings if len(before) > 1 else ()
    everything = [Unknown("smart", "why"), Unknown("md", "why")]
    after = update(state, everything, RunCounts(1, 1))
    assert after.findings == held
    assert after.state.held == state.held
