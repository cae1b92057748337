"""A command of ``gnt-steward``, as a plugin offers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Command(NamedTuple):
    """One command; its module is imported only when the command is called."""

    name: str
    """lower-case letters, digits and dashes"""
    description: str
    """one line for the list of commands, without a full stop"""
    module: str
    """dotted name of a module with ``add_arguments(parser)`` and ``run(options) -> exit status``"""
    package: str = ""
    """the package to be installed that has the module; empty: none but the plugin itself"""


def commands_of(package: str, descriptions: Mapping[str, str]) -> list[Command]:
    """The commands of a room: name -> description, each a module of that package.

    The module has the command's name with ``_`` for ``-``.
    """
    return [
        Command(name, description, f"{package}.{name.replace('-', '_')}")
        for name, description in descriptions.items()
    ]
