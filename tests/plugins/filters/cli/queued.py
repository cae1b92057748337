"""A cluster with filter rules and jobs that stay as they are, reached by luxid or RAPI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ruled import Ruled

if TYPE_CHECKING:
    from daemons import Received
    from standin import StandIn

_USUAL: dict[str, Any] = {"priority": 0, "start_ts": None, "end_ts": None, "archived": False}


class Queued(Ruled):
    """Answers for jobs, too."""

    def __init__(self, standin: StandIn) -> None:
        super().__init__(standin)
        standin.queue.advance = lambda: None
        standin.ganeti.info["max_running_jobs"] = 3

    def job(self, number: int, opcode: str, status: str = "queued", **more: Any) -> None:
        """Put a job there."""
        own = [f"gnt:opcode:{opcode.lower()[3:]}", f"job={number};index=0", number]
        ops = [{"OP_ID": opcode, "reason": [own], **more}]
        received = [number, 0]
        row = {"id": number, "status": status, "ops": ops, "opstatus": [status]}
        self.standin.queue.rows[number] = {**_USUAL, **row, "received_ts": received}

    def rapi(self, request: Received) -> tuple[int, Any]:
        """RAPI's list of jobs has no priority."""
        what = urlsplit(request.path).path.split("/")[2]
        if what == "info":
            return 200, self.standin.ganeti.info
        if what == "jobs":
            rows = self.standin.queue.rows.values()
            return 200, [{k: v for k, v in row.items() if k != "priority"} for row in rows]
        return super().rapi(request)
