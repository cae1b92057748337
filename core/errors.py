"""Every error the program raises on purpose, and its exit statuses.

========  ==========================================================================
status    meaning
========  ==========================================================================
0         done; an allocator's "no" is also 0 (its answer says ``success: false``)
1         the input, the configuration or the environment is unusable
2         the command line is unusable
11        this node is not the master, as Ganeti's own daemons have it
========  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

EXIT_OK = 0
EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_NOT_MASTER = 11

#: What the name of a chain's member begins with that is a program, not a plugin.
COMMAND_PREFIX = "command:"

#: How many faults of one input are named before the rest is only counted.
MAX_FAULTS = 10


class StewardError(Exception):
    """An error whose text is meant for the user, one clear sentence."""

    exit_status: ClassVar[int] = EXIT_FAILURE
    """the exit status of a command that ends with it"""


class RefusedByGaneti(StewardError):
    """A refusal of luxid or of the RAPI daemon: nothing was done."""


class BadInput(StewardError):
    """An iallocator message that cannot be used; names every fault (up to ten)."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__(join_faults(self.faults))


class BadConfig(StewardError):
    """A configuration that cannot be used; names every fault with its path."""

    def __init__(self, path: str, faults: Sequence[str]) -> None:
        self.path = path
        self.faults = tuple(faults)
        super().__init__(f"configuration {path}: {join_faults(self.faults)}")


class PluginError(StewardError):
    """A plugin or program that cannot be loaded, failed, overran its time or gave nonsense."""

    def __init__(self, plugin: str, fault: str) -> None:
        self.plugin, self.fault = plugin, fault
        kind = "" if plugin.startswith(COMMAND_PREFIX) else "plugin "
        super().__init__(f"{kind}{plugin}: {fault}")


class BadSettings(PluginError):
    """Settings that a plugin cannot use: what its ``configure`` raises, naming every fault.

    Each fault begins with the path of its key: ``plugin.rack.height: ...``.
    """

    def __init__(self, plugin: str, faults: Sequence[str]) -> None:
        super().__init__(plugin, "")
        self.faults = tuple(faults)
        self.args = (join_faults(self.faults),)


def reason_of(err: Exception) -> str:
    """What an error of the system says, without the file it is about."""
    return getattr(err, "strerror", None) or str(err)


def join_faults(faults: Sequence[str]) -> str:
    """The first ten faults in one sentence, the others counted."""
    return few(faults, MAX_FAULTS, "; ")


def few(texts: Sequence[str], most: int | None, separator: str = ", ") -> str:
    """The first ``most`` texts in one, with the number of the others; None: all of them."""
    shown, more = separator.join(texts[:most]), len(texts) - (most or len(texts))
    return f"{shown}{separator.strip(', ')} and {more} more" if more > 0 else shown
