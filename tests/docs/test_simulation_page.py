"""The page about simulations: its commands, with its configurations, print what it shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from paths import DOCS
from thorough import often

from ganeti_steward.plugins.simulation.assumptions import Assumptions

if TYPE_CHECKING:
    from front import Front

PAGE: Final = (DOCS / "how-to" / "try-a-configuration.md").read_text()
REFERENCE: Final = (DOCS / "reference" / "commands" / "simulate.md").read_text()
FILES: Final = dict(re.findall(r"^    # (\w+\.toml)\n((?:    .*\n)+)", PAGE, re.MULTILINE))
BLOCKS: Final = re.findall(r"^```console\n\$ gnt-steward (.*)\n((?s:.*?))^```$", PAGE, re.MULTILINE)


def test_the_page_has_all_of_them() -> None:
    assert (len(FILES), len(BLOCKS)) == (5, 4)


@pytest.mark.parametrize(("arguments", "shown"), BLOCKS[: often(1, 4)])
def test_what_is_shown(front: Front, tmp_path: Path, arguments: str, shown: str) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    given = [str(tmp_path / one) if one in FILES else one for one in arguments.split()]
    assert front.run(*given, TZ="UTC").out.replace(f"{tmp_path}/", "") == shown


def test_the_defaults_of_the_reference() -> None:
    shown = dict(re.findall(r"^\| `--([a-z-]+)` \| ([\d.]+) \|", REFERENCE, re.MULTILINE))
    known = {name.replace("_", "-"): value for name, value in Assumptions()._asdict().items()}
    assert {name: float(value) for name, value in shown.items()} == {
        name: value for name, value in known.items() if name not in ("seed", "days")
    }
