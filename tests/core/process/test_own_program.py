"""Processes of the program find the modules that it finds itself."""

from __future__ import annotations

import os
import subprocess
import sys
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ganeti_steward.core.process.own_program import own_program

if TYPE_CHECKING:
    import pytest

SHOW = "import json; print(json.dumps([sys.path, sys.flags.no_site, sys.argv[1:]]))"


def shown(command: list[str]) -> Any:
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60)
    return loads(done.stdout)


def test_the_path_of_the_parent_whatever_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    path = [*sys.path, "relative", "/a:b", "/with 'quotes'", "/bytes-\udcff"]
    monkeypatch.setattr(sys, "path", path)
    expected = [os.path.abspath(one) for one in path]
    assert shown(own_program(SHOW, "one", "two words")) == [expected, 0, ["one", "two words"]]


def test_no_module_site_where_the_parent_has_none(tmp_path: Path) -> None:
    """Otherwise the directories of pip below /usr/local come back."""
    source = Path(sys.modules[own_program.__module__].__file__ or "").read_text()
    (tmp_path / "own_program.py").write_text(source)
    parent = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import json, own_program; "
        f"print(json.dumps([sys.path, own_program.own_program({SHOW!r})]))"
    )
    path, command = shown([sys.executable, "-I", "-S", "-c", parent])
    assert shown(command) == [path, 1, []]
