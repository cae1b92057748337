"""Four nodes behind the stand-in for luxid, n1 is the master; all others can be switched off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from messages import body, message
from standin import StandIn
from standin_server import serving

from ganeti_steward.plugins.model.debts import BRING_UP_TAG

if TYPE_CHECKING:
    from front import Front
    from workspace import Done

    from ganeti_steward.core.ganeti.luxi import Luxi

PROGRAM: Final = "/usr/local/sbin/oob"
PAUSE: Final = "maintd:pause:shutdown-until-bring-up"
#: Instance -> order, primary and secondaries, whether it is up.
INSTANCES: Final = {
    "app.test": ("10", ["n2.test"], True),
    "db.test": ("20", ["n3.test", "n4.test"], True),
    "dns.test": ("30", ["n4.test", "n2.test"], True),
    "down.test": ("10", ["n2.test"], False),
    "web.test": ("", ["n1.test", "n2.test"], True),
}


def sent() -> dict[str, Any]:
    """What the stand-in is made of."""
    made = message()
    made["instances"] = {
        name: {
            **body("drbd" if len(nodes) > 1 else "plain"),
            "nodes": nodes,
            "tags": [f"order:{order}"] if order else [],
            "admin_state": "up" if up else "down",
        }
        for name, (order, nodes, up) in INSTANCES.items()
    }
    for name in ("n2.test", "n3.test", "n4.test"):
        made["nodes"][name]["ndparams"]["oob_program"] = PROGRAM
    return made


class Site:
    """The stand-in, and the commands."""

    def __init__(self, stand_in: StandIn, front: Front, client: Luxi) -> None:
        self.stand_in, self.ganeti, self.client = stand_in, stand_in.ganeti, client
        self._front = front

    def __call__(self, *words: str) -> Done:
        """``gnt-steward maintenance`` with these words."""
        return self._front("maintenance", *words, "--luxi-socket", self.client.path)

    def shutdown(self, *words: str) -> Done:
        """All of it, confirmed."""
        return self("shutdown", *(words or ("--all",)), "--yes")

    def bring_up(self, *words: str) -> Done:
        return self("bring-up", "--timeout", "1", *words)

    @property
    def up(self) -> set[str]:
        """The instances that run."""
        return {row["name"] for row in self.ganeti.instances if row["status"] == "running"}

    @property
    def off(self) -> set[str]:
        """The nodes that are switched off."""
        return {row["name"] for row in self.ganeti.nodes if row["powered"] is False}

    @property
    def tagged(self) -> set[str]:
        """Everything with a tag that bring-up removes."""
        rows = [*self.ganeti.nodes, *self.ganeti.instances]
        return {row["name"] for row in rows if "".join(row["tags"]).count(BRING_UP_TAG)}

    @property
    def cluster_tags(self) -> list[str]:
        tags: list[str] = self.ganeti.info["tags"]
        return tags

    @property
    def ended(self) -> list[dict[str, Any]]:
        """The jobs in the order in which they ended."""
        rows = [row for row in self.stand_in.queue.rows.values() if row["end_ts"]]
        return sorted(rows, key=lambda row: (row["end_ts"], row["id"]))

    def done(self, operation: str) -> list[str]:
        """Names of the objects of which a job had this operation, in the order of their ends."""
        return [
            (op.get("instance_name") or op["node_names"][0])
            for row in self.ended
            for op in row["ops"]
            if op["OP_ID"] == operation
        ]


STOP: Final = "OP_INSTANCE_SHUTDOWN"
START: Final = "OP_INSTANCE_STARTUP"
POWER: Final = "OP_OOB_COMMAND"


@contextmanager
def site(front: Front, path: Path) -> Iterator[Site]:
    """Served until the end of the block."""
    front.configure()
    stand_in = StandIn(sent())
    with serving(path, stand_in) as client:
        yield Site(stand_in, front, client)
