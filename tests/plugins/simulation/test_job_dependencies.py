"""What becomes of a job when the one that it depends on is canceled, as measured with luxid 3.0."""

from __future__ import annotations

from typing import Any

import clusters
import pytest
from standin import StandIn

DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 1, "reason": []}
#: States that a dependency lists -> how the dependent job ends.
ENDS = {
    (): "canceled",
    ("success",): "canceled",
    ("error",): "canceled",
    ("canceled",): "success",
    ("success", "error", "canceled"): "success",
}


@pytest.mark.parametrize(("states", "end"), ENDS.items())
@pytest.mark.parametrize("action", ["REJECT", "PAUSE"])
def test_a_canceled_dependency(action: str, states: tuple[str, ...], end: str) -> None:
    now = [10**18]
    luxid = StandIn(clusters.generate("--nodes=3"), lambda: now[0])
    condition = ["opcode", ["=", "OP_ID", "OP_TAGS_SET"]]
    luxid.replace_filter(None, 1, [condition], action, [])
    tag = {"OP_ID": "OP_TAGS_SET", "kind": "cluster", "name": "", "tags": ["x"], "reason": []}

    def call(method: str, *arguments: Any) -> Any:
        return luxid.call(method, arguments)["result"]

    jobs = [[tag], [DELAY | {"depends": [[-1, [*states]]]}], [DELAY | {"depends": [[-1, []]]}]]
    first, *others = [number for _, number in call("SubmitManyJobs", jobs)]
    if action == "PAUSE":
        call("CancelJob", first, False)
    for _ in range(4):
        now[0] += 10**10
        call("QueryClusterInfo")
    rows = [luxid.queue.rows[one] for one in others]
    assert [row["status"] for row in rows] == [end, end]
    assert all(row["opresult"] == ["Job canceled by request"] for row in rows) == (
        end == "canceled"
    )
