"""What the tests of packages share."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from paths import ROOT

PACKAGING = ROOT / "contrib" / "packaging"
UNITS = {unit.name for unit in (ROOT / "contrib" / "systemd").iterdir()}


def run(*command: str, cwd: Path = ROOT, status: int = 0, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        capture_output=True,
        check=False,
        text=True,
        timeout=1800,
        env={**os.environ, **environment},
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout
