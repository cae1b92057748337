"""The facts of a job of routine work in the reason trail of its operations, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from ganeti_steward.core.ganeti.job_search import FoundJob
from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.maintenance.incident import JOB_SOURCE
from ganeti_steward.core.maintenance.routine import ROUTINE_SOURCE, ROUTINE_TEXT, RoutineJob
from ganeti_steward.plugins.maintenance.engine.decision import RoutineStarted

#: The facts that are texts, and those that are lists of names.
_TEXTS: Final = ("plugin", "step", "subject")
_LISTS: Final = ("nodes", "instances")


def trail(started: RoutineStarted, copied: int) -> list[tuple[str, str]]:
    """Sources and texts of the reasons for one job of a task, which copies so many MiB."""
    task = started.task
    facts = {
        "plugin": started.plugin,
        "step": task.step,
        "subject": task.subject,
        "nodes": sorted(task.nodes),
        "instances": sorted(task.instances),
        "copied": copied,
    }
    text = json.dumps(facts, separators=(",", ":"))
    return [(JOB_SOURCE, f"{ROUTINE_TEXT}{started.plugin}"), (ROUTINE_SOURCE, text)]


def read_trail(job: FoundJob) -> RoutineJob | None:
    """The job as its reason trail describes it; None when it does not."""
    reasons = [one for each in job.reasons for one in each if one.source == ROUTINE_SOURCE]
    return _read(job.number, reasons)


def _read(number: int, reasons: Iterable[Reason]) -> RoutineJob | None:
    for one in reasons:
        try:
            facts = load_json(one.text)
        except ValueError:
            continue
        if _is_good(facts):
            names = {key: tuple(facts[key]) for key in _LISTS}
            known = {**{key: facts[key] for key in (*_TEXTS, "copied")}, **names}
            return RoutineJob(number, **known, submitted=one.timestamp)
    return None


def _is_good(facts: Any) -> bool:
    return (
        isinstance(facts, dict)
        and all(isinstance(facts.get(key), str) for key in _TEXTS)
        and all(isinstance(facts.get(key), list) for key in _LISTS)
        and all(isinstance(name, str) for key in _LISTS for name in facts[key])
        and type(facts.get("copied")) is int
    )
