"""The results of one plugin, built-in collectors among them; called in its worker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.hooks.calls import invoke
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.model.finding import CheckResult, Unknown
from ganeti_steward.core.model.machine import Machine

#: The hook of the collectors and of every plugin of ``[diagnose] load``.
HOOK: Final = "steward_diagnose"


def plugin_results(name: str, config: Config, machine: Machine) -> Iterable[CheckResult] | None:
    """Load a plugin and call its hook."""
    try:
        implementation = Plugins(config, (name,)).implementation(name, HOOK)
    except PluginError as err:
        return [Unknown(name, str(err))]
    return cast("Iterable[CheckResult] | None", invoke(implementation, machine=machine))
