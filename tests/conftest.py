"""What all tests start from."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import hypothesis
import pytest
from front import Front
from interrupts import MainProcess, Once, Worker
from schedule import Scheduling, workers
from slow_tests import Measured, Slowest
from thorough import SEED, TIER, often
from tier_parts import PARTS, SLOW, chosen
from time_limits import Limits

#: Below /tmp others could make what root runs, so no program there is run as root.
_SAFE: Final = Path("/var/cache/steward-tests")

if os.geteuid() == 0:
    _SAFE.mkdir(mode=0o755, exist_ok=True)
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_SAFE))

# Before the tests are imported, which say how many examples they try.
hypothesis.settings.register_profile(
    "steward",
    # How fast this machine is says nothing about the program.
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    max_examples=often(100, 100, 10),
)
hypothesis.settings.load_profile("steward")

if TYPE_CHECKING:
    from xdist.remote import Producer

_LIMITS: Final = Limits()
_ONCE: Final = Once()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("steward")
    group.addoption("--part", choices=PARTS, help="run the tests of one part of a tier")
    group.addoption("--write-slow", action="store_true", help=f"write {SLOW.name}")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # All workers collect the same tests, also when the date changes meanwhile.
    os.environ["STEWARD_SEED"] = str(SEED)
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = SEED
    is_worker, distributed = hasattr(config, "workerinput"), bool(config.option.numprocesses)
    if not is_worker:
        slow = SLOW if config.option.write_slow else None
        config.pluginmanager.register(Slowest(slow), "slowest tests")
    if is_worker or not distributed:
        config.pluginmanager.register(Measured(), "costs of tests")
    config.pluginmanager.register(MainProcess() if distributed else Worker(), "interrupts")


def pytest_sessionstart() -> None:
    _LIMITS.start()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return workers(config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return Scheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what does not belong to this part and tier."""
    kept = chosen(items, config.option.part)
    if len(kept) < len(items):
        left = set(items) - set(kept)
        config.hook.pytest_deselected(items=[one for one in items if one in left])
        items[:] = kept


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    _ONCE.again()
    with _LIMITS.limited():
        return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What repeats the failures with the same seed."""
    failed = [one.nodeid for one in terminalreporter.stats.get("failed", [])]
    if failed:
        terminalreporter.section("to repeat")
        for nodeid in dict.fromkeys(failed):
            terminalreporter.write_line(
                f"STEWARD_TIER={TIER} STEWARD_SEED={SEED} .venv/bin/python -m pytest '{nodeid}'"
            )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI everything is there, so that a skipped test is a failed one."""
    report = yield
    if report.skipped and "CI" in os.environ and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} must not be skipped in CI: {report.longrepr}"
    return report


@pytest.fixture(scope="session", autouse=True)
def _hangup_as_in_a_terminal() -> Iterator[None]:
    """What nohup starts would hand its deafness on."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """A command that runs in this process sets up the program's log; undone afterwards."""
    logger, raising = logging.getLogger("ganeti_steward"), logging.raiseExceptions
    before = logger.level, logger.propagate, list(logger.handlers)
    yield
    for handler in logger.handlers:
        if handler not in before[2]:
            handler.close()
    logger.setLevel(before[0])
    logger.propagate, logger.handlers = before[1:]
    logging.raiseExceptions = raising


@pytest.fixture
def front(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Front]:
    front = Front(tmp_path, capsys)
    front.configure()
    monkeypatch.setenv("GNT_STEWARD_CONFIG", str(front.config_file))
    with front.imported():
        yield front
