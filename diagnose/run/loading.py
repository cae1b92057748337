"""Every source of the diagnosis, by its name and in the order of the configuration.

Nothing foreign is imported here: each source runs in a process of its own
(`ganeti_steward.diagnose.sources.isolated`) and imports there what is not built in.  So a plugin
that hangs, crashes or cannot be loaded is one Unknown.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from ganeti_steward.core.builtins import COLLECTORS, built_in
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.hooks.calls import wanted
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.model.finding import CheckResult, Unknown
from ganeti_steward.diagnose.config.sections import RESERVED, Diagnose, Nagios
from ganeti_steward.diagnose.model.machine import Machine
from ganeti_steward.diagnose.run.local_machine import LocalMachine
from ganeti_steward.diagnose.sources.commands import SOURCE, command_source, find_commands
from ganeti_steward.diagnose.sources.isolated import Source
from ganeti_steward.diagnose.sources.nagios import check_source
from ganeti_steward.diagnose.sources.results import OwnName, is_own_name
from ganeti_steward.diagnose.sources.uid_pool import Pool
from ganeti_steward.diagnose.sources.whitelist import DIAGNOSE_DIRECTORY

if TYPE_CHECKING:
    from pluggy import HookImpl

#: The hook of the collectors and of every plugin of ``[diagnose] load``.
_HOOK: Final = "steward_diagnose"

#: Makes the node to look at, which may be used for so many seconds.
MakeMachine = Callable[[float], Machine]


def this_machine(limit: float, directory: str = "") -> Machine:
    """The machine this program runs on; ``directory``: where collectors keep something, if any."""
    return LocalMachine(time.monotonic() + limit, directory)


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
    built_ins = Plugins(own, ())
    for name in (*settings.collectors, *settings.load):
        load: Callable[[], HookImpl | str] = partial(_load, name, partial(Plugins, own, (name,)))
        if built_in(name):
            # Here once, not in each worker together with all that they share.
            load = partial(_given, _load(name, lambda: built_ins))
        call = partial(_plugin_results, name, load, partial(machine, limit), taken)
        yield Source(name, call, limit, taken=taken)
    found, results = find_commands(settings.commands, commands)
    if results:
        yield Source(SOURCE, tuple, 0, known=tuple(results))
    for name in found:
        pool = Pool() if name in settings.pool_user else None
        yield command_source(name, limit, settings.output_limit, directory=commands, pool=pool)
    for name, check in config.named(Nagios).items():
        yield check_source(name, check)


def _given(implementation: HookImpl | str) -> HookImpl | str:
    return implementation


def _load(name: str, plugins: Callable[[], Plugins]) -> HookImpl | str:
    """A plugin's implementation of the hook, or why there is none."""
    try:
        return plugins().implementation(name, _HOOK)
    except PluginError as err:
        return str(err)


def _plugin_results(
    name: str,
    load: Callable[[], HookImpl | str],
    machine: Callable[[], Machine],
    taken: Collection[str],
) -> Iterator[CheckResult | OwnName]:
    """Call the hook of a plugin; what it calls itself comes first.  Called in a worker.

    ``taken``: the names of other sources.
    """
    node, implementation = machine(), load()
    if isinstance(implementation, str):
        yield Unknown(name, implementation)
        return
    own = _own_name(implementation.plugin)
    if own != name and is_own_name(own, taken):
        yield OwnName(str(own))
    found = implementation.function(**wanted(implementation, machine=node))
    yield from cast("Iterable[CheckResult] | None", found) or ()


def _own_name(plugin: object) -> object:
    """``NAME`` of a plugin, or of the module of its class; None where there is none."""
    module = sys.modules.get(type(plugin).__module__)
    return getattr(plugin, "NAME", getattr(module, "NAME", None))
