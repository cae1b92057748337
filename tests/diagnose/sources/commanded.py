"""A script as a command of the whitelist."""

from __future__ import annotations

import time
from typing import Any

from ganeti_steward.core.model.finding import CheckResult, Finding, Unknown
from ganeti_steward.core.process import following
from ganeti_steward.diagnose.sources import commands, whitelist

#: Seconds; far more than any command takes that ends by itself.
LIMIT = 300.0


FINE = """echo '{"status":"Ok"}'"""


def unknown(reason: str) -> Unknown:
    return Unknown("command:raid", reason)


OK = Finding("command:raid", "Ok")

_results = commands._results


def results_from_a_dead_disk(*arguments: Any) -> list[CheckResult]:
    """A stand-in in the worker: looking at the whitelist never ends."""
    setattr(whitelist, "_directory", lambda *_: time.sleep(3600))  # noqa: B010
    return _results(*arguments)


def results_without_signals(*arguments: Any) -> list[CheckResult]:
    """A stand-in in the worker: no signal does anything."""
    setattr(following, "signal_group", lambda *_: True)  # noqa: B010
    return _results(*arguments)
