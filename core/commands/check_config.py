"""``gnt-steward check-config``: every fault of the configuration at once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ganeti_steward.core import builtins
from ganeti_steward.core.config.declaration import keys
from ganeti_steward.core.config.load import config_path, load_config
from ganeti_steward.core.config.reference import reference_page
from ganeti_steward.core.config.sample import sample_config
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import (
    COMMAND_PREFIX,
    EXIT_FAILURE,
    EXIT_OK,
    BadConfig,
    BadSettings,
    PluginError,
    StewardError,
)
from ganeti_steward.core.hooks import timed_call as guard
from ganeti_steward.core.hooks.calls import call
from ganeti_steward.core.hooks.checks import check_list, check_text
from ganeti_steward.core.hooks.loading import load_plugin
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.hooks.settings import named_plugins
from ganeti_steward.core.model.requests import HOOKS

if TYPE_CHECKING:
    from pluggy import HookImpl

_HOOK: Final = "steward_check_config"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("file", nargs="?", help="default: the file in use")
    parser.add_argument(
        "--sample", action="store_true", help="print a complete configuration with all defaults"
    )
    parser.add_argument(
        "--reference", action="store_true", help="print the reference of all keys, in Markdown"
    )


def run(options: argparse.Namespace) -> int:
    """Print one line per fault; status 1 when there is any."""
    if options.sample or options.reference:
        sys.stdout.write(sample_config(_declared()) if options.sample else reference_page())
        return EXIT_OK
    path = options.file or config_path()
    try:
        faults: Sequence[str] = list(config_faults(load_config(path)))
    except BadConfig as err:
        faults = err.faults
    for fault in faults:
        print(f"{path}: {fault}")
    if not faults:
        print(f"{path}: OK")
    return EXIT_FAILURE if faults else EXIT_OK


def _declared() -> dict[str, Any]:
    """Plugin -> the declaration of its section, of those that the file in use loads."""
    with suppress(StewardError):
        config = load_config(config_path())
        found = {one.name: _declaration(one.name, config) for one in named_plugins(config)}
        return {name: declared for name, declared in found.items() if declared}
    return {}


def _declaration(name: str, config: Config) -> Any:
    """The declaration of a plugin's section; None where it has none or cannot be loaded."""
    with suppress(StewardError):
        limit = config.plugins.time_limit
        declared = getattr(guard.call(name, limit, load_plugin, name=name), "CONFIG", None)
        return declared if guard.call(name, limit, keys, section=declared) else None
    return None


def config_faults(config: Config) -> Iterator[str]:
    """What is wrong with the plugins and programs named, and what the plugins find wrong."""
    loading = list(_load_faults(config))
    yield from (fault for _, fault in loading)
    broken = {name for name, _ in loading}
    good = tuple(name for name in config.plugins.load if name not in broken)
    try:
        plugins = Plugins(config, good)
    except PluginError as err:
        # Two names of one plugin, each good by itself.
        yield f"plugins.load: {err}"
        plugins = Plugins(config, ())
    else:
        yield from _chain_faults(config, plugins, broken)
        yield from _unknown_names(config)
    yield from _found(config, plugins.implementations(_HOOK))
    for one in named_plugins(config):
        if one.name not in (*broken, *good) and _HOOK in (
            plugins := Plugins(config, (one.name,))
        ).hooks(one.name):
            yield from _found(config, [plugins.implementation(one.name, _HOOK)])


def _load_faults(config: Config) -> Iterator[tuple[str, str]]:
    """Each plugin that cannot be loaded or lacks the hook it is named for, with the fault."""
    for one in named_plugins(config):
        try:
            plugins = Plugins(config, (one.name,))
            if one.hook:
                plugins.implementation(one.name, one.hook)
        except BadSettings as err:
            yield from ((one.name, fault) for fault in err.faults)
        except PluginError as err:
            yield one.name, f"{one.key}: {err}"


def _chain_faults(config: Config, plugins: Plugins, broken: Collection[str]) -> Iterator[str]:
    """What is wrong with the members of the chains and the shadows."""
    for section, members in (("allocators", config.chain), ("shadow", config.shadows)):
        for kind, hook in HOOKS.items():
            for name in members(kind):
                fault = "" if name in broken else _member_fault(plugins, name, hook)
                if fault:
                    yield f"{section}.{kind}: {fault}"


def _member_fault(plugins: Plugins, name: str, hook: str) -> str:
    """What is wrong with one member; empty when nothing is."""
    try:
        if name.startswith(COMMAND_PREFIX):
            builtins.module(builtins.EXTERNAL_PROGRAM).command_of(name)
        else:
            plugins.implementation(name, hook)
    except PluginError as err:
        return str(err)
    return ""


def _unknown_names(config: Config) -> Iterator[str]:
    """Weights and sections of plugins that nothing loads."""
    loaded = [one.name for one in named_plugins(config)]
    for section, names, known in (
        ("weigh", config.weigh, config.plugins.load),
        ("plugin", config.plugin, loaded),
    ):
        for name in names:
            if name not in known:
                yield f"{section}.{name}: no plugin of this name is loaded"


def _found(config: Config, implementations: Iterable[HookImpl]) -> Iterator[str]:
    """The faults that plugins find, each plugin by its name and within its time limit."""
    for one in implementations:
        name = one.plugin_name
        try:
            faults = call(one, config.plugins.time_limit, config=config) or ()
            check_list(name, _HOOK, faults)
            yield from [check_text(name, "a fault", fault) for fault in faults]
        except PluginError as err:
            yield str(err)
