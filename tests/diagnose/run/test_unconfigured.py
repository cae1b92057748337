"""A node without any configuration has a verdict, by the built-in sources alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from collected import recorded

from ganeti_steward.core.builtins import COLLECTORS, built_in, target
from ganeti_steward.core.config.load import load_config
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import StewardError
from ganeti_steward.diagnose.config.sections import Diagnose
from ganeti_steward.diagnose.run.loading import sources
from ganeti_steward.diagnose.run.running import diagnose_node

if TYPE_CHECKING:
    from diagnosing import Site


def test_without_any_configuration(site: Site) -> None:
    machine = recorded("filesystems", "healthy")
    machine.recorded["kernel_log"] = recorded("kernel", "healthy").recorded["kernel_log"]
    machine.recorded["files"] = recorded("kernel", "healthy").recorded["files"]
    config = Config()
    names = [one.name for one in sources(config, lambda _: machine, "/nonexistent")]
    assert names == [*COLLECTORS, "command"]
    settings = config.section(Diagnose)._replace(directory=str(site.directory))
    run = diagnose_node(settings, sources(config, lambda _: machine, "/nonexistent"))
    assert run.diagnosis.object == {"status": "Ok"}
    assert run.report["data"] == {"status": "Ok"}


@pytest.mark.parametrize("name", COLLECTORS)
def test_by_default_a_collector_moves_nothing_and_runs_nothing(name: str) -> None:
    """Why it may look at a node without configuration: all it finds is left to people."""
    found = built_in(name)
    assert found is not None
    defaults = target(found.target).CONFIG()._asdict()
    statuses = {key: one for key, one in defaults.items() if key.endswith("status")}
    assert statuses
    assert set(statuses.values()) <= {"Ok", "suspect", "live-repair"}
    assert defaults["repair"] == ""


def test_the_empty_name_of_a_command(site: Site) -> None:
    """Ganeti's design has it for the built-in check; with no collector either, nothing is wrong."""
    site.configure(more='commands = [""]')
    assert load_config(str(site.config_file)).section(Diagnose).commands == ("",)
    assert site.sources("/etc") == []
    assert site.run().diagnosis.object == {"status": "Ok"}
    site.configure(more='commands = ["raid", ""]')
    with pytest.raises(StewardError, match="a list of names is expected, it holds the text ''"):
        load_config(str(site.config_file))
