"""Rules, configuration and metrics pass Prometheus' own checks."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from exported import AGENT, DAEMON, EXPORTER
from paths import ROOT

pytestmark = pytest.mark.thorough

MONITORING = ROOT / "contrib" / "monitoring"


def promtool(folder: Path) -> str:
    """The program; Debian's package prometheus is unpacked where it is not installed."""
    found = shutil.which("promtool")
    if found:
        return found
    for command in (["apt-get", "download", "prometheus"], ["sh", "-c", "dpkg -x *.deb here"]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return str(folder / "here" / "usr" / "bin" / "promtool")


def test_promtool_accepts_everything(tmp_path: Path) -> None:
    program = promtool(tmp_path)
    for words in (
        ["check", "rules", str(MONITORING / "steward-alerts.yml")],
        ["check", "config", str(MONITORING / "prometheus.yml")],
    ):
        done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    for text in (DAEMON, AGENT, EXPORTER):
        done = subprocess.run(
            [program, "check", "metrics"],
            input=text.decode(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
