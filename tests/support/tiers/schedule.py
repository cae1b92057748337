"""Which worker of pytest-xdist runs which test."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

if TYPE_CHECKING:
    import pytest

#: Files and folders of tests/lab that run one after the other in one lab, so that each lab has
#: about as much to do; what is not named here runs in the last lab.
_LABS: Final = (
    {
        "aggregates",
        "test_live_balance",
        "test_live_jobs",
        "test_mond",
        "test_moves",
        "test_multi_allocate",
        "test_relocate",
    },
    # Have labs of another kind; the first one breaks its Ganeti.
    {"faults", "luxid"},
    {"daemon"},
)
#: Files whose tests share what takes minutes to make.
_UNDIVIDED: Final = {"test_built_packages"}
#: Tests that mostly wait for processes leave the processors to others.
_WAITING: Final = 2


def workers(config: pytest.Config) -> int:
    """One for each processor, and a few for tests that mostly wait.

    Labs that share a processor would keep each other waiting until something gives up.  A single
    file is run without any worker.
    """
    processors = len(os.sched_getaffinity(0))
    paths = [Path(argument.partition("::")[0]) for argument in config.args]
    files = sum(path.is_file() for path in paths)
    in_labs = config.option.part == "labs" or all("lab" in path.parts for path in paths)
    usual = processors if in_labs else processors + _WAITING
    return min(usual, files if files > 1 else 0) if files == len(paths) else usual


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each test to a free worker, but tests that share a lab or a build to the same one."""

    def _split_scope(self, nodeid: str) -> str:
        """The name of what is not divided between workers; the largest ones come first."""
        path = PurePosixPath(nodeid.partition("::")[0])
        if path.parts[:2] != ("tests", "lab"):
            return path.stem if path.stem in _UNDIVIDED else nodeid
        names = {path.stem, *path.parts}
        return f"lab {next((n for n, lab in enumerate(_LABS) if names & lab), len(_LABS))}"
