"""Changes for jobs that rules with actions hold, and the rules that release such jobs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID, uuid5

from ganeti_steward.core.errors import few
from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.filter_rules import ACCEPT, FilterRule
from ganeti_steward.plugins.model.task import Held

#: The source of the reason of a rule that releases a job.
SOURCE: Final = "maintd:release"
#: The brake of jobs that are held, see `Held.brake`.
BRAKE: Final = "filter-action"
#: That of what the next rounds do.
LATER: Final = "round"

RELEASE: Final = "release"
HOLD_AGAIN: Final = "hold-again"
FORGET: Final = "forget"
CANCEL: Final = "cancel"

_TEXT: Final = re.compile(r"filter rule ([0-9a-f-]{36}) releases job ([0-9]{1,18})")
_NAMESPACE: Final = UUID("0f7c2b9e-5a52-4c0f-9b39-6d0a3a3f2c11")
#: Numbers of jobs, and reasons, that a sentence has at most.
_NAMED: Final = 5


class JobChange(NamedTuple):
    """One change for one job."""

    kind: str
    """`RELEASE`: write ``release``; `HOLD_AGAIN`, `FORGET`: delete it; `CANCEL`: cancel the job"""
    job: int
    holding: str
    """uuid of the rule with the action"""
    release: str
    """uuid of the rule that releases the job; empty to cancel it"""
    priority: int
    """of that rule"""
    reason: str

    @property
    def sentence(self) -> str:
        """What is done, in a sentence without a subject."""
        what = {
            RELEASE: f"release job {self.job}",
            HOLD_AGAIN: f"hold job {self.job} again",
            FORGET: f"delete the rule that released job {self.job}",
            CANCEL: f"cancel job {self.job}",
        }
        return f"{what[self.kind]}: {self.reason}"

    def rule(self, now: int) -> FilterRule:
        """The rule that releases the job; ``now``: ns since the epoch."""
        text = f"filter rule {self.holding} releases job {self.job}"
        return FilterRule(
            self.release,
            self.priority,
            (["jobid", ["=", "id", self.job]],),
            ACCEPT,
            reasons=(Reason(SOURCE, text, now),),
        )


class Releases(NamedTuple):
    """What one round does about held jobs, in this order."""

    changes: tuple[JobChange, ...] = ()
    held: tuple[Held, ...] = ()
    """the jobs that stay held, by rule and reason"""

    def held_back(self, brake: str, why: str) -> Releases:
        """The same, with every change reported and none made."""
        found: dict[str, list[str]] = {}
        for one in self.changes:
            found.setdefault(one.holding, []).append(one.sentence)
        more = [
            Held(uuid, brake, f"{why}, it would {some_of(texts)}") for uuid, texts in found.items()
        ]
        return Releases((), (*self.held, *more))


def released_job(rule: FilterRule) -> tuple[str, int] | None:
    """The uuid of the holding rule and the job's number, of a rule that releases one."""
    for reason in rule.reasons:
        found = _TEXT.fullmatch(reason.text) if reason.source == SOURCE else None
        if found and rule.uuid == release_uuid(found[1], int(found[2])):
            return found[1], int(found[2])
    return None


def release_uuid(holding: str, job: int) -> str:
    """The uuid of the rule that releases a job from a rule: always the same one."""
    return str(uuid5(_NAMESPACE, f"{holding}:{job}"))


def some_of(texts: Sequence[str]) -> str:
    """The first of many texts, in one."""
    more = [f"{len(texts) - _NAMED} more"] if len(texts) > _NAMED else []
    return "; ".join([*texts[:_NAMED], *more])


def named(numbers: Sequence[int]) -> str:
    """The first of many jobs, in words."""
    return f"job{'s' if len(numbers) > 1 else ''} {few([*map(str, numbers)], _NAMED)}"
