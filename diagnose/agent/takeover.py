"""Making this node the master on a signed request of the daemon of the old master.

Nothing that the request contains becomes part of the command.  Ganeti itself has the other nodes
vote before it changes anything (``--no-voting`` is never given).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ganeti_steward.core.ganeti.this_node import ThisNode, lines, master_name
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.json_reader import describe
from ganeti_steward.core.node_agent.protocol import CommandEnd, RepairRequest

#: What is run, with the arguments that it gets.
PROGRAM: Final = ("/usr/sbin/gnt-cluster", "master-failover")

#: Seconds for which a request is valid, by the clocks of both nodes.
VALID: Final = 60

#: What Ganeti writes on every node.
_CANDIDATES: Final = "ssconf_master_candidates"


class Takeover:
    """What has to be so before this node becomes the master, and what makes it the master."""

    def __init__(
        self,
        data: str,
        find_node: Callable[[], ThisNode],
        clock: Callable[[], float],
        execute: Callable[[RepairRequest], CommandEnd],
    ) -> None:
        """``data``: Ganeti's data directory; ``find_node``: which node of the cluster this is.

        ``clock``: s since the epoch; ``execute`` runs `PROGRAM`; raises Forbidden.
        """
        self._data, self._find_node, self._clock = data, find_node, clock
        self.execute = execute

    def fault(self, request: RepairRequest) -> str:
        """Why a request is not followed, one sentence; empty where it is."""
        age = self._clock() - request.submitted
        if abs(age) > VALID:
            late = "old" if age > 0 else "ahead of this node's clock"
            return f"the request is {abs(age):.0f} s {late}, and it is valid for {VALID} s"
        named, own = load_json(request.diagnose).get("master"), self._find_node().name
        master = master_name(self._data)
        if not master:
            return f"who is the master is not known on {own}"
        if named != master:
            return f"it names {describe(named)} as the master, and {own} knows {master} as that"
        if own == master:
            return f"{own} is the master already"
        if own not in lines(self._data, _CANDIDATES):
            return f"{own} is not a master candidate"
        return ""
