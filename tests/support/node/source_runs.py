"""Commands and checks of Nagios as sources, each run by itself."""

from __future__ import annotations

from typing import Any

from ganeti_steward.core.model.finding import CheckResult
from ganeti_steward.diagnose.config.sections import Nagios
from ganeti_steward.diagnose.sources.commands import command_source
from ganeti_steward.diagnose.sources.isolated import run
from ganeti_steward.diagnose.sources.nagios import check_source


def run_command(name: str, limit: float, output_limit: int, **more: Any) -> list[CheckResult]:
    """The result of a command; the arguments are those of `command_source`."""
    return run(command_source(name, limit, output_limit, **more))


def run_check(name: str, check: Nagios) -> list[CheckResult]:
    """The result of a check."""
    return run(check_source(name, check))
