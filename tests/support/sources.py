"""The files of this checkout, without what programs have made in it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from paths import ROOT

#: Folders of a checkout that are made by programs.
_MADE = re.compile(r"\.|__pycache__$|build$|dist$|.*\.egg-info$")


def sources() -> list[str]:
    """Their paths relative to the checkout."""
    return [
        str(file.relative_to(ROOT))
        for file in ROOT.rglob("*")
        if file.is_file() and not any(map(_MADE.match, file.relative_to(ROOT).parts))
    ]


def copy_sources(target: Path) -> Path:
    """A copy of them in a new directory, as a fresh clone is."""
    for name in sources():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target / name)
    return target
