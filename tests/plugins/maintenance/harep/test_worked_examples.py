"""Which repair harep's tags lead to, by worked examples."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
from harep_worlds import DRAINED, FINE, OFF, done, one_instance, plans

_BOTH: Final = {"primary": OFF, "secondary": OFF}
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PLAIN: Final = {"template": "plain", "primary": OFF}

#: Tags of the instance, more of the world, what is done.
EXAMPLES: Final[list[tuple[tuple[str, ...], dict[str, Any], str]]] = [
    ((), {"primary": OFF}, "nothing"),
    ((), {"primary": OFF, "cluster": ["failover"]}, "FAILOVER"),
    (
        ("fix-storage",),
        {"primary": OFF, "cluster": ["reinstall"]},
        "+ result:failover:ID:2000:enoperm:",
    ),
    (("failover",), {"primary": OFF, "cluster": ["suspend"]}, "FAILOVER"),
    ((), {"primary": OFF, "group": ["suspend:1999"], "cluster": ["failover"]}, "FAILOVER"),
    ((), {"primary": OFF, "group": ["suspend:2001"], "cluster": ["failover"]}, "nothing"),
    (("suspend:1000", "suspend"), {**_BOTH, "cluster": ["reinstall"]}, "nothing"),
    (("failover", "fix-storage"), {"secondary": OFF}, "REPLACE_DISKS"),
    (
        ("pending:failover:u:1500:7",),
        {"primary": OFF, "cluster": ["failover"], "jobs": {7: "running"}},
        "nothing",
    ),
    (
        ("pending:failover:u:1500:7",),
        {"secondary": OFF, "cluster": ["failover"], "jobs": {7: "success"}},
        "+ result:failover:u:2000:success:7, - pending:failover:u:1500:7",
    ),
    (
        ("result:failover:u:2000:success:7",),
        {"secondary": OFF, "cluster": ["failover"]},
        "REPLACE_DISKS",
    ),
    (
        ("pending:failover:u:1500:7",),
        {"primary": OFF, "cluster": ["failover"], "jobs": {7: "canceled"}},
        "+ result:failover:u:2000:failure:7, - pending:failover:u:1500:7",
    ),
    (("result:failover:u:1500:failure:7",), {**_BOTH, "cluster": ["reinstall"]}, "nothing"),
    (
        ("result:failover:u:1500:success:7", "pending:fix-storage:v:1600:9"),
        {"jobs": {9: "success"}},
        "+ result:fix-storage:v:2000:success:9, "
        "- pending:fix-storage:v:1600:9 result:failover:u:1500:success:7",
    ),
    (
        ("pending:failover:u:1500:7", "result:fix-storage:v:1600:success:9"),
        {"jobs": {7: "success"}},
        "nothing",
    ),
    (
        ("pending:failover:u:1500:7", "result:failover:u:1600:success:7"),
        {"primary": OFF, "cluster": ["failover"]},
        "FAILOVER",
    ),
    (("pending:teleport:u:1:2",), {"primary": OFF, "cluster": ["failover"]}, "FAILOVER"),
    # Plain instances.
    ((), _PLAIN, "nothing"),
    (("fix-storage",), _PLAIN, "+ result:reinstall:ID:2000:enoperm:"),
    (("migrate",), _PLAIN, "+ result:reinstall:ID:2000:enoperm:"),
    (("reinstall",), _PLAIN, "RECREATE_DISKS, REINSTALL"),
    (("reinstall", "failover"), _PLAIN, "+ result:reinstall:ID:2000:enoperm:"),
    (("suspend", "reinstall"), _PLAIN, "nothing"),
    (("suspend:1000", "reinstall"), _PLAIN, "RECREATE_DISKS, REINSTALL"),
    (("suspend:abc", "reinstall"), _PLAIN, "RECREATE_DISKS, REINSTALL"),
    (("suspend:1000", "suspend:3000", "reinstall"), _PLAIN, "nothing"),
    (("reinstall", "result:reinstall:u:1:failure:7"), _PLAIN, "nothing"),
    (("reinstall", "result:migrate:u:1:enoperm:"), _PLAIN, "RECREATE_DISKS, REINSTALL"),
    (("reinstall", "result:reinstall:u:1:success:7"), _PLAIN, "RECREATE_DISKS, REINSTALL"),
    (
        ("reinstall", "pending:reinstall:u:1:7", "result:reinstall:u:2:success:7"),
        _PLAIN,
        "RECREATE_DISKS, REINSTALL",
    ),
    (
        ("reinstall", "result:reinstall:u:1:success:", "result:reinstall:v:2:failure:"),
        _PLAIN,
        "nothing",
    ),
    (
        ("reinstall", "result:reinstall:u:1:failure:", "pending:reinstall:v:2:"),
        _PLAIN,
        "nothing",
    ),
    (
        ("reinstall", "result:reinstall:u:1:success:", "pending:reinstall:v:2:"),
        _PLAIN,
        "+ result:reinstall:v:2000:success:, "
        "- pending:reinstall:v:2: result:reinstall:u:1:success:",
    ),
    (("reinstall", "pending:reinstall:u:1:", "pending:reinstall:v:2:"), _PLAIN, "nothing"),
    # Where it differs from harep: a drained node still has the data.
    (("failover",), {"primary": DRAINED}, "MIGRATE"),
    (("migrate",), {"primary": DRAINED}, "MIGRATE"),
    (("fix-storage",), {"primary": DRAINED}, "+ result:migrate:ID:2000:enoperm:"),
    (("failover",), {"primary": DRAINED, "status": "ADMIN_down"}, "FAILOVER"),
    (("reinstall",), {"primary": DRAINED, "secondary": DRAINED}, "REPLACE_DISKS"),
    (("reinstall",), {"primary": DRAINED, "secondary": OFF}, "REPLACE_DISKS"),
    (("reinstall",), {"primary": OFF, "secondary": DRAINED}, "nothing"),
    (("reinstall",), {"template": "plain", "primary": DRAINED}, "nothing"),
    # And the rest of harep's detection.
    (("reinstall",), _BOTH, "RECREATE_DISKS, REINSTALL"),
    (("reinstall",), {"primary": {"vm_capable": False}}, "FAILOVER"),
    (("fix-storage",), {"secondary": DRAINED}, "REPLACE_DISKS"),
    (("reinstall",), {"template": "file", "primary": OFF}, ""),
    (("reinstall",), FINE, ""),
]


@pytest.mark.parametrize(("own", "more", "expected"), EXAMPLES)
def test_what_is_done(own: tuple[str, ...], more: dict[str, Any], expected: str) -> None:
    found = "; ".join(map(done, plans(one_instance(own, **more))))
    assert _ID.sub("ID", found) == expected
