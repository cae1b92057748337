"""Which sources have left which processes that cannot be killed: they wait for a dead disk.

A source that has left one is not run again while it is there.  Otherwise each run on such a node
would leave one more, until nothing can be started there any more.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.process.descendants import Process, is_there
from ganeti_steward.core.safe_files import UnsafeFile, read_own
from ganeti_steward.diagnose.run.files import write_file

#: Its name in the directory.
STUCK: Final = "stuck.json"

#: Bytes of the file.
_LONGEST: Final = 2**22


def read_stuck(directory: str) -> dict[str, frozenset[Process]]:
    """Which sources have left which processes that are still there."""
    try:
        given: Any = load_json(read_own(os.path.join(directory, STUCK), _LONGEST))
        left = {
            str(source): frozenset(process for process in map(_process, each) if is_there(process))
            for source, each in given.items()
        }
    except (OSError, UnsafeFile, ValueError, TypeError, AttributeError, OverflowError):
        # Nothing depends on it but how many of them there are.
        return {}
    return {source: each for source, each in left.items() if each}


def _process(given: Any) -> Process:
    """A process of the file; raises TypeError, ValueError."""
    pid, started = given
    if type(pid) is not int or not isinstance(started, int | float):
        raise TypeError
    return Process(pid, started)


def write_stuck(directory: str, left: Mapping[str, frozenset[Process]]) -> None:
    """Keep that for the next run; raises StewardError."""
    path = os.path.join(directory, STUCK)
    content = canonical({source: sorted(each) for source, each in left.items() if each}) + b"\n"
    try:
        if read_own(path, _LONGEST) == content:
            return
    except FileNotFoundError:
        if content == b"{}\n":
            return
    except (OSError, UnsafeFile):
        # `write_file` replaces a file that cannot be used, and refuses what is none.
        pass
    write_file(path, content)
