"""The modules of other rooms that the core imports by name, each only when it is needed.

This is the only module of the core that names another room.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final

#: Name -> module of the built-in allocators.
ALLOCATORS: Final[Mapping[str, str]] = {
    "balanced": "ganeti_steward.allocators.balanced",
    "dedicated": "ganeti_steward.allocators.dedicated_storage",
    "packed": "ganeti_steward.allocators.packed",
}

#: Name -> module of the built-in rules; their ``plugin`` makes the plugin.
#: They are only loaded where a tag below ``steward:`` or their section requires it.
RULES: Final[Mapping[str, str]] = {
    "aggregates": "ganeti_steward.plugins.aggregates.constraint",
}

#: Members ``command:PATH`` of a chain.
EXTERNAL_PROGRAM: Final = "ganeti_steward.allocators.external_program"
#: CPU load from the monitoring daemons.
MEASURED_LOAD: Final = "ganeti_steward.allocators.state.measured_load"
#: Allocators that are asked for comparison.
SHADOWS: Final = "ganeti_steward.plugins.shadow.shadows"
#: Checks of the node side's configuration, and its collectors.
COLLECTORS: Final = "ganeti_steward.diagnose.run.collectors"
NODE_CHECK: Final = "ganeti_steward.diagnose.run.node_check"

_CORE_SECTIONS: Final = "ganeti_steward.core.config.values"
_DIAGNOSE_SECTIONS: Final = "ganeti_steward.diagnose.config.sections"

#: Section of the configuration file -> its declaration, in the order of the sample.
SECTIONS: Final[dict[str, str]] = {
    "allocators": f"{_CORE_SECTIONS}:Allocators",
    "shadow": "ganeti_steward.plugins.shadow.config:Shadow",
    "plugins": f"{_CORE_SECTIONS}:Plugins",
    "aggregates": "ganeti_steward.plugins.aggregates.config:Aggregates",
    "diagnose": f"{_DIAGNOSE_SECTIONS}:Diagnose",
    "agent": f"{_DIAGNOSE_SECTIONS}:Agent",
    "history": f"{_CORE_SECTIONS}:History",
    "log": f"{_CORE_SECTIONS}:Log",
}

#: Section with sections of any name below it -> the declaration of each of those.
NAMED_SECTIONS: Final[dict[str, str]] = {"nagios": f"{_DIAGNOSE_SECTIONS}:Nagios"}

_ALLOCATORS: Final = "ganeti_steward.allocators.cli"
_CORE: Final = "ganeti_steward.core.commands"
_DIAGNOSE: Final = "ganeti_steward.diagnose.cli"
_AGGREGATES: Final = "ganeti_steward.plugins.aggregates.cli"

#: Command -> the package that holds its module (dashes as underscores).
COMMANDS: Final[Mapping[str, str]] = {
    "agent": _DIAGNOSE,
    "aggregate": _AGGREGATES,
    "balance": _ALLOCATORS,
    "capacity": _ALLOCATORS,
    "check": _ALLOCATORS,
    "check-config": _CORE,
    "diagnose": _DIAGNOSE,
    "explain": _ALLOCATORS,
    "group-evacuate": _ALLOCATORS,
    "install-iallocator": _ALLOCATORS,
    "place": _ALLOCATORS,
    "plugins": _CORE,
    "replay": _ALLOCATORS,
    "reserve": _AGGREGATES,
}


def module(name: str) -> Any:
    """Import a module by one of the names above."""
    return importlib.import_module(name)


def declaration(section: str) -> Any:
    """The declaration of a section of the configuration file."""
    name, _, attribute = (SECTIONS | NAMED_SECTIONS)[section].partition(":")
    return getattr(module(name), attribute)


def command_module(command: str) -> Any:
    """The module of a command of ``gnt-steward``."""
    return module(f"{COMMANDS[command]}.{command.replace('-', '_')}")
