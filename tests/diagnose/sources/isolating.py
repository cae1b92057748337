"""Sources that run as programs of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import isolated_sources

from ganeti_steward.core.model.finding import CheckResult, Unknown
from ganeti_steward.diagnose.sources.isolated import Source, run

#: Seconds; far more than any source takes that ends by itself.
LIMIT = 300.0

#: Seconds, for those that do not.
SHORT = 1.0

FINE = isolated_sources.FINE

KILLED = Unknown("smart", "killed after 1 s")


def unknown(reason: str) -> Unknown:
    return Unknown("smart", reason)


def results(
    function: Callable[..., Any], *arguments: Any, limit: float = LIMIT
) -> list[CheckResult]:
    """The results of a function of `isolated_sources`."""
    return run(Source("smart", partial(function, *arguments), limit))


def results_until(how: Callable[[], object], limit: float = LIMIT) -> list[CheckResult]:
    """The results of a source that reports one, does something, and reports another."""
    return results(isolated_sources.ends, how, limit=limit)
