"""The table of opcodes beside the installed Ganeti."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from ganeti_steward.plugins.filters.jobs import COMMON
from ganeti_steward.plugins.filters.lint.lint import OPCODES
from ganeti_steward.plugins.filters.lint.opcode_table import TYPES, opcode_table

ROOT: Final = Path(__file__).parents[4]
#: The installed versions, of which Debian has one.
GANETI: Final = sorted(Path("/usr/share/ganeti").glob("3.[0-9]"))
_VERIFY_DISKS: Final = ("OP_CLUSTER_VERIFY_DISKS", "OP_GROUP_VERIFY_DISKS")
#: What a version has not and the other has: opcode -> parameters.
MISSING: Final = {
    "3.0": {
        **{name: {"is_strict"} for name in _VERIFY_DISKS},
        "OP_NETWORK_RENAME": {"network_name", "new_name"},
    },
    "3.1": {"OP_INSTANCE_SET_PARAMS": {"hotplug_if_possible"}},
}
_PRINT: Final = """
import json, sys
sys.path.insert(0, sys.argv[1])
from ganeti import opcodes
print(json.dumps({
    name: {one[0]: [one[1] is None, str(one[2])] for one in code.GetAllParams()}
    for name, code in opcodes.OP_MAPPING.items()
}))
"""
#: How Ganeti's descriptions of types begin -> type.
_TYPES: Final = {
    "Boolean": "b",
    "Integer": "n",
    "Float": "n",
    "EqualOrGreaterThanZero": "n",
    "GreaterThanZero": "n",
    "List of": "l",
    "Set of": "l",
    "Dictionary": "o",
    "NonEmptyString": "s",
    "String": "s",
}


def test_types() -> None:
    assert {one.kind for row in opcode_table().values() for one in row.values()} <= TYPES.keys()
    assert set(OPCODES) <= opcode_table().keys()


def submitted() -> set[str]:
    """The opcodes that the daemon's code makes; those of its simulation and demo aside."""
    files = [
        ROOT / "core/model/opcodes.py",
        ROOT / "allocators/jobs/operations.py",
        ROOT / "plugins/model/operations.py",
    ]
    for folder in ("daemon", "engine", "harep", "queue", "rebalance", "repairs", "routine"):
        files += (ROOT / "plugins/maintenance" / folder).rglob("*.py")
    literals = re.compile(r'"OP_ID": "(OP_\w+)"|^[A-Z_]+(?:: Final)? = "(OP_\w+)"', re.MULTILINE)
    return {one or other for file in files for one, other in literals.findall(file.read_text())}


def test_the_daemons_opcodes_are_those_that_its_code_makes() -> None:
    # harep waits with one of them, which repairs nothing.
    assert set(OPCODES) == submitted() - {"OP_TEST_DELAY"}


@pytest.mark.skipif(not GANETI, reason="Ganeti 3 is not installed")
def test_the_table_is_that_of_ganeti() -> None:
    installed = GANETI[-1]
    done = subprocess.run(
        ["/usr/bin/python3", "-c", _PRINT, str(installed)],
        capture_output=True,
        text=True,
        check=True,
    )
    ganeti = json.loads(done.stdout)
    missing = MISSING[installed.name]
    table = {
        name: {field: one for field, one in row.items() if field not in missing.get(name, ())}
        for name, row in opcode_table().items()
    }
    # An opcode that the version does not have is left without parameters.
    table = {name: row for name, row in table.items() if row or name not in missing}
    assert {name: set(row) - COMMON for name, row in ganeti.items()} == {
        name: set(row) for name, row in table.items()
    }
    for name, row in table.items():
        for field, one in row.items():
            unset, text = ganeti[name][field]
            nullable = text.startswith("None or ")
            assert one.optional == (unset and nullable), (name, field)
            plain = text.removeprefix("None or ").strip("(")
            for begin, kind in _TYPES.items():
                if plain.startswith(begin) and "Private" not in plain and " or List" not in plain:
                    assert one.kind == kind, (name, field)
