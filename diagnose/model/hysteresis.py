"""What is believed of each source, from run to run: a result counts when it has held.

What a source said in one run, its result, is the set of its findings other than ``Ok``.

* Another result than the confirmed one counts when it has held for ``appear_after`` runs in a
  row.  One that is less bad, or only lacks something, has to hold for ``clear_after`` runs,
  and for ``appear_after`` too if anything in it is new.  Until then the confirmed one stays.
* Results that differ from run to run, all of them worse than the confirmed one, are a streak
  too; what is nearest to the confirmed one among them counts at its end.  So neither can a
  source hide a defect by wording it anew each time, nor can one odd run escalate.
* Unknown changes nothing: what was confirmed stays, and so does the place in a streak.
  It speaks for its source and for every ``source:object`` that says nothing itself.
* NotApplicable, of a source that tells nothing known in that run, is the same: a tool that is
  being upgraded has not repaired a disk.  Its findings go when it is not asked any more.
* A source that says nothing at all, though nothing unknown speaks for it, has nothing wrong:
  the disk was taken out, or its collector out of the configuration.
* Without a state, as in the very first run, it is not known what was told before.  A finding
  that still has to hold could have been told, so nothing may be told without it: it waits.
* A state that is lost may have held findings of sources that are unknown now.  It is not all
  right until each of them has said something known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.model.finding import OK, Finding, NotApplicable, Said, Unknown, severity

#: All that is wrong with a source, sorted; empty for nothing.
Result = tuple[Finding, ...]

#: Speaks for every source.
EVERYTHING: Final = "*"


class Held(NamedTuple):
    """What is known about one source."""

    confirmed: Result | None = ()
    """what counts; None where it is not known what counted before"""
    pending: Result = ()
    """what would count if it held"""
    runs: int = 0
    """so many in a row it did; 0 for nothing pending"""


class State(NamedTuple):
    """What one run leaves to the next.  The default is that of the very first run."""

    held: Mapping[str, Held] = {}
    """sources about which there is anything to be kept"""
    unheard: tuple[str, ...] = (EVERYTHING,)
    """sources that have not said anything known since there is a state"""
    lost: bool = False
    """whether there was one before that is lost, and those sources may have been in it"""


class Holding(NamedTuple):
    """Runs in a row that a result must hold before it counts."""

    appear_after: int = 1
    clear_after: int = 1


class Waiting(NamedTuple):
    """A result that does not count yet."""

    source: str
    result: Result
    runs: int
    needed: int
    first: bool
    """whether it is not known what counted before"""


class Settled(NamedTuple):
    """What is believed after a run."""

    state: State
    findings: tuple[Finding, ...]
    """what counts, none of it Ok"""
    kept: tuple[Unknown, ...]
    """sources whose findings stay although they do not apply any more"""
    waiting: tuple[Waiting, ...]


def covers(source: str, other: str) -> bool:
    """Whether what is unknown about a source is so for the other."""
    return source in (EVERYTHING, other) or other.startswith(f"{source}:")


def settle(state: State, said: Iterable[Said], holding: Holding) -> Settled:
    """Believe, or not yet believe, what was said in one run."""
    said = tuple(said)
    run = _Run(state, said, holding)
    held: dict[str, Held] = {}
    waiting: list[Waiting] = []
    for source in sorted({*run.results, *state.held}):
        found, needed = run.judge(source)
        if found.runs:
            first = found.confirmed is None
            waiting.append(Waiting(source, found.pending, found.runs, needed, first))
        if found != Held():
            held[source] = found
    unheard = {one.source for one in said if isinstance(one, Unknown) and run.is_unheard(one)}
    findings = [finding for one in held.values() for finding in one.confirmed or ()]
    left = State(held, tuple(sorted(unheard)), state.lost and bool(unheard))
    return Settled(left, tuple(findings), run.kept(held), tuple(waiting))


class _Run:
    """What was said in one run, and what was believed before."""

    def __init__(self, state: State, said: Sequence[Said], holding: Holding) -> None:
        self._state, self._holding = state, holding
        self.results: dict[str, Result] = {}
        for one in said:
            if isinstance(one, Finding):
                wrong = () if one.status == OK else (one,)
                self.results[one.source] = _sorted((*self.results.get(one.source, ()), *wrong))
        # What tells of some of its objects knows of the others that they are not there.
        self._absent = [
            one
            for one in said
            if isinstance(one, NotApplicable)
            and not any(covers(one.source, known) for known in self.results)
        ]
        self._silent = [one.source for one in said if isinstance(one, Unknown)]
        self._silent += [one.source for one in self._absent]

    def judge(self, source: str) -> tuple[Held, int]:
        """What is believed of a source now, and how many runs a pending result needs."""
        before = self._before(source)
        result = self.results.get(source)
        if result is None and any(covers(one, source) for one in self._silent):
            return before, _needed(before.confirmed or (), before.pending, self._holding)
        result = result or ()
        if source in self._silent:
            # It knows something, but not all: that may be more than before, not less.
            result = _sorted((*result, *(before.confirmed or ())))
        return _step(before, result, self._holding)

    def _before(self, source: str) -> Held:
        known = self._state.held.get(source)
        if known is not None:
            return known
        return Held(None if any(covers(one, source) for one in self._state.unheard) else ())

    def is_unheard(self, unknown: Unknown) -> bool:
        """Whether its source has never said anything known."""
        return any(covers(one, unknown.source) for one in self._state.unheard)

    def kept(self, held: Mapping[str, Held]) -> tuple[Unknown, ...]:
        """Sources whose findings are only kept because they do not apply any more."""
        return tuple(
            Unknown(source, f"what was found before stays: {one.reason}")
            for source, found in held.items()
            if found.confirmed and source not in self.results
            for one in self._absent
            if covers(one.source, source)
        )


def _step(before: Held, result: Result, holding: Holding) -> tuple[Held, int]:
    """What one known result makes of what was believed."""
    confirmed = before.confirmed or ()
    if _texts(result) == _texts(confirmed):
        return Held(result), 0
    needed, count = _needed(confirmed, result, holding), 1
    better = _is_better(confirmed, result)
    if before.runs and _is_better(confirmed, before.pending) == better and needed > 1:
        result, count = _nearer(confirmed, before.pending, result), before.runs + 1
        needed = _needed(confirmed, result, holding)
    if count >= needed:
        return Held(result), 0
    return Held(before.confirmed, result, count), needed


def _needed(confirmed: Result, result: Result, holding: Holding) -> int:
    """Runs in a row that a result must hold to take the place of the confirmed one."""
    new = holding.appear_after if _texts(result) - _texts(confirmed) else 1
    return max(new, holding.clear_after) if _is_better(confirmed, result) else new


def _is_better(confirmed: Result, result: Result) -> bool:
    """Whether a result is less bad, or lacks something and has nothing else."""
    if _severity(result) != _severity(confirmed):
        return _severity(result) < _severity(confirmed)
    return _texts(result) < _texts(confirmed)


def _nearer(confirmed: Result, old: Result, new: Result) -> Result:
    """Which of two results of one streak is nearer to what was confirmed before it."""
    better = _is_better(confirmed, new)
    if _severity(old) != _severity(new):
        return (max if better else min)(old, new, key=_severity)
    # What was seen in every run; unless nothing would be left of why it is a streak.
    common = tuple(finding for finding in new if _text(finding) in _texts(old))
    as_bad = _severity(common) == _severity(new)
    other = _texts(common) != _texts(confirmed) and _is_better(confirmed, common) == better
    return common if as_bad and other else old


def _severity(result: Result) -> int:
    return max((severity(finding.status) for finding in result), default=0)


def _sorted(findings: Iterable[Finding]) -> Result:
    """Findings of one source in one order, none of them twice."""
    unique = {_text(finding): finding for finding in findings}
    return tuple(unique[text] for text in sorted(unique))


def _texts(result: Result) -> frozenset[bytes]:
    return frozenset(map(_text, result))


def _text(finding: Finding) -> bytes:
    """What makes two findings the same: not the order of keys, but 1 is not 1.0."""
    return canonical(finding)
