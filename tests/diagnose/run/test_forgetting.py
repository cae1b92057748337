"""Sources that were removed: what they found stays, the report says so, an admin drops it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from programs import program
from whitelists import needs_root

from ganeti_steward.core.errors import StewardError
from ganeti_steward.diagnose.run.state_file import forget

if TYPE_CHECKING:
    from diagnosing import Site

    from ganeti_steward.diagnose.run.running import Run

ILL = """
    @hookimpl
    def steward_diagnose(machine):
        return [Finding("disk:sda", "evacuate"), Finding("disk:sdb", "live-repair")]
"""


def findings(run: Run) -> dict[str, str]:
    assert run.diagnosis.object is not None
    return {one["source"]: one["status"] for one in run.diagnosis.object.get("details", [])}


def gone(run: Run) -> list[str]:
    """The sources that the report calls gone."""
    unknown = run.report["unknown"]
    return [one["source"] for one in unknown if "their source is gone" in one["reason"]]


def test_a_source_that_is_not_configured_any_more(site: Site) -> None:
    site.plugin("disk", ILL)
    site.configure("disk")
    assert findings(site.run()) == {"disk:sda": "evacuate", "disk:sdb": "live-repair"}
    site.configure()
    for _ in range(3):
        run = site.run()
        assert findings(run) == {"disk:sda": "evacuate", "disk:sdb": "live-repair"}
        assert gone(run) == ["disk:sda", "disk:sdb"]
    directory = str(site.directory)
    assert forget(directory, "disk:sda") == ["disk:sda"]
    assert findings(site.run()) == {"disk:sdb": "live-repair"}
    with pytest.raises(StewardError, match=r"source 'dis' \(kept: disk:sdb\)$"):
        forget(directory, "dis")
    assert forget(directory, "disk") == ["disk:sdb"]
    run = site.run()
    assert run.diagnosis.object == {"status": "Ok"}
    assert gone(run) == []


def test_a_source_that_is_back(site: Site) -> None:
    site.plugin("disk", ILL)
    site.configure("disk")
    site.run()
    site.configure()
    site.run()
    # What is forgotten of a source that is there is found again.
    site.configure("disk")
    forget(str(site.directory), "disk")
    run = site.run()
    assert findings(run) == {"disk:sda": "evacuate", "disk:sdb": "live-repair"}
    assert gone(run) == []


def test_what_waits_of_a_source_that_is_gone(site: Site) -> None:
    """It was not seen in enough runs, and will not be."""
    site.configure(more="appear-after = 2")
    site.run()
    site.plugin("disk", ILL)
    site.configure("disk", more="appear-after = 2")
    assert site.run().diagnosis.waiting
    site.configure(more="appear-after = 2")
    run = site.run()
    assert run.diagnosis.object == {"status": "Ok"}
    assert run.diagnosis.waiting == ()


@needs_root
def test_a_command_that_was_deleted(site: Site, commands: Path) -> None:
    """A package was removed, or is being upgraded: the hardware is as broken as before."""
    raid = Path(program(commands, "raid", """echo '{"status":"evacuate"}'""", shell="/bin/sh"))
    program(commands, "fan", """echo '{"status":"Ok"}'""", shell="/bin/sh")
    # A name that is none of a command: there is a result about the whitelist as well.
    raid.with_name("raid.dpkg-old").write_bytes(raid.read_bytes())
    site.configure(more='commands = ["*"]')
    assert findings(site.run(commands=str(commands))) == {"command:raid": "evacuate"}
    raid.unlink()
    run = site.run(commands=str(commands))
    assert findings(run) == {"command:raid": "evacuate"}
    assert gone(run) == ["command:raid"]
    assert forget(str(site.directory), "command:raid") == ["command:raid"]
    assert site.run(commands=str(commands)).diagnosis.object == {"status": "Ok"}


def test_what_is_unknown_since_the_state_was_lost(site: Site) -> None:
    """The node is not Ok until the source reports, or an admin has it forgotten."""
    site.plugin("disk", "@hookimpl\ndef steward_diagnose(): return [Unknown('disk', 'dead')]")
    site.plugin("fan", "@hookimpl\ndef steward_diagnose(): return [Finding('fan', 'Ok')]")
    site.configure("disk", "fan")
    site.run()
    (site.directory / "state.json").write_text("torn")
    assert site.run().diagnosis.object is None
    assert forget(str(site.directory), "disk") == ["disk"]
    site.configure("fan")
    assert site.run().diagnosis.object == {"status": "Ok"}
