"""A chain with the real hail, and shadows, under a real Ganeti."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import Lab

pytestmark = pytest.mark.thorough

#: The lab's pretended instances would not pass hail's capacity test.
HAIL = "command:/usr/lib/ganeti/iallocators/hail --no-capacity-checks"

#: Seconds until a comparison is logged, at the latest.
TIME_LIMIT = 300

HANGING = """\
#!/bin/sh
trap '' TERM
echo $$ > %s
while :; do sleep 3600; done
"""


@pytest.fixture(autouse=True)
def no_configuration(lab: Lab) -> Iterator[None]:
    yield
    lab.configure()


def logged(lab: Lab, text: str) -> str:
    """The first line with this text, waited for."""
    last = time.monotonic() + TIME_LIMIT
    while True:
        for line in lab.log.read_text().splitlines():
            if text in line:
                return line
        assert time.monotonic() < last, f"{text!r} was never logged"
        time.sleep(0.1)


def test_hail_answers(lab: Lab) -> None:
    lab.configure(f'[allocators]\nallocate = ["{HAIL}"]\n')
    call = lab.add("-t diskless", "chain1.lab").call
    lab.remove("chain1.lab")
    assert call.info.startswith("Request successful: Selected group: ")


def test_hail_cannot_be_called(lab: Lab) -> None:
    """An option hail does not know ends it; Ganeti gets an answer all the same."""
    lab.configure(f'[allocators]\nallocate = ["{HAIL} --frob", "balanced"]\n')
    lab.add("-t diskless", "chain2.lab")
    lab.remove("chain2.lab")
    assert f"{HAIL} --frob: " in logged(lab, " --frob: ended with exit status 2: ")


def test_hail_as_shadow(lab: Lab) -> None:
    lab.configure(f'[shadow]\nallocate = ["{HAIL}"]\n')
    call = lab.add("-t diskless", "shadowed.lab").call
    line = logged(lab, " name=shadowed.lab ")
    lab.remove("shadowed.lab")
    assert f"compared='{HAIL}' request=allocate name=shadowed.lab" in line
    assert f" answered={'/'.join(call.nodes)} shadow=node" in line
    score = re.search(r"score=([0-9.]+)/([0-9.]+) ", line)
    assert score is not None
    assert float(score[1]) <= float(score[2]) + 1e-8


def test_hanging_shadow(lab: Lab) -> None:
    """Ganeti's job ends while the shadow still hangs; a second one is not even started."""
    notes = lab.directory / "hanging-shadow"
    program = lab.programs / "hanging"
    program.write_text(HANGING % notes)
    program.chmod(0o755)
    lab.configure(f'[shadow]\nallocate = ["command:{program}"]\ntime-limit = 3000\n')
    try:
        lab.add("-t diskless", "patient1.lab")
        logged_before = lab.log.read_text()
        lab.add("-t diskless", "patient2.lab")
        assert "shadows are not called, they are busy: name=patient2.lab" in logged(
            lab, "name=patient2.lab"
        )
        assert "name=patient1.lab" not in logged_before
    finally:
        _end(notes)
    assert "shadow=failed" in logged(lab, " name=patient1.lab ")
    lab.remove("patient1.lab", "patient2.lab")


def _end(notes: Path) -> None:
    """End the hanging program, whose own idea of its process id may be another one."""
    inner = notes.read_text().strip()
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines())
            words = (status.parent / "cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            continue
        if fields.get("NSpid", "").split()[-1:] == [inner] and b"hanging" in b" ".join(words):
            os.kill(int(status.parent.name), signal.SIGKILL)


def test_packed(lab: Lab) -> None:
    """Ganeti takes its answers; two in a row share a node of the group."""
    lab.configure('[allocators]\nallocate = ["dedicated", "packed"]\n')
    nodes = [
        lab.add("-t diskless --node-group rack2", name).call.nodes for name in ("p1.lab", "p2.lab")
    ]
    lab.remove("p1.lab", "p2.lab")
    assert nodes[0] == nodes[1]
    assert json.dumps(nodes[0]).startswith('["node')
