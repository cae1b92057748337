"""The page about storage collectors names every key, with each default but live-repair."""

from __future__ import annotations

import re
from importlib import import_module

import pytest
from asserting import some
from paths import DOCS

from ganeti_steward.core.builtins import COLLECTORS
from ganeti_steward.core.model.finding import LIVE_REPAIR

PAGE = DOCS / "reference" / "collectors-storage.md"

#: Collector with a section on the page -> the module with its keys.
MODULES = {
    name: "smart_checks" if name == "smart" else name
    for name in re.findall(r"^## (\w+)$", PAGE.read_text(), re.MULTILINE)
}


def section(name: str) -> str:
    found = re.search(rf"^## {name}$(.*?)(?=^## |\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found, name
    return found[1]


def test_sections() -> None:
    assert set(MODULES) < set(COLLECTORS)


@pytest.mark.parametrize("name", MODULES)
def test_every_key_is_described(name: str) -> None:
    module = import_module(f"ganeti_steward.diagnose.collectors.{MODULES[name]}")
    text = section(name)
    for field, default in some(module.Settings()._asdict().items()):
        key = field.replace("_", "-")
        if default == LIVE_REPAIR:
            assert f"`{key}`" in text, key
        elif isinstance(default, str | int) and field != "repair":
            shown = str(default).lower() if isinstance(default, bool) else default
            assert f"`{key}` = {shown}" in text, key
        elif field != "repair":
            assert default == ()
            assert f"`{key}`" in text, key


@pytest.mark.parametrize("name", MODULES)
def test_no_key_is_invented(name: str) -> None:
    module = import_module(f"ganeti_steward.diagnose.collectors.{MODULES[name]}")
    known = {field.replace("_", "-") for field in module.Settings._fields}
    assert set(re.findall(r"`([a-z-]+-(?:status|above))", section(name))) <= known
