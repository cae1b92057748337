"""``gnt-steward check-config``: every fault of the configuration at once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ganeti_steward.core import builtins
from ganeti_steward.core.config.load import config_path, load_config
from ganeti_steward.core.config.reference import reference_page
from ganeti_steward.core.config.sample import sample_config
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import (
    COMMAND_PREFIX,
    EXIT_FAILURE,
    EXIT_OK,
    BadConfig,
    PluginError,
)
from ganeti_steward.core.hooks.manager import Plugins, rule_faults
from ganeti_steward.core.model.requests import HOOKS


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
        sys.stdout.write(sample_config() if options.sample else reference_page())
        return EXIT_OK
    path = options.file or config_path()
    try:
        config = load_config(path)
    except BadConfig as err:
        for fault in err.faults:
            print(f"{path}: {fault}")
        return EXIT_FAILURE
    faults = [
        *rule_faults(config),
        *plugin_faults(config),
        *builtins.module(builtins.NODE_CHECK).node_faults(config),
    ]
    for fault in faults:
        print(f"{path}: {fault}")
    if not faults:
        print(f"{path}: OK")
    return EXIT_FAILURE if faults else EXIT_OK


def plugin_faults(config: Config) -> list[str]:
    """What is wrong with the plugins a configuration names, with the key naming them."""
    found = _load_faults(config)
    faults = [f"plugins.load: {err}" for err in found]
    broken = {err.plugin for err in found}
    good = [name for name in config.plugins.load if name not in broken]
    try:
        plugins = Plugins(_loading(config, good))
    except PluginError as err:
        # Two names of one plugin, each good by itself.
        return [*faults, f"plugins.load: {err}"]
    for section, members in (("allocators", config.chain), ("shadow", config.shadows)):
        for kind, hook in HOOKS.items():
            asked = [name for name in members(kind) if name not in broken]
            faults += [f"{section}.{kind}: {err}" for err in _member_faults(plugins, asked, hook)]
    loaded = config.plugins.load
    diagnose = config.section(builtins.declaration("diagnose"))
    for section, names, known in (
        ("weigh", config.weigh, loaded),
        ("plugin", config.plugin, (*loaded, *diagnose.load)),
    ):
        faults += [
            f"{section}.{name}: no plugin of this name is loaded"
            for name in names
            if name not in known
        ]
    return faults


def _member_faults(plugins: Plugins, names: Sequence[str], hook: str) -> list[PluginError]:
    """What is wrong with the members of one chain."""
    faults = []
    for name in names:
        try:
            if name.startswith(COMMAND_PREFIX):
                builtins.module(builtins.EXTERNAL_PROGRAM).command_of(name)
            else:
                plugins.allocator(name, hook)
        except PluginError as err:
            faults.append(err)
    return faults


def _load_faults(config: Config) -> list[PluginError]:
    """The fault of each plugin that cannot be loaded."""
    faults = []
    for name in config.plugins.load:
        try:
            Plugins(_loading(config, [name]))
        except PluginError as err:
            faults.append(err)
    return faults


def _loading(config: Config, names: Sequence[str]) -> Config:
    return config._replace(plugins=config.plugins._replace(load=tuple(names)))
