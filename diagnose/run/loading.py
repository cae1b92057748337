"""Every source of the diagnosis, by its name and in the order of the configuration.

Nothing foreign is imported here: each source runs as a program of its own
(`ganeti_steward.diagnose.sources.isolated`) and imports there what it needs.  So a plugin that
hangs, crashes or cannot be loaded is one Unknown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from ganeti_steward.core.builtins import COLLECTORS
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.model.finding import CheckResult
from ganeti_steward.core.model.machine import Machine
from ganeti_steward.diagnose.config.sections import RESERVED, Diagnose, Nagios
from ganeti_steward.diagnose.run.memory import Memory
from ganeti_steward.diagnose.run.plugin_results import plugin_results
from ganeti_steward.diagnose.sources import isolated, nagios
from ganeti_steward.diagnose.sources.commands import SOURCE, find_commands, run_command
from ganeti_steward.diagnose.sources.uid_pool import Pool
from ganeti_steward.diagnose.sources.whitelist import DIAGNOSE_DIRECTORY

#: Makes the node to look at, which may be used for so many seconds.
MakeMachine = Callable[[float], Machine]


class Source(NamedTuple):
    """Something that reports about this node."""

    name: str
    run: Callable[[], list[CheckResult]]
    """never raises, and never takes much longer than its limit"""


def this_machine(limit: float, directory: str = "") -> Machine:
    """The machine this program runs on; ``directory``: where collectors keep something, if any."""
    from ganeti_steward.diagnose.sources.local_machine import LocalMachine

    memory = Memory(directory)
    return LocalMachine(time.monotonic() + limit, recalled=memory.read, remember=memory.write)


def sources(
    config: Config,
    machine: MakeMachine | None = None,
    commands: str = DIAGNOSE_DIRECTORY,
) -> Iterator[Source]:
    """All sources: collectors, plugins, commands of the whitelist, checks of Nagios.

    Without ``machine`` it is this one, and collectors keep what they need from run to run.
    """
    settings = config.section(Diagnose)
    if machine is None:
        machine = partial(this_machine, directory=settings.directory)
    limit = settings.time_limit
    own = Config(plugins=config.plugins, plugin=config.plugin, collector=config.collector)
    taken = frozenset((*COLLECTORS, *RESERVED, *settings.load))
    for name in (*settings.collectors, *settings.load):
        yield Source(name, partial(_run_plugin, name, limit, own, machine, taken))
    found, results = find_commands(settings.commands, commands)
    if results:
        yield Source(SOURCE, lambda: results)
    for name in found:
        run = partial(
            run_command,
            name,
            limit,
            settings.output_limit,
            directory=commands,
            pool=Pool() if name in settings.pool_user else None,
        )
        yield Source(f"{SOURCE}:{name}", run)
    for name, check in config.named(Nagios).items():
        yield Source(nagios.source(name), partial(nagios.run_check, name, check))


def _run_plugin(
    name: str, limit: float, config: Config, machine: MakeMachine, taken: frozenset[str]
) -> list[CheckResult]:
    run = partial(plugin_results, name, config, machine(limit), taken)
    return isolated.run(name, limit, run, taken=taken)
