"""The hook of sources of the self-diagnosis."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

from ganeti_steward.core import PROJECT

if TYPE_CHECKING:
    from ganeti_steward.core.model.finding import CheckResult
    from ganeti_steward.diagnose.model.machine import Machine

hookspec = pluggy.HookspecMarker(PROJECT)


@hookspec
def steward_diagnose(machine: Machine) -> Iterable[CheckResult] | None:
    """Return what is known about this node's hardware.

    :param machine: the node; it gives files, outputs of programs and sensors
    :return: any number of findings, unknowns and things that do not apply; their sources are
        the plugin's name, or that plus ``:object``.  A failure of the plugin is one unknown.
    """
