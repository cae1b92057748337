"""The published schema and the program agree on what a diagnose object is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

import ganeti_steward.diagnose
from ganeti_steward.core.model.finding import STATUSES
from ganeti_steward.diagnose.model.object import object_faults

SCHEMA: Any = json.loads(
    (Path(ganeti_steward.diagnose.__file__).parent / "schema.json").read_text()
)

GOOD: list[Any] = [
    *({"status": status} for status in STATUSES),
    {"status": "live-repair", "command": "change-disk"},
    {"status": "live-repair", "command": "RAID_6-x0", "details": None},
    {"status": "evacuate", "details": {"bad": [1, 2.5, "ü", None, True]}},
    {"status": "Ok", "details": []},
    {"status": "evacuate", "command": 5},
    {"status": "Ok", "command": "../../bin/sh"},
    {"status": "Ok", "serial": "ABC"},
]

BAD: list[Any] = [
    None,
    True,
    0,
    "Ok",
    [],
    [{"status": "Ok"}],
    {},
    {"Status": "Ok"},
    {"details": "fine"},
    *({"status": status} for status in ("", "ok", "OK", "Live-repair", "live_repair", "unknown")),
    *({"status": status} for status in (None, 0, True, ["Ok"], {"status": "Ok"})),
    *(
        {"status": "live-repair", "command": command}
        for command in ("", "a/b", "../fix", "fix.sh", "fix it", "fix\n", "für", 5, None, ["fix"])
    ),
]


@pytest.fixture(scope="module")
def accepts() -> Callable[[Any], bool]:
    validate = fastjsonschema.compile(SCHEMA)

    def accepted(value: Any) -> bool:
        try:
            validate(value)
        except fastjsonschema.JsonSchemaValueException:
            return False
        return True

    return accepted


@pytest.mark.parametrize("value", GOOD, ids=json.dumps)
def test_good(accepts: Callable[[Any], bool], value: Any) -> None:
    assert (accepts(value), object_faults(json.dumps(value).encode())) == (True, [])


@pytest.mark.parametrize("value", BAD, ids=json.dumps)
def test_bad(accepts: Callable[[Any], bool], value: Any) -> None:
    assert not accepts(value)
    assert object_faults(json.dumps(value).encode())
