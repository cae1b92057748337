"""A relative path of the configuration means the directory in which the program was started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os
from ganeti_steward.core.config.load import config_path, load_config
os.chdir("/")
print(config_path(), load_config(config_path()).log.level)
"""


def test_after_a_change_of_directory(tmp_path: Path) -> None:
    (tmp_path / "here.toml").write_text('[log]\nlevel = "debug"\n')
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={"GNT_STEWARD_CONFIG": "here.toml"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.split() == [str(tmp_path / "here.toml"), "debug"]


def test_in_a_directory_that_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    program = f"import os, shutil; shutil.rmtree({str(gone)!r}); exec({PROGRAM!r})"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=gone,
        env={"GNT_STEWARD_CONFIG": "here.toml"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "configuration /here.toml: the file does not exist" in done.stderr
