"""A node whose system disk is dead: no program and no module can be read any more."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from agents import Agent, places_of_the_program, running
from programs import wait_until
from whitelists import needs_root

from ganeti_steward.core.builtins import COLLECTORS
from ganeti_steward.core.process.memory_lock import _has_capability

REPORT = "/1/report/node/diagnose"

#: What is wrong where something was imported only when it was needed.
LATE = re.compile(r"ModuleNotFoundError|ImportError|cannot be loaded|failed:|OSError")


def memory_errors(sysfs: Path, number: int) -> None:
    """Have a memory controller report uncorrected errors."""
    controller = sysfs / "devices/system/edac/mc/mc0"
    controller.mkdir(parents=True, exist_ok=True)
    counts = {"ue_count": number, "ce_count": 0, "seconds_since_reset": 1000}
    for name, count in counts.items():
        (controller / name).write_text(f"{count}\n")


def details(agent: Agent) -> list[Any]:
    """The findings that are in effect."""
    data = agent.get(REPORT)["data"]
    return list((data or {}).get("details", []))


@needs_root
def test_it_is_still_diagnosed(tmp_path: Path) -> None:
    """By all collectors; what is found out after that comes into effect."""
    sysfs = tmp_path / "sys"
    memory_errors(sysfs, 0)
    (tmp_path / "diagnose").mkdir(mode=0o700)
    own_view = ("unshare", "--mount", "--propagation", "private")
    settings = "interval = 0.2"
    with running(tmp_path, settings=settings, prefix=own_view, collectors=COLLECTORS) as agent:
        agent.in_its_view("mount", "--bind", str(sysfs), "/sys")
        wait_until(lambda: agent.get(REPORT)["data"] == {"status": "Ok"}, "a report")
        # Programs last: mount is one of them.
        for place in (tmp_path / "diagnose", *places_of_the_program(), "/usr"):
            agent.in_its_view("mount", "-t", "tmpfs", "-o", "ro", "none", str(place))
        memory_errors(sysfs, 3)
        wait_until(lambda: details(agent), "the finding")
        (finding,) = details(agent)
        assert (finding["source"], finding["status"]) == ("edac:mc0", "live-repair")
        reasons = {one["source"]: one["reason"] for one in agent.get(REPORT)["unknown"]}
        assert not {name: text for name, text in reasons.items() if LATE.search(text)}
        assert "nothing is kept from run to run" in reasons["diagnose"]
        # One that hangs with the disk would have come to nothing; these runs go on.
        last = agent.get(REPORT)["timestamp"]
        wait_until(lambda: agent.get(REPORT)["timestamp"] > last, "another run")
        if _has_capability():
            status = Path(f"/proc/{agent.child}/status").read_text()
            assert int(re.search(r"VmLck:\s+(\d+)", status)[1]) > 10 * 1024  # type: ignore[index]
