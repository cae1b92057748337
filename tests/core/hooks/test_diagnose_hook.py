"""A plugin's diagnose hook: found, called with the machine, its failure named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ganeti_steward.core.config.load import load_config
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.hooks.calls import call
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.model.finding import Finding
from ganeti_steward.diagnose.testing import RecordedMachine

if TYPE_CHECKING:
    from sites import Site


def results_of(site: Site, name: str) -> Any:
    """The results of one plugin's hook for an empty machine."""
    plugins = Plugins(load_config(str(site.config_file)))
    assert plugins.hooks(name) == ["steward_diagnose"]
    (implementation,) = plugins.implementations("steward_diagnose")
    return call(implementation, 10, machine=RecordedMachine(site.path))


def test_findings(site: Site) -> None:
    site.plugin(
        "fans",
        """
        from ganeti_steward.core.model.finding import Finding

        @hookimpl
        def steward_diagnose(machine):
            yield Finding("fans", "live-repair" if machine.fans() else "Ok")
        """,
    )
    site.configure("fans")
    assert results_of(site, "fans") == [Finding("fans", "Ok")]


def test_failure(site: Site) -> None:
    site.plugin(
        "fans",
        """
        @hookimpl
        def steward_diagnose(machine):
            yield machine.read("/proc/fans")
        """,
    )
    site.configure("fans")
    with pytest.raises(PluginError, match="plugin fans: failed: FileNotFoundError: "):
        results_of(site, "fans")
