"""The built-in plugins, and the other modules of other rooms that the core imports by name.

This is the only module of the core that names another room.  Everything is imported only when
it is needed.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any, Final

from ganeti_steward.core.needed import ROOM_PREFIXES, Needed
from ganeti_steward.core.records import NamedTuple


class BuiltIn(NamedTuple):
    """A plugin that comes with the program; it is registered and called like any other."""

    name: str
    """what the configuration calls it"""
    target: str
    """``module`` or ``module:object``, as in an entry point"""
    section: str = ""
    """the section of the configuration it is configured with; empty: ``plugin.NAME``"""
    needed: Needed | None = None
    """when its site rules count; None: it has none, or a list of plugins has to name it"""
    hooks: tuple[str, ...] = ()
    """hooks that it is loaded for whenever they are called"""
    key: str = ""
    """the key of the configuration that has to name it; empty: none has to"""


#: Modules of `diagnose.collectors`, in the order in which they run.
COLLECTORS: Final = (
    *("smart", "md", "lvm", "drbd", "zfs", "filesystems"),
    *("edac", "network", "sensors", "ipmi", "kernel", "ganeti"),
)  # fmt: skip

#: All of them; repairs are called in this order.
BUILT_INS: Final = (
    BuiltIn("balanced", "ganeti_steward.allocators.balanced"),
    BuiltIn("dedicated", "ganeti_steward.allocators.dedicated_storage"),
    BuiltIn("packed", "ganeti_steward.allocators.packed"),
    BuiltIn(
        "aggregates",
        "ganeti_steward.plugins.aggregates.constraint:Constraint",
        section="aggregates",
        needed=Needed(tags=("steward:",), section=True, but=ROOM_PREFIXES),
        hooks=("steward_check_config",),
    ),
    *(
        BuiltIn(
            name,
            f"ganeti_steward.diagnose.collectors.{name}:plugin",
            section=f"collector.{name}",
            key="diagnose.collectors",
        )
        for name in COLLECTORS
    ),
    BuiltIn(
        "diagnose.check_config",
        "ganeti_steward.diagnose.run.node_check",
        hooks=("steward_check_config",),
    ),
    BuiltIn(
        "maintenance.check_config",
        "ganeti_steward.plugins.maintenance.limits",
        hooks=("steward_check_config",),
    ),
    # Before live-repair, for it handles reports of that status without a command.
    BuiltIn(
        "repair-storage",
        "ganeti_steward.plugins.maintenance.repairs.repair_storage:RepairStorage",
        section="maintd",
        hooks=("steward_plan",),
    ),
    BuiltIn(
        "live-repair",
        "ganeti_steward.plugins.maintenance.repairs.live_repair",
        section="maintd",
        hooks=("steward_plan",),
    ),
    BuiltIn(
        "evacuate",
        "ganeti_steward.plugins.maintenance.repairs.evacuate:Evacuate",
        section="maintd",
        hooks=("steward_plan",),
    ),
    BuiltIn(
        "maintenance",
        "ganeti_steward.plugins.maintenance.repairs.maintenance:PlannedMaintenance",
        section="maintd",
        hooks=("steward_plan",),
    ),
    BuiltIn(
        "gate-command",
        "ganeti_steward.plugins.maintenance.repairs.gates:CommandGate",
        section="maintd",
        hooks=("steward_gate",),
    ),
    BuiltIn(
        "gate-prometheus",
        "ganeti_steward.plugins.maintenance.repairs.gates:PrometheusGate",
        section="maintd",
        hooks=("steward_gate",),
    ),
    BuiltIn(
        "check-disks",
        "ganeti_steward.plugins.maintenance.queue.disk_checks:Plugin",
        section="maintd",
        key="maintd.routine",
    ),
    BuiltIn(
        "harep",
        "ganeti_steward.plugins.maintenance.harep.plugin:Plugin",
        section="harep",
        key="maintd.routine",
    ),
    BuiltIn(
        "rebalance",
        "ganeti_steward.plugins.maintenance.rebalance.plugin:Rebalancing",
        section="rebalance",
        key="maintd.routine",
    ),
    BuiltIn(
        "notify-command",
        "ganeti_steward.plugins.maintenance.notify.notify_command:NotifyCommand",
        section="maintd",
        hooks=("steward_incident_changed",),
    ),
    BuiltIn(
        "webhook",
        "ganeti_steward.plugins.maintenance.notify.webhook:Webhook",
        section="maintd",
        hooks=("steward_incident_changed",),
    ),
    BuiltIn(
        "filters.native",
        "ganeti_steward.plugins.filters.actions.native",
        hooks=("steward_filter_action",),
    ),
    BuiltIn(
        "filters.holding",
        "ganeti_steward.plugins.filters.actions.holding",
        hooks=("steward_filter_action",),
    ),
    *(
        BuiltIn(f"{name}.commands", module, hooks=("steward_commands",))
        for name, module in {
            "core": "ganeti_steward.core.commands.own_commands",
            "allocators": "ganeti_steward.allocators.cli.commands",
            "diagnose": "ganeti_steward.diagnose.cli.commands",
            "aggregates": "ganeti_steward.plugins.aggregates.cli.commands",
            "shadow": "ganeti_steward.plugins.shadow.commands",
            "filters": "ganeti_steward.plugins.filters.cli.commands",
            "maintenance": "ganeti_steward.plugins.maintenance.cli.commands",
            "exporter": "ganeti_steward.plugins.exporter.cli.commands",
        }.items()
    ),
)

#: Names of those that only a chain of allocators names.
ALLOCATORS: Final = ("balanced", "dedicated", "packed")

#: The modules with the declarations of the hooks.
HOOKSPECS: Final = (
    "ganeti_steward.core.hooks.hookspecs",
    "ganeti_steward.diagnose.hookspecs",
    "ganeti_steward.plugins.hookspecs",
)

#: Keys of the configuration that name plugins to be loaded -> the hook each must implement.
PLUGIN_KEYS: Final[Mapping[str, str]] = {
    "plugins.load": "",
    "diagnose.load": "steward_diagnose",
    "maintd.routine": "steward_routine",
}

#: What all built-in allocators import, and what takes most of the time of their import.
ENGINE_LIBRARY: Final = "numpy"
#: Members ``command:PATH`` of a chain.
EXTERNAL_PROGRAM: Final = "ganeti_steward.allocators.external_program"
#: CPU load from the monitoring daemons.
MEASURED_LOAD: Final = "ganeti_steward.allocators.loads.measured_load"
RECENT_PLACEMENTS: Final = "ganeti_steward.allocators.state.recent_placements"
#: Volume groups other than the cluster's, and which disks lie there.
VOLUME_GROUPS: Final = "ganeti_steward.allocators.state.volume_groups"
#: The file that keeps both on the master.
KEPT_GROUPS: Final = "/var/lib/ganeti-steward/maintd/volume-groups.json"
#: What stays free on each node.
RESERVES: Final = "ganeti_steward.allocators.state.reserves"
#: htools' text format.
TEXT_FORMAT: Final = "ganeti_steward.allocators.text_format"
#: Allocators that are called for comparison.
SHADOWS: Final = "ganeti_steward.plugins.shadow.shadows"

#: Whether configuration and plugins of all nodes are alike.
COMPARED_NODES: Final = "ganeti_steward.plugins.compared_nodes"
#: What decides how the maintenance daemon of a node would act, as digests.
DAEMON_PARTS: Final = "ganeti_steward.plugins.daemon_parts"
#: What ``check`` reports of a live cluster in addition.
CLUSTER_CHECKS: Final = "ganeti_steward.plugins.maintenance.cli.cluster_checks"

#: Section of the configuration file -> its declaration, in the order of the sample.
SECTIONS: Final[dict[str, str]] = {
    "allocators": "ganeti_steward.core.config.values:Allocators",
    "reserve": f"{RESERVES}:Reserve",
    "shadow": "ganeti_steward.plugins.shadow.config:Shadow",
    "plugins": "ganeti_steward.core.config.values:Plugins",
    "aggregates": "ganeti_steward.plugins.aggregates.config:Aggregates",
    "diagnose": "ganeti_steward.diagnose.config.sections:Diagnose",
    "agent": "ganeti_steward.diagnose.config.sections:Agent",
    "maintd": "ganeti_steward.plugins.maintenance.config:Maintd",
    "harep": "ganeti_steward.plugins.maintenance.config:Harep",
    "rebalance": "ganeti_steward.plugins.maintenance.config:Rebalance",
    "http": "ganeti_steward.core.config.values:Http",
    "history": "ganeti_steward.core.config.values:History",
    "log": "ganeti_steward.core.config.values:Log",
}

#: Section with sections of any name below it -> the declaration of each of those.
NAMED_SECTIONS: Final[dict[str, str]] = {"nagios": "ganeti_steward.diagnose.config.sections:Nagios"}

_PLUGIN_SECTIONS: Final = ("plugins", "plugin", "log")

#: The sections that each program uses; a fault in any other section is only a warning to it.
_PLACING: Final = (*_PLUGIN_SECTIONS, "allocators", "reserve", "aggregates", "weigh")
ALLOCATION: Final = (*_PLACING, "shadow", "history")
EXPORT: Final = (*ALLOCATION, "http")
SELF_DIAGNOSIS: Final = (*_PLUGIN_SECTIONS, "diagnose", "agent", "http", "collector", "nagios")
MAINTENANCE: Final = (*_PLACING, "maintd", "http", "harep", "rebalance")


def module(name: str) -> Any:
    """Import a module by one of the names above."""
    return importlib.import_module(name)


def target(name: str) -> Any:
    """Import what ``module`` or ``module:object`` names."""
    path, _, attribute = name.partition(":")
    return getattr(module(path), attribute) if attribute else module(path)


def completed(message: dict[str, Any], now: float) -> dict[str, Any]:
    """A parsed message with what is kept of volume groups and suspect nodes.  ``now``: s."""
    if not os.path.exists(KEPT_GROUPS):
        return message
    found: dict[str, Any] = module(VOLUME_GROUPS).completed(message, now, KEPT_GROUPS)
    return found


def declaration(section: str) -> Any:
    """The declaration of a section of the configuration file."""
    return target((SECTIONS | NAMED_SECTIONS)[section])


def built_in(name: str) -> BuiltIn | None:
    """The built-in plugin of a name; None when there is none."""
    return next((one for one in BUILT_INS if one.name == name), None)
