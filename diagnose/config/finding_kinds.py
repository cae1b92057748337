"""Kinds of keys about findings: their statuses, and commands of Ganeti's directories."""

from __future__ import annotations

from typing import Final

from ganeti_steward.core.config.kinds import one_of, word
from ganeti_steward.core.model.finding import STATUSES, is_name

#: The status of a finding.
STATUS: Final = one_of(*STATUSES)

#: A repair or diagnose command, or none; Ganeti's own rule for restricted commands.
COMMAND: Final = word(is_name, "name of a command", hint="letters, digits, _ and - only")
