"""The plugin of the page about packages: its test passes, it is loaded, and it does its work."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from paths import CAPTURES, DOCS

if TYPE_CHECKING:
    from front import Front

PAGE: Final = (DOCS / "how-to" / "package-a-plugin.md").read_text()
PROJECT, SETTINGS = (tomllib.loads(text) for text in re.findall(r"```toml\n(.*?)```", PAGE, re.S))
PLUGIN, TEST = re.findall(r"```python\n(.*?)```", PAGE, re.S)
REQUEST: Final = (CAPTURES / "allocate-drbd.in.json").read_text()


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package as pip would leave it."""
    (module,) = PROJECT["tool"]["setuptools"]["py-modules"]
    (tmp_path / f"{module}.py").write_text(PLUGIN)
    project = PROJECT["project"]
    info = tmp_path / f"{module}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    ((group, points),) = project["entry-points"].items()
    lines = [f"{name} = {target}" for name, target in points.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_its_test_passes(installed: Path) -> None:
    (installed / "test_acme_placement.py").write_text(TEST)
    (installed / "request.json").write_text(REQUEST)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_acme_placement.py"],
        cwd=installed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout


def test_it_works(installed: Path, front: Front) -> None:
    (name,) = SETTINGS["plugins"]["load"]
    front.configure("\n".join(re.findall(r"```toml\n(.*?)```", PAGE, re.S)[1:]))
    assert re.search(rf"^{name} +entry point .*steward_constrain", front("plugins").out, re.M)
    assert front("check-config").out.endswith(": OK\n")
    message = json.loads(REQUEST)
    message["request"]["tags"] = ["backup:daily"]
    refused = front("explain", front.message(message))
    assert "not backup storage" in refused.out
    for node in message["nodes"].values():
        node["tags"] = [SETTINGS["plugin"][name]["tag"]]
    assert "Request successful" in front("explain", front.message(message)).out
