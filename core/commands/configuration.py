"""The configuration of a command."""

from __future__ import annotations

from collections.abc import Collection

from ganeti_steward.core.commands.tables import print_notes
from ganeti_steward.core.config.load import config_path, load_config
from ganeti_steward.core.config.values import Config


def configuration(needs: Collection[str]) -> Config:
    """The configuration in use; faults in other sections than ``needs`` are printed as notes.

    ``needs``: the sections the command uses, see `ganeti_steward.core.builtins`.  Raises BadConfig.
    """
    config = load_config(config_path(), needs)
    print_notes(config.warnings)
    return config
