"""A command of ``gnt-steward``, as a plugin offers it."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """One command; its module is imported only when the command is called."""

    name: str
    """lower-case letters, digits and dashes"""
    description: str
    """one line for the list of commands, without a full stop"""
    module: str
    """dotted name of a module with ``add_arguments(parser)`` and ``run(options) -> exit status``"""
