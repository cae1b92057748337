"""What is wrong with the sections of the node side: collectors, plugins, commands, checks."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, Final

from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import PluginError, StewardError
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.process import program_fault
from ganeti_steward.diagnose.config.sections import EVERY, Diagnose, Nagios
from ganeti_steward.diagnose.run.collectors import HOOK, collector_faults

#: Judges commands; no room may be imported from here, so it is known by its name only.
_WHITELIST: Final = "ganeti_steward.diagnose.sources.whitelist"


def node_faults(config: Config) -> Iterator[str]:
    """Each fault with the path of the key it is about."""
    yield from collector_faults(config)
    for name in config.section(Diagnose).load:
        try:
            diagnose_hooks(name, config)
        except PluginError as err:
            yield f"diagnose.load: {err}"
    for key, names in (
        ("commands", config.section(Diagnose).commands),
        ("pool-user", config.section(Diagnose).pool_user),
    ):
        for name in names:
            fault = _command_fault(name) if name != EVERY else ""
            if fault:
                yield f"diagnose.{key}: {name}: {fault}"
    for name, check in config.named(Nagios).items():
        fault = program_fault(check.command[0])
        if fault:
            yield f"nagios.{name}.command: {check.command[0]} {fault}"


def diagnose_hooks(name: str, config: Config) -> list[str]:
    """The hooks of a plugin of ``[diagnose] load``, loaded by itself; raises PluginError."""
    alone = config.plugins._replace(load=(name,))
    plugins = Plugins(config._replace(plugins=alone))
    hooks = plugins.hooks(name)
    if HOOK not in hooks:
        raise PluginError(name, f"does not implement {HOOK}")
    return hooks


def _command_fault(name: str) -> str:
    """Why a command of the whitelist would not be run; empty when it would."""
    whitelist: Any = importlib.import_module(_WHITELIST)
    try:
        with whitelist.opened(name, whitelist.DIAGNOSE_DIRECTORY):
            return ""
    except StewardError as err:
        return str(err)
