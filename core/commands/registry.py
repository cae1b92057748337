"""The commands of ``gnt-steward``: those of the program, then those of configured plugins.

What loads and calls other plugins is imported only for a command that is not the program's own.
"""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple, Protocol, cast

from ganeti_steward.core.builtins import BUILT_INS, built_in, target
from ganeti_steward.core.config.load import config_path, load_config
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import PluginError, StewardError
from ganeti_steward.core.model.command import Command

_HOOK: Final = "steward_commands"

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]*")


class Registered(NamedTuple):
    """A command and the plugin that offers it."""

    command: Command
    plugin: str


class CommandModule(Protocol):
    """What the module of a command has."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options."""

    def run(self, options: argparse.Namespace) -> int:
        """Do it; returns the exit status, raises StewardError."""


class CommandFailed(PluginError):
    """A plugin's command failed unexpectedly; its cause has the traceback for the author."""


def built_in_commands() -> dict[str, Registered]:
    """The commands of the program, by name; none of their modules is imported."""
    found: dict[str, Registered] = {}
    for plugin in BUILT_INS:
        if _HOOK in plugin.hooks:
            found |= _registered(plugin.name, target(plugin.target).steward_commands(), found)
    return dict(sorted(found.items()))


def plugin_commands(known: Collection[str]) -> tuple[dict[str, Registered], list[StewardError]]:
    """The commands of configured plugins, and what is wrong with any of these plugins.

    ``known``: names that are taken.  A plugin with a fault offers nothing; the others do.
    """
    from ganeti_steward.core.hooks.isolation import isolated
    from ganeti_steward.core.hooks.loading import named_plugins

    found: dict[str, Registered] = {}
    faults: list[StewardError] = []
    try:
        config = load_config(config_path(), ("plugins", "plugin"))
    except StewardError as err:
        return found, [err]
    for name in dict.fromkeys(one.name for one in named_plugins(config)):
        try:
            if not built_in(name):
                offered = isolated([name], list[Command], partial(_offered, config, name))
                found |= _registered(name, offered, (*known, *found))
        except PluginError as err:
            faults.append(err)
    return dict(sorted(found.items())), faults


def _offered(config: Config, name: str) -> list[Command]:
    """The commands that one plugin returns; raises PluginError."""
    from ganeti_steward.core.hooks.calls import call
    from ganeti_steward.core.hooks.checks import check_list
    from ganeti_steward.core.hooks.manager import Plugins

    plugins = Plugins(config, (name,))
    if _HOOK not in plugins.hooks(name):
        return []
    commands = call(plugins.implementation(name, _HOOK), config.plugins.time_limit) or ()
    check_list(name, _HOOK, commands)
    for command in commands:
        _check(name, command)
    return list(commands)


def _registered(
    plugin: str, offered: Iterable[Command], taken: Collection[str]
) -> dict[str, Registered]:
    """The commands of one plugin by name; raises PluginError where one is taken."""
    found: dict[str, Registered] = {}
    for command in offered:
        if command.name in taken or command.name in found:
            raise PluginError(plugin, f"the command {command.name} exists already")
        found[command.name] = Registered(command, plugin)
    return found


def _check(name: str, command: object) -> None:
    """Raise PluginError unless this is a usable command."""
    from ganeti_steward.core.hooks.checks import check_text
    from ganeti_steward.core.hooks.timed_call import shown

    if not isinstance(command, Command):
        raise PluginError(name, f"steward_commands must give commands, not {shown(command)}")
    if not isinstance(command.name, str) or not _NAME.fullmatch(command.name):
        raise PluginError(
            name, f"{shown(command.name)} is not a command name (a-z, 0-9 and - only)"
        )
    text = check_text(name, f"the description of {command.name}", command.description)
    if not text.isprintable():
        raise PluginError(name, f"the description of {command.name} cannot be printed")
    check_text(name, f"the module of {command.name}", command.module)


def load_command(one: Registered) -> CommandModule:
    """The module of a command; raises StewardError, CommandFailed where it cannot be loaded."""
    module, package = one.command.module, one.command.package
    with named(one):
        try:
            return cast("CommandModule", importlib.import_module(module))
        except ModuleNotFoundError as err:
            if not (package and err.name and f"{module}.".startswith(f"{err.name}.")):
                raise
            raise StewardError(
                f"this command is in the package {package}, which is not installed"
            ) from None


@contextmanager
def named(one: Registered) -> Iterator[None]:
    """Make an unexpected error of a plugin's command a CommandFailed with its name."""
    try:
        yield
    except (StewardError, BrokenPipeError):
        raise
    except Exception as err:
        if built_in(one.plugin):
            raise
        from ganeti_steward.core.hooks.timed_call import sentence

        raise CommandFailed(one.plugin, f"command {one.command.name}: {sentence(err)}") from err


def commands_for(word: str) -> tuple[Mapping[str, Registered], list[StewardError]]:
    """All commands, with the faults of plugins; only those of the program where that is enough.

    ``word``: the command that is called; empty where there is none.
    """
    commands = built_in_commands()
    if word in commands:
        return commands, []
    more, faults = plugin_commands(commands)
    return commands | more, faults
