"""What each test costs: seconds of the processor, with those of the processes it waited for."""

from __future__ import annotations

import resource
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from heapq import nlargest
from pathlib import Path
from time import process_time
from typing import Final

import pytest

#: The name of the figure in the report of each phase of a test.
CPU: Final = "cpu"
#: Seconds of the processor from which a test is slow.
SLOW: Final = 2.0

_HEADER: Final = """\
# Written by `contrib/test --write-slow`: tests that take 2 s of the processor or more even where
# they repeat least.  Tier 1 leaves them out.  Seconds, and a case, or a function whose cases take
# as long on average.
"""


def used() -> float:
    """Seconds of the processor used by this process and the children it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime


class Measured:
    """Measures each phase of a test, without fixtures that several tests share."""

    def __init__(self) -> None:
        self._depth = 0
        self._shared = 0.0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object]
    ) -> Generator[None, object, object]:
        if fixturedef.scope == "function" or self._depth:
            return (yield)
        before = used()
        self._depth += 1
        try:
            return (yield)
        finally:
            self._depth -= 1
            self._shared += used() - before

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None]:
        yield from self._phase(item)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        yield from self._phase(item)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None]:
        yield from self._phase(item)

    def _phase(self, item: pytest.Item) -> Generator[None]:
        before = used()
        try:
            yield
        finally:
            item.user_properties[:] = [(CPU, used() - before - self._shared)]
            self._shared = 0


class Slowest:
    """Collects what all tests of a run cost."""

    def __init__(self, slow: Path | None) -> None:
        self._write_to = slow
        self._cpu = defaultdict[str, float](float)
        self._wall = defaultdict[str, float](float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, seconds in report.user_properties:
            if name == CPU:
                self._cpu[report.nodeid] += float(str(seconds))
        self._wall[report.nodeid] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self._cpu) < 100:
            return
        terminalreporter.section("5 slowest of this run: s of the processor, s")
        for seconds, nodeid in nlargest(5, ((cost, one) for one, cost in self._cpu.items())):
            terminalreporter.write_line(f"{seconds:6.1f} {self._wall[nodeid]:6.1f} {nodeid}")

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if self._write_to and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            self._write_to.write_text(_HEADER + "".join(lines_of(self._cpu)))


def lines_of(cpu: Mapping[str, float]) -> Iterable[str]:
    """The lines of the file: slow functions as a whole, of others the slow cases."""
    cases = defaultdict[str, list[float]](list)
    for nodeid, seconds in cpu.items():
        cases[nodeid.partition("[")[0]].append(seconds)
    for nodeid in sorted({*cpu, *cases}):
        function = nodeid.partition("[")[0]
        mean = sum(cases[function]) / len(cases[function])
        if nodeid == function and mean >= SLOW:
            yield f"{mean:7.1f}  {nodeid}\n"
        elif nodeid != function and cpu[nodeid] >= SLOW > mean:
            yield f"{cpu[nodeid]:7.1f}  {nodeid}\n"
