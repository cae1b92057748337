"""Plugins loaded by module path: what they call their sources stays, however they are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from collected import recorded
from paths import ROOT

from ganeti_steward.core.builtins import COLLECTORS
from ganeti_steward.core.model.finding import Finding, Unknown
from ganeti_steward.diagnose import collectors
from ganeti_steward.diagnose.testing import RecordedMachine, results_of

if TYPE_CHECKING:
    from diagnosing import Site

CARD = """
    NAME = "{name}"

    class Card:
        @hookimpl
        def steward_diagnose(self, machine):
            return [Finding("{name}:port0", "evacuate"), Finding("{name}:port1", "Ok")]

    plugin = Card()
"""


def test_a_plugin_keeps_its_names(site: Site) -> None:
    """Installed as an entry point it is called ``acme_card``; its findings are the same ones."""
    site.plugin("acme_steward_card", CARD.format(name="acme_card"))
    site.configure("acme_steward_card")
    for _ in range(2):
        run = site.run()
        assert run.diagnosis.object == {
            "status": "evacuate",
            "details": [{"source": "acme_card:port0", "status": "evacuate"}],
        }
        assert run.report["unknown"] == []
    # A part that was taken out is no source that is gone.
    site.plugin("acme_steward_card", CARD.format(name="acme_card").replace("port0", "port20"))
    object_now = site.run().diagnosis.object
    assert object_now is not None
    assert [one["source"] for one in object_now["details"]] == ["acme_card:port20"]
    # Where it cannot be loaded, what it found stays.
    site.plugin("acme_steward_card", "import nowhere")
    run = site.run()
    assert run.diagnosis.object == object_now
    assert {one["source"] for one in run.report["unknown"]} == {
        "acme_steward_card",
        "acme_card:port20",
    }


@pytest.mark.parametrize("name", ["smart", "command", "nagios", "diagnose", "other", "a:b", "", 3])
def test_a_name_that_is_not_its_own(site: Site, name: object) -> None:
    site.plugin("acme", CARD.format(name=name).replace('NAME = "3"', "NAME = 3"))
    site.plugin("other", "@hookimpl\ndef steward_diagnose(): return [Finding('other', 'Ok')]")
    site.configure("acme", "other")
    *unknown, other = site.results()
    assert unknown
    assert all(isinstance(one, Unknown) and one.source == "acme" for one in unknown)
    assert other == Finding("other", "Ok")


@pytest.mark.parametrize("name", COLLECTORS)
def test_a_copy_of_a_built_in_collector(site: Site, name: str) -> None:
    """Built-in collectors are plugins like any other: a copy with another name is one."""
    source = Path(next(iter(collectors.__path__)), f"{name}.py").read_text()
    line = 'NAME: Final = "{}{}"\n'
    renamed = source.replace(line.format("", name), line.format("acme_", name))
    assert renamed != source
    site.modules.mkdir(exist_ok=True)
    (site.modules / f"copy_of_{name}.py").write_text(renamed)
    machine = recorded(name, "broken9" if name == "drbd" else "broken")
    found = [one for one in results_of(f"copy_of_{name}", machine) if isinstance(one, Finding)]
    assert {one.source.partition(":")[0] for one in found} == {f"acme_{name}"}
    assert any(one.status == "live-repair" for one in found)


def test_the_example_package_by_its_module(site: Site) -> None:
    """Installed, it is the entry point ``acme_raid``."""
    package = ROOT / "contrib" / "diagnose-example" / "package"
    site.modules.mkdir(exist_ok=True)
    (site.modules / "acme_steward.py").write_text((package / "acme_steward.py").read_text())
    machine = RecordedMachine(package / "tests" / "recorded" / "drive-failed")
    found = {one.source: one for one in results_of("acme_steward", machine)}
    assert found["acme_raid:drive0"] == Finding("acme_raid:drive0", "Ok")
    broken = found["acme_raid:drive1"]
    assert isinstance(broken, Finding)
    assert (broken.status, broken.command) == ("live-repair", "replace-drive")
