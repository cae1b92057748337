"""Volume groups that are known without LVM: LVM does not list one whose only disk is gone."""

from __future__ import annotations

import re
from typing import Final

from ganeti_steward.core.model.machine import Machine
from ganeti_steward.diagnose.collectors.shared.program_output import (
    leaving_out_what_is_gone,
    listed_if_there,
)
from ganeti_steward.diagnose.collectors.shared.results import text_of

#: LVM writes the metadata of each group here, and removes it with the group.
BACKUPS: Final = "/etc/lvm/backup"

#: ``GROUP-VOLUME``; a hyphen within a name is doubled.
_NAME: Final = re.compile(r"(?P<group>(?:[^-]|--)+)-(?:[^-]|--).*")


def active_groups(machine: Machine) -> set[str]:
    """The groups of the logical volumes the kernel has; raises MissingData.

    They stay active when their disks are gone.
    """
    groups: set[str] = set()
    for name in listed_if_there(machine, "/sys/block"):
        if not name.startswith("dm-"):
            continue
        with leaving_out_what_is_gone():
            if text_of(machine, f"/sys/block/{name}/dm/uuid").startswith("LVM-"):
                found = _NAME.fullmatch(text_of(machine, f"/sys/block/{name}/dm/name"))
                groups |= {found["group"].replace("--", "-")} if found else set()
    return groups


def saved_groups(machine: Machine) -> set[str]:
    """The groups of which LVM keeps a backup; raises MissingData."""
    return {name for name in listed_if_there(machine, BACKUPS) if not name.startswith(".")}
