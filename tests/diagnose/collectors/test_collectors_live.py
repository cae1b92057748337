"""Collectors on this very machine: a filesystem of its own that is filled up, then damaged."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from collected import collect, unknown

from ganeti_steward.core.builtins import COLLECTORS
from ganeti_steward.diagnose.run.local_machine import LocalMachine

HOST = tuple(name for name in COLLECTORS if name not in ("smart", "md", "lvm", "drbd", "zfs"))

#: Run in a mount namespace of its own, so that nothing stays mounted whatever happens.
SCRIPT = """
import json, os, subprocess, sys
sys.path[:0] = json.loads(sys.argv[2])
from collected import collect, faults, fine, unknown
from ganeti_steward.diagnose.run.local_machine import LocalMachine

def report(when, name, **settings):
    results = collect(name, LocalMachine(float("inf")), **settings)
    outcome[f"{when} {name}"] = [faults(results), fine(results), unknown(results)]

place, outcome = sys.argv[1], {}
options = ["-o", "loop,errors=remount-ro"]
subprocess.run(["mount", *options, f"{place}/image", f"{place}/on"], check=True)
source = subprocess.check_output(["findmnt", "-no", "SOURCE", f"{place}/on"], text=True).strip()
outcome["device"] = os.path.basename(source)
report("new", "filesystems")
with open(f"{place}/on/full", "wb") as file:
    try:
        file.write(bytes(2**26))
        file.flush()
    except OSError:
        pass
report("full", "filesystems")
os.unlink(f"{place}/on/full")
with open(f"/sys/fs/ext4/{outcome['device']}/trigger_fs_error", "w") as file:
    file.write("a test of Ganeti Steward")
report("broken", "filesystems")
report("broken", "kernel", ignore=[])
json.dump(outcome, sys.stdout)
"""


@pytest.mark.parametrize("name", HOST)
def test_this_machine(name: str) -> None:
    # Whatever this is run on: all of it can be read and is understood, or is not there.
    reasons = unknown(collect(name, LocalMachine(float("inf")))).values()
    assert not [reason for reason in reasons if "not understood" in reason or "no number" in reason]


def outcome_of(place: Path) -> dict[str, Any]:
    (place / "on").mkdir()
    with (place / "image").open("wb") as file:
        file.truncate(2**24)
    subprocess.run(["mkfs.ext4", "-q", "-F", place / "image"], check=True, capture_output=True)
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", SCRIPT, place, json.dumps(sys.path)],
        check=False,
        capture_output=True,
        text=True,
    )
    if "failed to setup loop device" in done.stderr:
        pytest.skip("no loop device can be had")
    assert done.returncode == 0, done.stderr
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts filesystems")
@pytest.mark.skipif(not shutil.which("mkfs.ext4"), reason="there is no mkfs.ext4")
def test_a_real_filesystem(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path)
    source = f"filesystems:{tmp_path}/on"
    found, is_fine, _ = outcome["new filesystems"]
    assert source not in found
    assert source in is_fine
    found, _, _ = outcome["full filesystems"]
    assert found[source] == ["full: blocks"]
    found, _, _ = outcome["broken filesystems"]
    assert found[source] == ["errors recorded", "read-only"]
    found, _, _ = outcome["broken kernel"]
    assert found[f"kernel:{outcome['device']}"] == ["filesystem errors"]
