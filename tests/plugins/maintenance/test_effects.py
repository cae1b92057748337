"""The table of effects: complete beside Ganeti's own list, and right for each parameter."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from ganeti_steward.allocators.jobs.operations import failover, migrate
from ganeti_steward.plugins.filters.lint.opcode_table import opcode_table
from ganeti_steward.plugins.maintenance.effects import (
    _TARGETS,
    TABLE,
    ClusterFacts,
    Effects,
    effects_of,
)
from ganeti_steward.plugins.model.operations import set_role, set_tags

GANETI: Final = sorted(Path("/usr/share/ganeti").glob("3.[0-9]"))
_PRINT: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from ganeti import opcodes; "
    "print(*opcodes.OP_MAPPING)"
)

FACTS: Final = ClusterFacts(
    {
        "n1.lab": ("u1", "g1", "default"),
        "n2.lab": ("u2", "g1", "default"),
        "n3.lab": ("u3", "g2", "other"),
    },
    frozenset({"n3.lab"}),
    {"a": ("n1.lab", "n2.lab"), "b": ("n2.lab", "n1.lab"), "c": ("n3.lab",)},
)


def of(*operations: dict[str, Any]) -> dict[str, set[str]]:
    """The fields that are not empty."""
    found = effects_of([list(operations)], FACTS)._asdict()
    return {name: set(value) for name, value in found.items() if value}


def op(name: str, /, **more: Any) -> dict[str, Any]:
    return {"OP_ID": f"OP_{name}", **more}


@pytest.mark.skipif(not GANETI, reason="Ganeti 3 is not installed")
@pytest.mark.parametrize("installed", GANETI, ids=lambda path: path.name)
def test_every_opcode_of_the_installed_ganeti(installed: Path) -> None:
    done = subprocess.run(
        ["/usr/bin/python3", "-c", _PRINT, str(installed)],
        capture_output=True,
        text=True,
        check=True,
    )
    known = set(done.stdout.split())
    assert len(known) > 70
    assert known <= TABLE.keys()


def test_every_opcode_of_both_versions() -> None:
    assert opcode_table().keys() == TABLE.keys()
    assert "OP_NETWORK_RENAME" in TABLE, "only 3.1 has it"


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_parameter_has_a_real_name(name: str) -> None:
    """A rule that reads a parameter Ganeti does not have would never hold."""

    read = set[str]()

    class Recorded(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            read.add(key)
            return super().get(key, default)

    given = Recorded(OP_ID=name, instance_name="a", node_name="n1.lab")
    effects_of([[given]], FACTS)
    targets = {f"{key}{end}" for key in _TARGETS for end in ("", "_uuid")}
    assert read - targets <= {*opcode_table()[name]}
    assert targets & {key for row in opcode_table().values() for key in row} == targets


def test_an_unknown_opcode_is_the_worst() -> None:
    assert of(op("NEW_THING", node_name="n1")) == {"whole": {"OP_NEW_THING"}}


EXAMPLES: Final[list[tuple[dict[str, Any], dict[str, set[str]]]]] = [
    (set_role("n1.lab", "drained"), {"demoted": {"n1.lab"}, "ineligible": {"n1.lab"}}),
    (set_role("N1", "offline"), {"demoted": {"n1.lab"}, "ineligible": {"n1.lab"}}),
    (op("NODE_SET_PARAMS", node_name="n1", vm_capable=False), {"demoted": {"n1.lab"}}),
    (op("NODE_SET_PARAMS", node_name="n1", offline=False, drained=False), {}),
    (
        op("NODE_SET_PARAMS", node_name="n1", master_candidate=False),
        {"demoted": {"n1.lab"}, "ineligible": {"n1.lab"}},
    ),
    (
        op("NODE_REMOVE", node_name="n1.lab"),
        {"demoted": {"n1.lab"}, "ineligible": {"n1.lab"}},
    ),
    (op("NODE_POWERCYCLE", node_name="n1"), {"powered": {"n1.lab"}, "stopped": {"a"}}),
    (op("OOB_COMMAND", node_names=["n1"], command="power-status"), {}),
    (
        op("OOB_COMMAND", node_names=["n1"], command="power-off"),
        {"powered": {"n1.lab"}, "stopped": {"a"}},
    ),
    (
        op("OOB_COMMAND", node_names=[], node_uuids=["u2"], command="power-cycle"),
        {"powered": {"n2.lab"}, "stopped": {"b"}},
    ),
    (
        op("OOB_COMMAND", node_names=[], command="power-cycle"),
        {"powered": {"n1.lab", "n2.lab", "n3.lab"}, "stopped": {"a", "b", "c"}},
    ),
    (
        op("RESTRICTED_COMMAND", nodes=["n1.lab"], command="reboot"),
        {"powered": {"n1.lab"}, "stopped": {"a"}},
    ),
    (failover("a"), {"moved": {"a"}, "stopped": {"a"}}),
    (
        failover("c", "n1.lab") | {"ignore_consistency": True},
        {
            "moved": {"c"},
            "abandoned": {"c"},
            "stopped": {"c"},
            "unchecked": {"c"},
            "targets": {"n1.lab"},
        },
    ),
    (migrate("a"), {"moved": {"a"}, "stopped": {"a"}}),
    (op("INSTANCE_MIGRATE", instance_name="a"), {"moved": {"a"}}),
    (op("INSTANCE_REPLACE_DISKS", instance_name="a", mode="x"), {"degraded": {"a"}}),
    (op("INSTANCE_RECREATE_DISKS", instance_name="c"), {"stopped": {"c"}, "erased": {"c"}}),
    (
        op("INSTANCE_RECREATE_DISKS", instance_name="c", iallocator="hail"),
        {"moved": {"c"}, "abandoned": {"c"}, "stopped": {"c"}, "erased": {"c"}},
    ),
    (
        op("INSTANCE_SET_PARAMS", instance_name="c", pnode="n1"),
        {"moved": {"c"}, "abandoned": {"c"}, "targets": {"n1.lab"}},
    ),
    (
        op("INSTANCE_RECREATE_DISKS", instance_name="a", node_uuids=["u3"]),
        {"moved": {"a"}, "stopped": {"a"}, "erased": {"a"}, "targets": {"n3.lab"}},
    ),
    (
        op("INSTANCE_REPLACE_DISKS", instance_name="a", remote_node_uuid="u3"),
        {"degraded": {"a"}, "targets": {"n3.lab"}},
    ),
    (op("INSTANCE_SET_PARAMS", instance_name="a", beparams={"vcpus": 2}), {}),
    (
        op("INSTANCE_SET_PARAMS", instance_name="a", disks=[["remove", 0, {}]]),
        {"erased": {"a"}},
    ),
    (op("INSTANCE_CREATE", instance_name="new", mode="import"), {"created": {"new"}}),
    (
        op("INSTANCE_MULTI_ALLOC", instances=[op("INSTANCE_CREATE", instance_name="c")]),
        {"created": {"c"}, "moved": {"c"}, "abandoned": {"c"}},
    ),
    (
        op("NODE_EVACUATE", node_name="n1", mode="primary-only"),
        {"moved": {"a"}, "stopped": {"a"}, "degraded": {"a", "b"}},
    ),
    (op("NODE_EVACUATE", node_name="n2", mode="secondary-only"), {"degraded": {"a", "b"}}),
    (
        op("NODE_EVACUATE", node_name="n3", mode="all"),
        {"moved": {"c"}, "abandoned": {"c"}, "stopped": {"c"}, "degraded": {"c"}},
    ),
    (
        op("GROUP_EVACUATE", group_name="other"),
        {"moved": {"c"}, "abandoned": {"c"}, "stopped": {"c"}, "degraded": {"c"}},
    ),
    (op("REPAIR_NODE_STORAGE", node_name="n1"), {"cleared": {"n1.lab"}}),
    (
        op("REPAIR_NODE_STORAGE", node_name="n3", ignore_consistency=True),
        {"cleared": {"n3.lab"}, "unchecked": {"c"}},
    ),
    (op("BACKUP_EXPORT", instance_name="a", shutdown=False), {}),
    (op("BACKUP_EXPORT", instance_name="a"), {"stopped": {"a"}}),
    (set_tags("node", "n1", ["x"]), {"tagged": {"+x"}}),
    (op("TAGS_DEL", kind="node", tags=["y"]), {"tagged": {"-y"}}),
    (op("TEST_DELAY", duration=10), {}),
    (op("QUERY", what="node"), {}),
    (op("CLUSTER_DESTROY"), {"whole": {"OP_CLUSTER_DESTROY"}}),
    (
        op("INSTANCE_CHANGE_GROUP", instance_name="a"),
        {"moved": {"a"}, "stopped": {"a"}, "degraded": {"a"}},
    ),
    (op("INSTANCE_DEACTIVATE_DISKS", instance_name="a"), {"stopped": {"a"}}),
    (
        op("INSTANCE_MOVE", instance_name="a", target_node="n3", ignore_consistency=True),
        {"moved": {"a"}, "stopped": {"a"}, "unchecked": {"a"}, "targets": {"n3.lab"}},
    ),
    (op("INSTANCE_REBOOT", instance_name="a"), {"stopped": {"a"}, "started": {"a"}}),
    (op("INSTANCE_STARTUP", instance_name="a"), {"started": {"a"}}),
    (op("INSTANCE_SHUTDOWN", instance_name="a"), {"stopped": {"a"}}),
    (op("INSTANCE_RENAME", instance_name="a", new_name="z"), {"stopped": {"a"}}),
    (op("INSTANCE_REINSTALL", instance_name="a"), {"stopped": {"a"}, "erased": {"a"}}),
    (
        op("INSTANCE_REMOVE", instance_name="c"),
        {
            "moved": {"c"},
            "abandoned": {"c"},
            "stopped": {"c"},
            "erased": {"c"},
            "removed": {"c"},
        },
    ),
    (op("INSTANCE_SET_PARAMS", instance_name="a", offline=True), {"stopped": {"a"}}),
    (
        op("INSTANCE_SET_PARAMS", instance_name="a", disk_template="plain"),
        {"stopped": {"a"}, "degraded": {"a"}},
    ),
    (op("BACKUP_REMOVE", instance_name="a"), {"erased": {"a"}}),
    (
        op("BACKUP_EXPORT", instance_name="a", remove_instance=True),
        {"stopped": {"a"}, "erased": {"a"}, "removed": {"a"}},
    ),
    (op("NODE_ADD", node_name="n4.lab"), {}),
    (
        op("NODE_ADD", node_name="n1", readd=True),
        {"demoted": {"n1.lab"}, "ineligible": {"n1.lab"}},
    ),
    (op("NODE_MIGRATE", node_name="n1"), {"moved": {"a"}, "stopped": {"a"}}),
]

#: What changes no role of a node, and of instances neither state nor place nor data.
_HARMLESS: Final = """
    BACKUP_PREPARE CLUSTER_ACTIVATE_MASTER_IP CLUSTER_CONFIG_QUERY CLUSTER_QUERY
    CLUSTER_REDIST_CONF CLUSTER_REPAIR_DISK_SIZES CLUSTER_VERIFY CLUSTER_VERIFY_CONFIG
    CLUSTER_VERIFY_DISKS CLUSTER_VERIFY_GROUP EXT_STORAGE_DIAGNOSE GROUP_ADD GROUP_VERIFY_DISKS
    INSTANCE_ACTIVATE_DISKS INSTANCE_CONSOLE INSTANCE_GROW_DISK INSTANCE_QUERY_DATA NETWORK_ADD
    NETWORK_CONNECT NETWORK_DISCONNECT NETWORK_REMOVE NETWORK_RENAME NETWORK_SET_PARAMS
    NODE_MODIFY_STORAGE NODE_QUERYVOLS NODE_QUERY_STORAGE OS_DIAGNOSE QUERY QUERY_FIELDS TAGS_GET
    TAGS_SEARCH TEST_ALLOCATOR TEST_DELAY TEST_JQUEUE TEST_OS_PARAMS
"""
#: What no plugin has to do with.
_WHOLE: Final = """
    CLUSTER_DEACTIVATE_MASTER_IP CLUSTER_DESTROY CLUSTER_POST_INIT CLUSTER_RENAME
    CLUSTER_RENEW_CRYPTO CLUSTER_SET_PARAMS GROUP_ASSIGN_NODES GROUP_REMOVE GROUP_RENAME
    GROUP_SET_PARAMS TEST_DUMMY
"""


HARMLESS, WHOLE = set(_HARMLESS.split()), set(_WHOLE.split())


def test_every_opcode_is_one_of_these() -> None:
    names = {name.removeprefix("OP_") for name in TABLE}
    shown = {one["OP_ID"].removeprefix("OP_") for one, expected in EXAMPLES if expected}
    assert shown - {"CLUSTER_DESTROY"} == names - HARMLESS - WHOLE
    worst = {"instance_name": "a", "node_name": "n1", "ignore_consistency": True, "force": True}
    for name in HARMLESS:
        assert effects_of([[op(name, **worst)]], FACTS) == Effects(), name
    for name in WHOLE:
        assert of(op(name, **worst)) == {"whole": {f"OP_{name}"}}


@pytest.mark.parametrize(("operation", "expected"), EXAMPLES)
def test_each_operation(operation: dict[str, Any], expected: dict[str, set[str]]) -> None:
    assert of(operation) == expected


def test_operations_are_judged_in_their_order() -> None:
    """What is set offline first cannot say any more whether it runs an instance."""
    offline = set_role("n1.lab", "offline")
    assert of(offline, failover("a"))["abandoned"] == {"a"}
    assert "abandoned" not in of(failover("a"), offline)
    online = op("NODE_SET_PARAMS", node_name="n3.lab", offline=False)
    assert "abandoned" not in of(online, failover("c", "n1.lab"))
    cycled = op("NODE_POWERCYCLE", node_name="n2")
    assert of(cycled)["stopped"] == {"b"}
    assert of(op("INSTANCE_MIGRATE", instance_name="a"), cycled)["stopped"] == {"a", "b"}


def test_tags_alone() -> None:
    assert effects_of([[set_tags("cluster", "", ["x"])]], FACTS).only_tags
    assert not Effects().only_tags
    assert (
        not effects_of([[set_tags("node", "n1", ["x"]), set_role("n1", "drained")]], FACTS).out
        <= set()
    )
