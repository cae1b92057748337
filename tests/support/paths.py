"""Where things of the checkout are."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
#: What tests read: requests of a real Ganeti, recorded machines, reference values.
DATA: Final = ROOT / "tests" / "data"
#: Requests of a real Ganeti, each with hail's answer.
CAPTURES: Final = DATA / "captures"
