"""Sums of logged comparisons: how often a shadow would have answered better or worse."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

#: What became of a comparison, seen from the shadow.
SAME: Final = "same"
BETTER: Final = "better"
WORSE: Final = "worse"
TIE: Final = "tie"
PLACES: Final = "places"
REFUSES: Final = "refuses"
OTHER: Final = "other"
PASSES: Final = "passes"
FAILS: Final = "fails"
OUTCOMES: Final = {
    SAME: "the same places, or both refuse",
    BETTER: "other places with a lower score",
    WORSE: "other places with a higher score",
    TIE: "other places with the same score",
    OTHER: "another answer without a score",
    PLACES: "an answer where the allocator refused",
    REFUSES: "refused where the allocator answered",
    PASSES: "not its request",
    FAILS: "failed, or took too long",
}

_LINE: Final = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[,.]\d+: steward .*? INFO "
    r"compared=(?P<shadow>'.*?'|\S+) request=(?P<request>\S+) name=.*? "
    r"same=(?P<same>yes|tie|no) answered=(?P<answered>.+?) "
    r"shadow=(?P<answer>.+?) score=(?P<own>-|[-0-9.e+naif]+)/(?P<score>-|[-0-9.e+naif]+) "
    r"ms=(?P<ms>[0-9]+)(?: info=|$)"
)


class Comparison(NamedTuple):
    """One shadow compared with one answer."""

    at: str
    """local time, to the second, as logged"""
    shadow: str
    request: str
    outcome: str
    """one of `OUTCOMES`"""
    lower: float | None
    """by how much its score is lower than that of the answer; None where one has no score"""
    milliseconds: int


class Sums(NamedTuple):
    """All comparisons of one shadow for one request type."""

    shadow: str
    request: str
    first: str
    """local time of the first comparison"""
    last: str
    outcomes: dict[str, int]
    """outcome -> how often"""
    lower: float
    """by how much its score is lower on average, where places differ and both have a score"""
    median: int
    """ms"""
    longest: int
    """ms"""

    @property
    def number(self) -> int:
        """Comparisons."""
        return sum(self.outcomes.values())


def comparisons(lines: Iterable[str]) -> Iterator[Comparison]:
    """Those among the lines of a log."""
    for line in lines:
        if " compared=" in line and (found := _LINE.match(line)):
            yield _comparison(found)


def _comparison(found: re.Match[str]) -> Comparison:
    lower = _difference(found["own"], found["score"])
    return Comparison(
        found["at"],
        found["shadow"],
        found["request"],
        _outcome(found, lower),
        lower,
        int(found["ms"]),
    )


def _difference(own: str, score: str) -> float | None:
    try:
        return float(own) - float(score)
    except ValueError:
        return None


def _outcome(found: re.Match[str], lower: float | None) -> str:
    shadow, answered = found["answer"], found["answered"]
    words = {"failed": FAILS, "not-mine": PASSES}
    if shadow in words:
        return words[shadow]
    if found["same"] == "yes":
        return SAME
    if found["same"] == "tie":
        return TIE
    if "refused" in (answered, shadow):
        return REFUSES if shadow == "refused" else PLACES
    if lower is None:
        return OTHER
    return BETTER if lower > 0 else WORSE


def sums(found: Iterable[Comparison]) -> list[Sums]:
    """The sums by shadow and request type, in this order."""
    groups = dict[tuple[str, str], list[Comparison]]()
    for one in found:
        groups.setdefault((one.shadow, one.request), []).append(one)
    return [_sums(*key, groups[key]) for key in sorted(groups)]


def _sums(shadow: str, request: str, found: list[Comparison]) -> Sums:
    outcomes = dict.fromkeys(OUTCOMES, 0)
    for one in found:
        outcomes[one.outcome] += 1
    differ = [
        one.lower for one in found if one.outcome in (BETTER, WORSE, TIE) and one.lower is not None
    ]
    times, all_ms = sorted(one.at for one in found), sorted(one.milliseconds for one in found)
    return Sums(
        shadow,
        request,
        times[0],
        times[-1],
        outcomes,
        sum(differ) / len(differ) if differ else 0.0,
        all_ms[len(all_ms) // 2],
        all_ms[-1],
    )
