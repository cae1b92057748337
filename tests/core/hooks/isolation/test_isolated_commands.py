"""No command of ``gnt-steward`` hangs or dies with a plugin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from rogue import plugin

if TYPE_CHECKING:
    from sites import Capture, Site

#: What the plugin does -> what is reported of it.
KINDS: Final = {
    "while True: pass": "took longer than its 0.5 s and was stopped",
    "import ctypes; ctypes.PyDLL(None).sleep(3600)": "took longer than its 0.5 s and was stopped",
    "os._exit(0)": "its process ended with exit status 0",
    "os.kill(os.getpid(), 11)": "its process was ended by SIGSEGV",
}

EVERY_KIND = pytest.mark.parametrize(("body", "fault"), KINDS.items())


def steward(site: Site, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {
        "GNT_STEWARD_CONFIG": str(site.config_file),
        "PYTHONPATH": str(site.modules),
        "PATH": os.environ["PATH"],
    }
    command = [Path(sys.executable).parent / "gnt-steward", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, timeout=300
    )


@EVERY_KIND
def test_explain(site: Site, capture: Capture, body: str, fault: str) -> None:
    file = site.path / "message.json"
    file.write_text(json.dumps(capture("allocate-drbd")))
    plugin(site, "steward_constrain", body)
    site.configure("rogue", limit=0.5)
    done = steward(site, "explain", file)
    assert done.returncode == 0
    assert f"plugin rogue: {fault}" in done.stdout


@EVERY_KIND
def test_plugins(site: Site, body: str, fault: str) -> None:
    site.plugin("rogue", body)
    site.plugin("good", "@hookimpl\ndef steward_constrain():\n    return []\n")
    site.configure("rogue", "good", limit=0.5)
    done = steward(site, "plugins")
    assert done.returncode == 1
    assert f"error: {fault}" in done.stdout
    assert any("good" in line and "steward_constrain" in line for line in done.stdout.splitlines())


@EVERY_KIND
def test_check_config(site: Site, body: str, fault: str) -> None:
    site.plugin("rogue", body)
    plugin(site, "steward_check_config", body, "nosy")
    site.configure("rogue", "nosy", limit=0.5)
    nosy = (site.modules / "nosy.py").read_text().replace("(cluster)", "(config)")
    (site.modules / "nosy.py").write_text(nosy)
    done = steward(site, "check-config")
    assert done.returncode == 1
    assert [line.partition(": ")[2] for line in done.stdout.splitlines()] == [
        f"plugins.load: plugin rogue: {fault}",
        f"plugin nosy: {fault}",
    ]


@EVERY_KIND
def test_sample(site: Site, body: str, fault: str) -> None:
    site.plugin("rogue", body)
    site.configure("rogue", limit=0.5)
    done = steward(site, "check-config", "--sample")
    assert (done.returncode, done.stderr) == (0, "")
    assert "[allocators]" in done.stdout


def test_an_explanation_comes_out_of_the_child_as_it_is(site: Site, capture: Capture) -> None:
    file = site.path / "message.json"
    site.plugin("good", "@hookimpl\ndef steward_constrain():\n    return []\n")
    for name in ("allocate-drbd", "multi-allocate-two", "allocate-refused-memory"):
        file.write_text(json.dumps(capture(name)))
        site.configure()
        plain = steward(site, "explain", "--json", file)
        site.configure("good")
        isolated = steward(site, "explain", "--json", file)
        assert isolated.stdout == plain.stdout != ""
