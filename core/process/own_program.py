"""A part of this program as a process of its own, in the same Python."""

import os
import sys


def own_program(source: str, *arguments: str) -> list[str]:
    """The command line that runs ``source``, which may name ``sys``.

    It finds the modules that this process finds, and no others: the Debian package chooses the
    directories itself and starts Python without the module ``site``.
    """
    path = f"import sys; sys.path[:] = {[*map(os.path.abspath, sys.path)]!r}; "
    flags = ("-I", "-S") if sys.flags.no_site else ("-P",)
    return [sys.executable, *flags, "-c", path + source, *arguments]
