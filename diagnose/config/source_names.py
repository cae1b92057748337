"""The names of the diagnosis' sources: which are taken, and what a name may be."""

from __future__ import annotations

import re
from typing import Any, Final

from ganeti_steward.core.builtins import COLLECTORS
from ganeti_steward.core.config.kinds import NAMES, Kind, shown
from ganeti_steward.core.json_reader import quoted

#: Other sources: the whitelisted commands, the checks of Nagios, and the diagnosis itself.
RESERVED: Final = ("command", "nagios", "diagnose")


def source_fault(name: str) -> str:
    """What is wrong with the name of a source.  A colon would make it part of another one."""
    if re.fullmatch(r"[a-zA-Z0-9_.-]+", name):
        return ""
    return f"{quoted(name)} is no name of a source (letters, digits, ., _ and - only)"


def _plugins_fault(value: Any) -> str:
    fault = NAMES.fault(value)
    for name in () if fault else value:
        if name in COLLECTORS or name in RESERVED:
            return f"{shown(name)} is the name of another source"
        fault = fault or source_fault(name)
    return fault


#: Plugins with a diagnose hook, whose names are those of their sources.
PLUGINS: Final = Kind(_plugins_fault, "list of plugins")
