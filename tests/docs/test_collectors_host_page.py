"""The page of the host's collectors says their keys, defaults and faults as they are."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from typing import Any, Final

import pytest
from asserting import some
from collected import made
from paths import DOCS

from ganeti_steward.core.builtins import COLLECTORS
from ganeti_steward.core.model.finding import LIVE_REPAIR, OK, SUSPECT
from ganeti_steward.diagnose.collectors.ipmi import BROKEN
from ganeti_steward.diagnose.collectors.kernel import KINDS

PAGE: Final = (DOCS / "reference" / "collectors-host.md").read_text()
SECTIONS: Final = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
#: Those that the page of storage does not describe.
STORAGE_PAGE: Final = (DOCS / "reference" / "collectors-storage.md").read_text()
HOST: Final = tuple(name for name in COLLECTORS if f"\n## {name}\n" not in STORAGE_PAGE)


def module(name: str) -> Any:
    return import_module(f"ganeti_steward.diagnose.collectors.{name}")


def defaults(name: str) -> dict[str, Any]:
    return {
        key.replace("_", "-"): list(value) if isinstance(value, tuple) else value
        for key, value in module(name).Settings._field_defaults.items()
    }


def test_sections() -> None:
    assert tuple(SECTIONS) == HOST, (
        "docs/reference/collectors-host.md has a section for each collector that "
        "collectors-storage.md does not have, in the order of COLLECTORS"
    )


@pytest.mark.parametrize("name", HOST)
def test_keys(name: str) -> None:
    """They are in the generated reference."""
    link = f"(configuration.md#collector{name})"
    assert link in SECTIONS.get(name, ""), f"collectors-host.md, {name}: lacks {link}"


@pytest.mark.parametrize("name", HOST)
def test_statuses(name: str) -> None:
    # Nothing escalates by itself, and each status is one of a fault's.
    for key, value in some(defaults(name).items()):
        if key.endswith("status"):
            assert value in (OK, SUSPECT, LIVE_REPAIR)
            assert f"| `{key}` |" in SECTIONS.get(name, ""), (
                f"docs/reference/collectors-host.md, {name}: no fault has {key}"
            )


def test_the_examples() -> None:
    examples = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
    assert examples
    for example in examples:
        for name, settings in tomllib.loads(example)["collector"].items():
            made(module(name).Collector(), name, settings)


def test_faults_of_the_kernel() -> None:
    """The page has a row for each kind of message, with its status, and no other row."""
    rows = re.findall(
        r"^\| `kernel:.*? \| (`.*`) \| .* \| `([a-z-]+)` \|$", SECTIONS["kernel"], re.M
    )
    listed = {(fault, key) for faults, key in rows for fault in re.findall("`(.*?)`", faults)}
    kinds = {(kind.fault, f"{kind.family.replace('_', '-')}-status") for kind in some(KINDS)}
    assert listed == kinds


def test_events_of_ipmi() -> None:
    text = " ".join(SECTIONS["ipmi"].lower().split())
    for beginning in some(BROKEN):
        assert beginning in text
