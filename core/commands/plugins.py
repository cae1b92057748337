"""``gnt-steward plugins``: what is loaded, what is installed, which hooks it implements."""

from __future__ import annotations

import argparse
import sys

from ganeti_steward.core.commands.tables import add_table_options, table
from ganeti_steward.core.config import Config, config_path, load_config
from ganeti_steward.core.errors import COMMAND_PREFIX, EXIT_FAILURE, EXIT_OK, PluginError
from ganeti_steward.core.external import command_of
from ganeti_steward.core.plugins import BUILT_IN, RULES, Plugins, entry_points
from ganeti_steward.core.request import HOOKS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add_table_options(parser)


def run(options: argparse.Namespace) -> int:
    """One line per plugin; status 1 when one cannot be loaded."""
    config = load_config(config_path())
    loaded = [*BUILT_IN, *RULES, *config.plugins.load]
    installed = {point.name for point in entry_points()}
    rows, status = [], EXIT_OK
    for name in dict.fromkeys([*loaded, *sorted(installed)]):
        try:
            found = ",".join(_hooks(name, config))
        except PluginError as err:
            found, status = f"error: {err}", EXIT_FAILURE
        source = (
            "built-in"
            if name in (*BUILT_IN, *RULES)
            else "entry point"
            if name in installed
            else "module"
        )
        rows.append((name, source, "yes" if name in loaded else "no", found))
    for name, hooks in _commands(config).items():
        try:
            command_of(name)
            found = ",".join(hooks)
        except PluginError as err:
            found, status = f"error: {err}", EXIT_FAILURE
        rows.append((name, "program", "yes", found))
    headings = ("Plugin", "Source", "Loaded", "Hooks")
    sys.stdout.write(
        table(headings, rows, separator=options.separator, no_headers=options.no_headers)
    )
    return status


def _commands(config: Config) -> dict[str, list[str]]:
    """The programs that chains and shadows name, with the hooks they stand in for there."""
    found: dict[str, list[str]] = {}
    for kind, hook in HOOKS.items():
        for name in dict.fromkeys((*config.chain(kind), *config.shadows(kind))):
            if name.startswith(COMMAND_PREFIX):
                found.setdefault(name, []).append(hook)
    return found


def _hooks(name: str, config: Config) -> list[str]:
    """The hooks of one plugin, loaded by itself so that each has its own fault."""
    alone = config.plugins._replace(load=(name,))
    return Plugins(config._replace(plugins=alone)).hooks(name)
