"""The stand-in for luxid answers the daemon's calls as the real one does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import clusters
import pytest
from records import signing_store
from standin import StandIn
from standin_server import serving

from ganeti_steward.allocators.jobs.operations import migrate
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.model.finding import EVACUATE
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.daemon.luxi_queue import read_world
from ganeti_steward.plugins.maintenance.engine.decision import Started
from ganeti_steward.plugins.maintenance.queue.calls import Calls
from ganeti_steward.plugins.maintenance.queue.submit import (
    cancel,
    job_states,
    look_up,
    submit,
)
from ganeti_steward.plugins.model.incident import Incident, Submission
from ganeti_steward.plugins.model.operations import after, remove_tags, set_tags
from ganeti_steward.plugins.model.task import Task

from ..cluster import Lab, until

UUID: Final = "0f0f0f0f-1111-2222-3333-444444444444"
DELAY: Final = {
    "OP_ID": "OP_TEST_DELAY",
    "duration": 0.1,
    "on_master": False,
    "on_nodes": [],
    "no_locks": True,
    "interruptible": False,
    "repeat": 0,
}


class Recording(Luxi):
    """Keeps each request with its answer."""

    def __init__(self, path: str) -> None:
        super().__init__(path, time_limit=300)
        self.kept: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def _exchange(self, method: str, request: bytes) -> bytes:
        answer = super()._exchange(method, request)
        self.kept.append((json.loads(request), json.loads(answer)))
        return answer


def role(node: str, **flags: bool) -> Job:
    return [{"OP_ID": "OP_NODE_SET_PARAMS", "node_name": node, **flags}]


def opened(*submissions: str) -> Incident:
    return Incident(UUID, "n", "node", b'{"status":"evacuate"}', EVACUATE)._replace(
        open=tuple(Submission(one, "move", (), (), 0) for one in submissions)
    )


def run(luxi: Luxi, *jobs: Job) -> list[tuple[str, str]]:
    """Hand over jobs in the daemon's way; how each ended."""
    submission = str(uuid4())
    task = Task("move", frozenset(), frozenset(), "why", jobs)
    incident = opened(submission)
    store = signing_store(luxi)
    store.write(incident)
    done = submit([Started(UUID, submission, task)], {UUID: incident}, store, luxi)
    assert not done.unknown
    numbers = done.incidents[UUID].open[0].jobs
    until(lambda: all(state.ended for state in luxi.states(numbers)))
    states = job_states(done.incidents.values(), luxi)
    found = look_up([opened(submission).open[0]], luxi, Calls(), lambda _: {}).found
    assert found == {submission: numbers}
    return [
        (states[one].status, states[one].error.replace(f"job {one - 1} ", "job before "))
        for one in numbers
    ]


def everything(luxi: Luxi) -> list[Any]:
    """All the daemon does; what must be equal is returned."""
    world = read_world(luxi, 0)
    by_name = sorted(world.nodes.values(), key=lambda one: one.name)
    master = next(one.name for one in by_name if one.master)
    candidate = next(one.name for one in by_name if one.master_candidate and not one.master)
    plain = by_name[-1].name
    store = signing_store(luxi)
    luxi.call("ReplaceFilter", None, 0, [], ["RATE_LIMIT", 300], [])
    results: list[Any] = [
        run(luxi, [DELAY], [after(DELAY, [-1])], [DELAY, after(DELAY, [-2])]),
        run(
            luxi,
            [set_tags("node", plain, ["maintd:x", "y"])],
            [set_tags("cluster", "", ["c"])],
        ),
        run(luxi, [remove_tags("node", plain, ["y"]), remove_tags("node", plain, ["y"])]),
        run(
            luxi,
            [remove_tags("node", plain, ["maintd:x"])],
            [remove_tags("cluster", "", ["c"])],
        ),
        run(luxi, [after(DELAY, [999999])]),
        run(luxi, [migrate("nosuch")], [after(DELAY, [-1])], [migrate("nosuch"), DELAY]),
        run(luxi, role(master, drained=True, auto_promote=True)),
        run(luxi, role(candidate, drained=True)),
        run(luxi, role("nosuch", drained=True)),
        run(luxi, role(plain, drained=True, auto_promote=True)),
        roles(luxi, plain),
        run(luxi, role(plain, offline=True, auto_promote=True)),
        roles(luxi, plain),
        run(luxi, role(plain, offline=False)),
        roles(luxi, plain),
    ]
    assert store.read_all().incidents.keys() == {UUID}
    last = luxi.rows("job", ("id",))[-1]["id"]
    results += [
        [text.replace(str(number), "N") for number, text in cancel([last, 99999], luxi).items()],
        [state.status for state in luxi.states([99999])],
        refusal(luxi, "DeleteFilter", UUID.replace("0", "1")),
        refusal(luxi, "ReplaceFilter", "ABC", 0, [], "CONTINUE", []),
        refusal(luxi, "SubmitManyJobs", [[{"OP_ID": "OP_NO_SUCH", "reason": []}]]),
        luxi.call("SetDrainFlag", True),
        refusal(luxi, "SubmitManyJobs", [[DELAY | {"reason": []}]]),
        luxi.call("SetDrainFlag", False),
    ]
    for row in luxi.rows("filter", ("uuid",)):
        store.remove(row["uuid"])
    store.remove(UUID)
    return results


def roles(luxi: Luxi, name: str) -> list[bool]:
    (node,) = (one for one in read_world(luxi, 0).nodes.values() if one.name == name)
    return [node.offline, node.drained]


def refusal(luxi: Luxi, method: str, *arguments: Any) -> str:
    with pytest.raises(StewardError) as caught:
        luxi.call(method, *arguments)
    return str(caught.value).split(", ", 1)[1]


def values(request: dict[str, Any], answer: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Names and values of what an answer holds."""
    method, result = request["method"], answer["result"]
    if not answer["success"]:
        yield f"{method} refused", result
    elif method == "Query":
        what, fields, _ = request["args"]
        yield f"{what} answer", {**result, "data": []}
        for row in result["data"]:
            yield from ((f"{what} {f}", value) for f, value in zip(fields, row, strict=True))
    elif method == "QueryJobs":
        for row in result:
            assert len(row) == len(request["args"][1])
            yield from ((f"{method} {at}", value) for at, value in enumerate(row))
    else:
        yield method, result


def shape(value: Any) -> Any:
    """The types a value is made of; numbers are alike."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in sorted(value.items()) if one is not None}
    if isinstance(value, list):
        return [shape(one) for one in value]
    return "number" if type(value) in (int, float) else type(value).__name__


def fits(made: Any, real: Any) -> bool:
    """Whether a shape could be a real one: that may hold more, and values may be missing."""
    if isinstance(made, dict) and isinstance(real, dict):
        return all(key in real and fits(made[key], real[key]) for key in made)
    if isinstance(made, list) and isinstance(real, list):
        return not real or all(any(fits(one, other) for other in real) for one in made)
    return bool(made == real) or made == "NoneType"


@pytest.mark.usefixtures("_three_candidates")
def test_the_same_answers(lab: Lab, tmp_path: Path) -> None:
    sent = clusters.generate("--nodes=7", "--groups=2", "--mix=drbd=3,plain=1", "--networks=1")
    real = Recording(str(lab.directory / "nodes/node1.lab/run/ganeti/socket/ganeti-query"))
    expected = everything(real)
    with serving(tmp_path, StandIn(sent)) as client:
        made = Recording(client.where.removeprefix("luxid at "))
        assert everything(made) == expected
    shapes: dict[str, list[Any]] = {}
    for request, answer in real.kept:
        for name, value in values(request, answer):
            shapes.setdefault(name, []).append(shape(value))
    compared = set()
    for request, answer in made.kept:
        for name, value in values(request, answer):
            if name in shapes:
                compared.add(name)
                assert any(fits(shape(value), one) for one in shapes[name]), (name, value)
    # Nothing is left out that the daemon reads.
    assert {f"{what} uuid" for what in ("node", "instance", "group", "filter")} <= compared
    assert {"QueryClusterInfo", "SubmitManyJobs", "CancelJob", "ReplaceFilter"} <= compared
    assert {"job ops", "job status", "filter reason_trail", "QueryJobs 3"} <= compared
