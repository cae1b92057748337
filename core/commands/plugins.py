"""``gnt-steward plugins``: what is loaded, what is installed, which hooks it implements."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Final

from ganeti_steward.core import builtins
from ganeti_steward.core.builtins import ALLOCATION, SELF_DIAGNOSIS
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import Value, add_field_options, print_fields
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import COMMAND_PREFIX, EXIT_FAILURE, EXIT_OK, PluginError
from ganeti_steward.core.hooks.isolation import isolated
from ganeti_steward.core.hooks.loading import entry_points, is_used, named_plugins
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.model.requests import HOOKS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    describe(
        parser,
        {
            "gnt-steward plugins": "all plugins with their source and hooks",
            "gnt-steward plugins -o name,hooks --no-headers": "two columns, for a script",
        },
        statuses={EXIT_FAILURE: "a plugin cannot be loaded, or the configuration cannot be used"},
    )
    add_field_options(parser, _FIELDS)


#: Name of a field -> its heading.
_FIELDS: Final = {"name": "Plugin", "source": "Source", "loaded": "Loaded", "hooks": "Hooks"}


def run(options: argparse.Namespace) -> int:
    """One line per plugin; status 1 when one cannot be loaded."""
    config = configuration((*ALLOCATION, *SELF_DIAGNOSIS))
    rows, status = list[Mapping[str, Value]](), EXIT_OK
    for name, source, loaded in _named(config):
        try:
            found = ",".join(_hooks(name, config))
        except PluginError as err:
            found, status = f"error: {err.fault or err}", EXIT_FAILURE
        rows.append({"name": name, "source": source, "loaded": loaded, "hooks": found})
    for name, hooks in _commands(config).items():
        try:
            builtins.module(builtins.EXTERNAL_PROGRAM).check_command(name)
            found = ",".join(hooks)
        except PluginError as err:
            found, status = f"error: {err}", EXIT_FAILURE
        rows.append({"name": name, "source": "program", "loaded": True, "hooks": found})
    print_fields(options, _FIELDS, [*_FIELDS], rows)
    return status


def _named(config: Config) -> Iterator[tuple[str, str, bool]]:
    """Name and origin of each plugin, and whether it takes part."""
    named = [one.name for one in named_plugins(config)]
    for one in builtins.BUILT_INS:
        yield one.name, "built-in", is_used(config, one) or one.name in named
    installed = {point.name for point in entry_points()}
    for name in dict.fromkeys([*named, *sorted(installed)]):
        if builtins.built_in(name) is None:
            yield name, "entry point" if name in installed else "module", name in named


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

    def hooks() -> list[str]:
        plugins = Plugins(config, (name,))
        for one in named_plugins(config):
            if one.name == name and one.hook:
                plugins.implementation(name, one.hook)
        return plugins.hooks(name)

    return isolated([name], list[str], hooks)
