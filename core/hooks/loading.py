"""Importing plugins by name: a built-in one, a module, or an installed entry point.

All installed entry points are only looked through where a name is no module, and by
``gnt-steward plugins``, because that costs more than an allocation.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Any, Final

from ganeti_steward.core import PROJECT
from ganeti_steward.core.builtins import built_in, target
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.hooks import timed_call
from ganeti_steward.core.safe_files import UnsafeFile, check_trusted

#: What the names of all hooks begin with.
_HOOK: Final = "steward_"


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
    _check_files(name)
    try:
        return _plugin_of(importlib.import_module(name))
    except ModuleNotFoundError as err:
        if err.name is None or not (name == err.name or name.startswith(err.name + ".")):
            raise
        return _entry_point(name)


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


def _entry_point(name: str) -> object:
    for point in entry_points():
        if point.name == name:
            _check_files(point.module)
            return point.load()
    raise PluginError(name, f"is neither a module nor an entry point of the group {PROJECT}")


def entry_points() -> list[Any]:
    """All installed entry points of the program's group."""
    from importlib.metadata import entry_points as installed

    return list(installed(group=PROJECT))
