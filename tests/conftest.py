"""What all tests start from."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from front import Front
from schedule import LABS, Scheduling
from thorough import often

#: Below /tmp others could make what root runs, so no program there is run as root.
_SAFE: Final = Path("/var/cache/steward-tests")

if os.geteuid() == 0:
    _SAFE.mkdir(mode=0o755, exist_ok=True)
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_SAFE))

if TYPE_CHECKING:
    from xdist.remote import Producer


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One for each processor, and a few that mostly wait: for a lab, or for processes.

    A single file is run without any.
    """
    waiting = 3 if config.option.markexpr == "not lab" else LABS
    usual = len(os.sched_getaffinity(0)) + waiting
    paths = [Path(argument.partition("::")[0]) for argument in config.args]
    files = sum(path.is_file() for path in paths)
    return min(usual, files if files > 1 else 0) if files == len(paths) else usual


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return Scheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked as thorough, unless all is to be tried."""
    if left := [one for one in items if one.get_closest_marker("thorough") and not often(0, 1)]:
        items[:] = [one for one in items if one not in left]
        config.hook.pytest_deselected(items=left)


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
def _signals_as_in_a_terminal() -> Iterator[None]:
    """What a shell starts in the background, or nohup, would hand its deafness on."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


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
