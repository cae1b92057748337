"""What is wrong with the sections of the node side: collectors, commands, checks of Nagios."""

from __future__ import annotations

from collections.abc import Iterator

from ganeti_steward.core import hookimpl
from ganeti_steward.core.builtins import COLLECTORS
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import BadSettings, PluginError, StewardError
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.node_agent.period import diagnosis_period
from ganeti_steward.core.process.trusted_program import program_fault
from ganeti_steward.diagnose.config.sections import EVERY, Agent, Diagnose, Nagios
from ganeti_steward.diagnose.sources import whitelist


@hookimpl
def steward_check_config(config: Config) -> Iterator[str]:
    """Each fault with the path of the key it is about."""
    for name in config.collector:
        yield from _collector_faults(name, config)
    for key, names in (
        ("commands", config.section(Diagnose).commands),
        ("pool-user", config.section(Diagnose).pool_user),
    ):
        for name in names:
            fault = _command_fault(name) if name not in (EVERY, "") else ""
            if fault:
                yield f"diagnose.{key}: {name}: {fault}"
    for name, check in config.named(Nagios).items():
        fault = program_fault(check.command[0])
        if fault:
            yield f"nagios.{name}.command: {fault}"
    yield from _interval_faults(config.section(Agent), config.section(Diagnose))


def _interval_faults(agent: Agent, diagnose: Diagnose) -> Iterator[str]:
    """What the agent cannot do in the time it has."""
    period = diagnosis_period(agent.interval)
    if period and agent.max_age <= period.seconds:
        yield (
            f"agent.max-age: a report is sent for {agent.max_age:g} s only, but the next one is "
            f"made {period.seconds:g} s later ({period.where})"
        )
    if agent.interval and diagnose.run_time_limit > agent.max_age:
        yield (
            f"diagnose.run-time-limit: a run may take {diagnose.run_time_limit:g} s, but the agent "
            f"ends it without a report after {agent.max_age:g} s (agent.max-age)"
        )


def _collector_faults(name: str, config: Config) -> Iterator[str]:
    """What is wrong with the section ``[collector.NAME]``."""
    if name not in COLLECTORS:
        known = ", ".join(COLLECTORS)
        yield f"collector.{name}: no collector has this name (known: {known})"
        return
    try:
        Plugins(config, (name,))
    except BadSettings as err:
        yield from err.faults
    except PluginError as err:
        yield f"collector.{name}: {err}"


def _command_fault(name: str) -> str:
    """Why a command of the whitelist would not be run; empty when it would."""
    try:
        with whitelist.opened(name, whitelist.DIAGNOSE_DIRECTORY):
            return ""
    except StewardError as err:
        return str(err)
