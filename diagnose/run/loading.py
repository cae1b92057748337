"""Every source of the diagnosis, by its name and in the order of the configuration.

Nothing foreign is imported here: a source that is called imports what it needs, in the process
it has for itself (`ganeti_steward.diagnose.sources.isolated`).  So a plugin that hangs, crashes or
cannot be loaded is one Unknown.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple, cast

from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.model.finding import CheckResult, Unknown
from ganeti_steward.core.model.machine import Machine
from ganeti_steward.diagnose.config.sections import Diagnose, Nagios
from ganeti_steward.diagnose.sources import isolated, nagios
from ganeti_steward.diagnose.sources.commands import SOURCE, find_commands, run_command
from ganeti_steward.diagnose.sources.uid_pool import Pool
from ganeti_steward.diagnose.sources.whitelist import DIAGNOSE_DIRECTORY

#: The hook of the collectors and of every plugin of ``[diagnose] load``.
HOOK: Final = "steward_diagnose"

#: Gives the node to look at, for so many seconds.
MakeMachine = Callable[[float], Machine]


class Source(NamedTuple):
    """Something that reports about this node."""

    name: str
    run: Callable[[], list[CheckResult]]
    """never raises, and never takes much longer than its limit"""


def this_machine(limit: float) -> Machine:
    """The machine this program runs on."""
    from ganeti_steward.diagnose.sources.local_machine import LocalMachine

    return LocalMachine(time.monotonic() + limit)


def sources(
    config: Config,
    machine: MakeMachine = this_machine,
    commands: str = DIAGNOSE_DIRECTORY,
) -> Iterator[Source]:
    """All sources: collectors, plugins, commands of the whitelist, checks of Nagios."""
    settings = config.section(Diagnose)
    limit = settings.time_limit
    plugins = (*settings.collectors, *settings.load)
    if plugins:
        # What is our own is imported once here rather than in each child.
        importlib.import_module("ganeti_steward.core.hooks.calls")
        importlib.import_module("ganeti_steward.core.hooks.manager")
    for name in plugins:
        yield _isolated(name, limit, partial(_plugin, name, config, machine))
    found, results = find_commands(settings.commands, commands)
    if results:
        yield Source(SOURCE, lambda: results)
    for name in found:
        ask = partial(
            run_command,
            name,
            limit,
            settings.output_limit,
            directory=commands,
            pool=Pool() if name in settings.pool_user else None,
        )
        yield Source(f"{SOURCE}:{name}", ask)
    for name, check in config.named(Nagios).items():
        yield Source(nagios.source(name), partial(nagios.run_check, name, check))


def _isolated(name: str, limit: float, source: isolated.Source) -> Source:
    return Source(name, partial(isolated.run, name, limit, source))


def _plugin(name: str, config: Config, machine: MakeMachine) -> Iterable[CheckResult] | None:
    """The results of a collector or another plugin; pluggy and the plugin are loaded now."""
    from ganeti_steward.core.hooks.calls import invoke
    from ganeti_steward.core.hooks.manager import Plugins

    try:
        implementation = Plugins(config, (name,)).implementation(name, HOOK)
    except PluginError as err:
        return [Unknown(name, str(err))]
    results = invoke(implementation, machine=machine(config.section(Diagnose).time_limit))
    return cast("Iterable[CheckResult] | None", results)
