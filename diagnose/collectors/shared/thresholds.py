"""A collector's thresholds, from its section ``[collector.NAME]``, and their kinds of keys."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

from ganeti_steward.core.config.finding_kinds import COMMAND, STATUS
from ganeti_steward.core.config.kinds import number, whole

_Settings = TypeVar("_Settings", bound=tuple[Any, ...])

#: The status of a finding.
Status = Annotated[str, STATUS]

#: How many of something.
Count = Annotated[int, whole(0)]

#: A figure whose unit its sentence gives.
Figure = Annotated[float, number(0)]

Repair = Annotated[str, COMMAND, "The repair command requested with live-repair."]


class Configured(Generic[_Settings]):
    """A collector that has thresholds of its own."""

    CONFIG: type[_Settings]
    """the declaration of its section"""

    def __init__(self) -> None:
        self.configure(self.CONFIG())

    def configure(self, settings: _Settings) -> None:
        """``settings``: the section of the configuration."""
        self._settings = settings
