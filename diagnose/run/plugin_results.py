"""The results of one plugin, built-in collectors among them; called in its worker."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator
from typing import Final, cast

from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.hooks.calls import invoke
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.model.finding import CheckResult, Unknown
from ganeti_steward.core.model.machine import Machine
from ganeti_steward.diagnose.sources.result_lines import OwnName, is_own_name

#: The hook of the collectors and of every plugin of ``[diagnose] load``.
HOOK: Final = "steward_diagnose"


def plugin_results(
    name: str, config: Config, machine: Machine, taken: Collection[str]
) -> Iterator[CheckResult | OwnName]:
    """Load a plugin and call its hook; what it calls itself comes first.

    ``taken``: the names of other sources.
    """
    try:
        implementation = Plugins(config, (name,)).implementation(name, HOOK)
    except PluginError as err:
        yield Unknown(name, str(err))
        return
    own = _own_name(implementation.plugin)
    if own != name and is_own_name(own, taken):
        yield OwnName(str(own))
    found = cast("Iterable[CheckResult] | None", invoke(implementation, machine=machine))
    if found is not None:
        yield from found


def _own_name(plugin: object) -> object:
    """``NAME`` of a plugin, or of the module of its class; None where there is none."""
    module = sys.modules.get(type(plugin).__module__)
    return getattr(plugin, "NAME", getattr(module, "NAME", None))
