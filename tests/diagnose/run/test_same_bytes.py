"""The object is the same to the byte in many runs, whatever order anything comes in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from programs import program
from thorough import dice, often

if TYPE_CHECKING:
    from diagnosing import Site

PROGRAM: Final = Path(sys.executable).parent / "gnt-steward"

RUNS: Final = often(8, 100)

#: What it finds comes in the order of a set of texts, which is another one in each process.
PLUGIN: Final = """
@hookimpl
def steward_diagnose(machine):
    for disk in {"sda", "sdb", "sdc", "größe"}:
        details = dict({(key, disk) for key in ("serial", "model", "a", "Z")})
        details["inner"] = {key: None for key in {"x", "y", "z"}}
        yield Finding(f"{__name__}:{disk}", "live-repair", "change-disk", details)
        yield Finding(f"{__name__}:{disk}", "live-repair", "change-disk", dict(details))
    for fan in {"1", "2"}:
        yield Finding(f"{__name__}:fan{fan}", "Ok")
    yield Unknown(__name__, str(time.time_ns()))
"""


def test_many_runs(site: Site) -> None:
    plugins = ["acme", "disks"]
    for name in plugins:
        site.plugin(name, PLUGIN)
    path = program(site.path, "check", "echo CRITICAL - 3 failed; exit 2")
    chance = dice(1817)
    seen = set()
    for number in range(RUNS):
        checks = ["a", "b"]
        collectors = ["md", "edac"]
        for names in (plugins, checks, collectors):
            chance.shuffle(names)
        tables = "".join(f'[nagios.{name}]\ncommand = ["{path}"]\ntext = true\n' for name in checks)
        site.configure(*plugins, collectors=collectors, tables=tables)
        done = subprocess.run(
            [PROGRAM, "diagnose"],
            env={
                "GNT_STEWARD_CONFIG": str(site.config_file),
                "PYTHONPATH": str(site.modules),
                "PYTHONHASHSEED": str(number),
            },
            capture_output=True,
            check=True,
        )
        assert done.stderr == b""
        seen.add(done.stdout)
    (only,) = seen
    found = json.loads(only)
    sources = [one["source"] for one in found["details"]]
    assert sources == sorted(set(sources))
    assert {f"{name}:{disk}" for name in plugins for disk in ("sda", "größe")} <= set(sources)
    assert {f"nagios:{name}" for name in "ab"} <= set(sources)
    assert only.isascii()
    # All of it by this test's own doing: what this machine itself has is the same every time.
    assert os.listdir(site.directory)
