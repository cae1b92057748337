"""Sources in a process of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ganeti_steward.core.model.finding import CheckResult, Finding, Unknown
from ganeti_steward.diagnose.sources.isolated import run

#: Seconds; far more than any source takes that ends by itself.
LIMIT = 300.0


#: Seconds, for those that do not.
SHORT = 0.5


FINE = Finding("smart", "Ok")


KILLED = Unknown("smart", "killed after 0.5 s")


def unknown(reason: str) -> Unknown:
    return Unknown("smart", reason)


def said(source: Callable[[], Any], limit: float = LIMIT) -> list[CheckResult]:
    return run("smart", limit, source)


def _raise(err: BaseException) -> Callable[[], Any]:
    def source() -> Any:
        raise err

    return source


def _ends(how: Callable[[], object]) -> Callable[[], Iterator[CheckResult]]:
    def source() -> Iterator[CheckResult]:
        yield FINE
        how()
        yield Finding("smart:sda", "evacuate")

    return source


def _loop() -> None:
    while True:
        pass
