"""``gnt-steward plugins``: what is loaded, what is installed, which hooks it implements."""

from __future__ import annotations

import argparse
import importlib
import sys

from ganeti_steward.core import hookspecs
from ganeti_steward.core.commands.tables import add_table_options, table
from ganeti_steward.core.config import config_path, load_config
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, PluginError
from ganeti_steward.core.plugins import BUILT_IN, entry_points, load_plugin


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add_table_options(parser)


def run(options: argparse.Namespace) -> int:
    """One line per plugin; status 1 when one cannot be loaded."""
    config = load_config(config_path())
    installed = {point.name for point in entry_points()}
    names = [*BUILT_IN, *config.plugins.load, *sorted(installed - set(config.plugins.load))]
    rows, status = [], EXIT_OK
    for name in names:
        built_in = name in BUILT_IN
        loaded = built_in or name in config.plugins.load
        try:
            plugin = importlib.import_module(BUILT_IN[name]) if built_in else load_plugin(name)
            found = ",".join(hooks(plugin)) or "-"
        except PluginError as err:
            found, status = f"error: {err}", EXIT_FAILURE
        other = "entry point" if name in installed else "module"
        source = "built-in" if built_in else other
        rows.append((name, source, "yes" if loaded else "no", found))
    headings = ("Plugin", "Source", "Loaded", "Hooks")
    sys.stdout.write(
        table(headings, rows, separator=options.separator, no_headers=options.no_headers)
    )
    return status


def hooks(plugin: object) -> list[str]:
    """The hooks a plugin implements, by name."""
    names = [name for name in vars(hookspecs) if name.startswith("steward_")]
    return [name for name in names if hasattr(plugin, name)]
