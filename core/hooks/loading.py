"""Which plugins the configuration names, importing each by its name, and passing its section.

A name is that of a built-in plugin, of a module, or of an installed entry point.

All installed entry points are only looked through where a name is no module, and by
``gnt-steward plugins``, because that costs more than an allocation.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from ganeti_steward.core import PROJECT
from ganeti_steward.core.builtins import PLUGIN_KEYS, BuiltIn, built_in, declaration, target
from ganeti_steward.core.errors import BadSettings, PluginError
from ganeti_steward.core.hooks import timed_call
from ganeti_steward.core.records import NamedTuple
from ganeti_steward.core.safe_files import UnsafeFile, check_trusted

if TYPE_CHECKING:
    from ganeti_steward.core.config.values import Config

#: What the names of all hooks begin with.
_HOOK: Final = "steward_"


# -- which plugins the configuration names; an allocation needs only those of ``[plugins] load``


class Named(NamedTuple):
    """A plugin that a key of the configuration names."""

    name: str
    key: str
    """``section.key``"""
    hook: str
    """what every plugin named there must implement; empty: any hook"""


def named_plugins(config: Config) -> list[Named]:
    """All plugins that the configuration has loaded, built-in ones only where it names them."""
    return [
        Named(name, key, hook) for key, hook in PLUGIN_KEYS.items() for name in _value(config, key)
    ]


def is_used(config: Config, plugin: BuiltIn) -> bool:
    """Whether a built-in plugin takes part: some do only where a key of theirs names them."""
    return not plugin.key or plugin.name in _value(config, plugin.key)


def _value(config: Config, key: str) -> tuple[str, ...]:
    """The value of ``section.key``."""
    section, _, name = key.partition(".")
    values = getattr(config, section, None) or config.section(declaration(section))
    value: tuple[str, ...] = getattr(values, name.replace("-", "_"))
    return value


# -- importing them


def load_plugin(name: str) -> object:
    """Import a plugin; a class is made into an object.  Raises PluginError."""
    try:
        known = built_in(name)
        found = target(known.target) if known else _foreign(name)
        return found() if isinstance(found, type) else found
    except PluginError:
        raise
    except Exception as err:
        raise PluginError(name, f"cannot be loaded: {timed_call.sentence(err)}") from err


def _foreign(name: str) -> object:
    """A module, or what the entry point of this name names: a package may have no hook itself."""
    _check_files(name)
    try:
        found: object = _plugin_of(importlib.import_module(name))
    except ModuleNotFoundError as err:
        if err.name is None or not (name == err.name or name.startswith(err.name + ".")):
            raise
        found = None
    if any(word.startswith(_HOOK) for word in dir(found)):
        return found
    for point in entry_points():
        if point.name == name:
            _check_files(point.module)
            return point.load()
    if found is None:
        raise PluginError(name, f"is neither a module nor an entry point of the group {PROJECT}")
    return found


def _plugin_of(module: ModuleType) -> object:
    """The plugin in a module: itself, or its ``plugin`` where it has no hook of its own."""
    if any(name.startswith(_HOOK) for name in vars(module)):
        return module
    return getattr(module, "plugin", module)


def _check_files(name: str) -> None:
    """Refuse a module that another user than root can have written; raises PluginError.

    The packages it is in are imported for that, each after it was checked itself.
    """
    import importlib.util

    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        try:
            spec = importlib.util.find_spec(".".join(parts[:end]))
        except (ImportError, ValueError):
            spec = None
        if spec is None:
            # The import reports that.
            return
        if spec.has_location and spec.origin is not None:
            _check_file(name, spec.origin)


def _check_file(name: str, path: str) -> None:
    try:
        check_trusted(path, os.stat(path))
    except UnsafeFile as err:
        raise PluginError(name, f"is not loaded: {err}") from None
    except OSError:
        # A module in an archive has no file of its own.
        return


def entry_points() -> list[Any]:
    """All installed entry points of the program's group."""
    from importlib.metadata import entry_points as installed

    return list(installed(group=PROJECT))


# -- the section of the configuration that each has


def configure(config: Config, name: str, plugin: object) -> None:
    """Pass a plugin its section, checked if its ``CONFIG`` declares one; raises BadSettings."""
    section, declared = _section(name), getattr(plugin, "CONFIG", None)
    kind, _, key = section.partition(".")
    settings: Any
    if not key:
        settings = config.section(declaration(kind))
    else:
        settings = getattr(config, kind).get(key, {})
        if declared is not None:
            settings = _checked(name, section, declared, settings)
    given_to = getattr(plugin, "configure", None)
    if given_to is not None:
        given_to(settings=settings)


def _checked(name: str, section: str, declared: Any, given: Mapping[str, Any]) -> Any:
    from ganeti_steward.core.config.declaration import read_section  # few plugins need it

    faults: list[str] = []
    settings = read_section(declared, section, given, faults)
    if faults:
        raise BadSettings(name, faults)
    return settings


def is_configured(config: Config, name: str) -> bool:
    """Whether a plugin's section holds anything but defaults."""
    kind, _, key = _section(name).partition(".")
    return bool(getattr(config, kind).get(key)) if key else kind in config.sections


def _section(plugin: str) -> str:
    """The section a plugin is configured with, ``kind.name`` or a room's own."""
    known = built_in(plugin)
    return known.section if known and known.section else f"plugin.{plugin}"
