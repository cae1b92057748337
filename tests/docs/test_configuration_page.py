"""The reference page of the configuration is what the declarations say."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from ganeti_steward.core import builtins
from ganeti_steward.core.commands.config_texts import reference_page
from ganeti_steward.core.config.declaration import read_section

DOCS: Final = Path(__file__).parents[2] / "docs"
PAGE: Final = DOCS / "reference" / "configuration.md"


def test_the_page_is_the_declarations() -> None:
    assert PAGE.read_text() == reference_page(), (
        f"run `gnt-steward check-config --reference > {PAGE}`"
    )


@pytest.mark.parametrize("section", [*builtins.SECTIONS, "nagios.NAME", "weigh", "plugin.NAME"])
def test_every_section_is_described(section: str) -> None:
    text = PAGE.read_text().split(f"\n## [{section}]\n\n")[1].split("\n## ")[0]
    assert re.match(r"[A-Z][^|]+[.]\n", text)
    rows = [row for row in text.splitlines() if row.startswith("- ")]
    assert all(re.fullmatch(r"- `.+` \(.+; .+\): [A-Z\d].*[.]", row) for row in rows)
    assert rows or section in ("weigh", "plugin.NAME")


def test_the_example_of_a_declaration(capsys: pytest.CaptureFixture[str]) -> None:
    page = (DOCS / "how-to" / "write-a-plugin.md").read_text()
    (example,) = [
        text for text in re.findall(r"```python\n(.*?)```", page, re.S) if "CONFIG" in text
    ]
    plugin = ModuleType("mysite.rules")
    exec(compile(example, "rules.py", "exec", dont_inherit=True), vars(plugin))
    faults: list[str] = []
    settings = read_section(plugin.CONFIG, "plugin.mysite.rules", {"row": "b"}, faults)
    plugin.configure(settings)
    assert (faults, capsys.readouterr().out) == ([], "42\n")
    given = {"row": "b", "height": 49}
    assert read_section(plugin.CONFIG, "plugin.mysite.rules", given, faults) is None
    assert f"`{faults[0]}`" in page
