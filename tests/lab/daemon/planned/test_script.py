"""The script of ``maintenance plan -C``: bash does with Ganeti's commands what the daemon does."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from ...cluster import until
from ..maintained_lab import MaintainedLab
from .rolling import homes, running, typed

ROLLED: Final = ("node2.lab", "node3.lab")
INSTANCES: Final = (
    ("inst1.lab", "drbd", "node2.lab:node3.lab"),
    ("inst2.lab", "diskless", "node3.lab"),
    ("inst3.lab", "plain", "node3.lab"),
)
#: It waits until the test has rebooted the node.
WORK: Final = """#!/bin/sh
echo "$1" > /etc/ganeti/work-wanted
while [ -e /etc/ganeti/work-wanted ]; do sleep 0.1; done
"""


@pytest.fixture
def wanted(maintained: MaintainedLab) -> Iterator[Path]:
    """The file that names the node to be rebooted."""
    folder = maintained.etc(maintained.master)
    (folder / "work").write_text(WORK)
    (folder / "work").chmod(0o755)
    file = folder / "work-wanted"
    yield file
    file.unlink(missing_ok=True)


def test_bash_rolls_nodes(maintained: MaintainedLab, wanted: Path) -> None:
    lab, rebooted = maintained, list[str]()
    lab.place(*INSTANCES)
    before = homes(lab), running(lab)
    script = typed(lab, f"maintenance plan {' '.join(ROLLED)} -C --stop --at-once 1")
    (lab.etc(lab.master) / "roll.sh").write_text(script)
    with ThreadPoolExecutor(1) as pool:
        bash = pool.submit(
            lab.on, lab.master, "env", "WORK=/etc/ganeti/work", "bash", "/etc/ganeti/roll.sh"
        )

        def over() -> bool:
            if wanted.exists() and (node := wanted.read_text().strip()):
                assert lab.running(node) == set()
                assert lab.node(node, "drained") == [True]
                lab.power_off(node)
                lab.power_on(node)
                rebooted.append(node)
                wanted.unlink()
            return bash.done()

        until(over, 300)
    lines = bash.result().splitlines()
    assert sorted(rebooted) == [*ROLLED]
    assert (homes(lab), running(lab)) == before
    assert sum(line.startswith("+ gnt-instance migrate ") for line in lines) == 4
    assert "+ gnt-instance startup inst3.lab" in lines
