"""The page about simulations: its commands, with its configurations, print what it shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from paths import DOCS

from ganeti_steward.plugins.simulation.assumptions import Assumptions

if TYPE_CHECKING:
    from front import Front

PAGE: Final = (DOCS / "how-to" / "try-a-configuration.md").read_text()
REFERENCE: Final = (DOCS / "reference" / "commands" / "simulate.md").read_text()
FILES: Final = dict(re.findall(r"^    # (\w+\.toml)\n((?:    .*\n)+)", PAGE, re.MULTILINE))
BLOCKS: Final = re.findall(r"^```console\n\$ gnt-steward (.*)\n((?s:.*?))^```$", PAGE, re.MULTILINE)


ROWS: Final = re.findall(
    r"^\| `(\w+\.toml)` \| (\S+ %) \| (\S+) \| (\d+) \| (\d+) \| `([a-z-]+)` (\S+) \|$",
    PAGE,
    re.MULTILINE,
)
#: Lines of what the last configuration prints, in the text.
LINES: Final = re.findall(r"`((?:nodes|instances) \w+ [a-z ]+ [^`]+)`", PAGE)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def figures(printed: str) -> tuple[str, ...]:
    """What a row of the table has of a simulation."""
    found = re.search(
        r"^availability +(\S+ %), instances were down for (\S+) h\n(?s:.*)^nodes that died +(\d+),"
        r"(?s:.*)^moves .*?(\d+) GiB copied\n(?s:.*)^Brake .*\n([a-z-]+) +\d+ +(\S+)\n",
        printed,
        re.MULTILINE,
    )
    assert found is not None
    return found.groups()


def test_the_page_has_all_of_them() -> None:
    assert (len(FILES), len(BLOCKS), len(ROWS), len(LINES)) == (5, 1, 5, 3)
    assert [name for name, *_ in ROWS] == [*FILES]


def test_what_is_shown(front: Front, files: Path) -> None:
    ((arguments, shown),) = BLOCKS
    given = [str(files / one) if one in FILES else one for one in arguments.split()]
    assert front.run(*given, TZ="UTC").out == shown
    (row,) = (row for row in ROWS if row[0] in arguments)
    assert figures(shown) == row[1:]


@pytest.mark.thorough
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_figures_of_each_configuration(front: Front, files: Path, row: tuple[str, ...]) -> None:
    done = front.run("simulate", "--config", str(files / row[0]), "--days", "365", TZ="UTC")
    assert figures(done.out) == row[1:]
    if row == ROWS[-1]:
        printed = re.sub(r" +", " ", done.out)
        assert [line for line in LINES if line not in printed] == []


def test_the_defaults_of_the_reference() -> None:
    shown = dict(re.findall(r"^\| `--([a-z-]+)` \| ([\d.]+) \|", REFERENCE, re.MULTILINE))
    known = {name.replace("_", "-"): value for name, value in Assumptions()._asdict().items()}
    assert {name: float(value) for name, value in shown.items()} == {
        name: value for name, value in known.items() if name not in ("seed", "days")
    }
