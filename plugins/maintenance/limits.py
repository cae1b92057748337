"""What of [maintd] and [harep] cannot work, by itself or with others, for ``check-config``.

All nodes are meant to have the same file.
"""

from __future__ import annotations

from collections.abc import Iterator

from ganeti_steward.allocators.cli.install_iallocator import NAME, lacking
from ganeti_steward.core import hookimpl
from ganeti_steward.core.builtins import declaration
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.node_agent.period import diagnosis_period
from ganeti_steward.core.process.trusted_program import program_fault
from ganeti_steward.plugins.maintenance.config import Harep, Maintd, Rebalance


@hookimpl
def steward_check_config(config: Config) -> Iterator[str]:
    """Each fault with both keys and their values."""
    maintd, agent = config.section(Maintd), config.section(declaration("agent"))
    period = diagnosis_period(agent.interval)
    if period and maintd.report_max_age <= period.seconds:
        yield (
            f"maintd.report-max-age: a report is used for {maintd.report_max_age:g} s only, but "
            f"the next one is made {period.seconds:g} s later ({period.where})"
        )
    if agent.repair and maintd.command_time_limit <= agent.repair_time_limit:
        yield (
            f"maintd.command-time-limit: a repair command is treated as failed after "
            f"{maintd.command_time_limit:g} s, but it may run for {agent.repair_time_limit:g} s "
            "(agent.repair-time-limit)"
        )
    if agent.repair and maintd.command_again_after < agent.repair_again_after:
        yield (
            f"maintd.command-again-after: a repair command is begun again after "
            f"{maintd.command_again_after:g} s, but the agents refuse it for "
            f"{agent.repair_again_after:g} s (agent.repair-again-after)"
        )
    if maintd.agent_port != agent.port:
        yield (
            f"maintd.agent-port: the agents are polled at port {maintd.agent_port}, but they "
            f"listen at {agent.port} (agent.port)"
        )
    if maintd.port == agent.port and maintd.address == agent.address:
        yield (
            f"maintd.port: the status cannot be served at port {maintd.port}, where the agent of "
            "the master listens (agent.port)"
        )
    for key, program in (
        ("notify-command", maintd.notify_command),
        ("silence-command", maintd.silence_command),
        ("gate-command", maintd.gate_command),
    ):
        if program and (fault := program_fault(program)):
            yield f"maintd.{key}: {fault}"
    if fault := config.section(Rebalance).fault:
        yield fault
    allocator = config.section(Harep).iallocator
    if "harep" in maintd.routine and (directories := lacking(allocator)):
        advice = "; gnt-steward install-iallocator installs it" if allocator == NAME else ""
        yield (
            f"harep.iallocator: Ganeti has no allocator {allocator} in its search path, "
            f"{directories}{advice}"
        )
