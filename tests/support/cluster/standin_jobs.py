"""The job queue of the stand-in for luxid: states, dependencies, and what jobs do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from live import Ganeti

Row = dict[str, Any]

QUEUED: Final = "queued"
RUNNING: Final = "running"
SUCCESS: Final = "success"
ERROR: Final = "error"
CANCELED: Final = "canceled"
FINAL: Final = frozenset({SUCCESS, ERROR, CANCELED})


class Fault(Exception):
    """An operation failed: the name of Ganeti's error and its arguments."""

    def __init__(self, kind: str, *arguments: str) -> None:
        super().__init__(arguments[0])
        self.written = [kind, list(arguments)]


class Jobs:
    """Jobs that run one ``pace`` (seconds) each, all at the same time; ``clock`` in ns."""

    def __init__(self, ganeti: Ganeti, clock: Callable[[], int]) -> None:
        self.ganeti = ganeti
        self.clock = clock
        self.pace = 0.0
        self.faults: list[tuple[str, str, str]] = []
        """operation, a name it must hold, text: what fails and how"""
        self.jobs: dict[int, Row] = {}
        self.last = 0

    def submit(self, jobs: Sequence[Sequence[Row]]) -> list[list[Any]]:
        return [[True, self._submit_one(job)] for job in jobs]

    def _submit_one(self, operations: Sequence[Row]) -> int:
        self.last += 1
        number = self.last
        ops = [self._stored(number, at, op) for at, op in enumerate(operations)]
        self.jobs[number] = {
            "id": number,
            "status": QUEUED,
            "ops": ops,
            "opstatus": [QUEUED] * len(ops),
            "opresult": [None] * len(ops),
            "archived": False,
            "summary": [op["OP_ID"].removeprefix("OP_") for op in ops],
            "received": self.clock(),
            "started": None,
        }
        return number

    def _stored(self, number: int, at: int, operation: Row) -> Row:
        """As luxid keeps it: with its own reason, and with absolute dependencies."""
        name = operation["OP_ID"].removeprefix("OP_").lower()
        own = [f"gnt:opcode:{name}", f"job={number};index={at}", self.clock()]
        depends = [
            [one if one > 0 else number + one, states]
            for one, states in operation.get("depends") or ()
        ]
        usual = {"priority": 0, "comment": None}
        return {
            **usual,
            **operation,
            "depends": depends or None,
            "reason": [*operation["reason"], own],
        }

    def advance(self) -> None:
        """Start and end what can be by now."""
        moved = True
        while moved:
            moved = False
            for job in self.jobs.values():
                if job["status"] == QUEUED and self._may_start(job):
                    self._set(job, RUNNING, job["opresult"])
                    job["started"] = self.clock()
                    moved = True
                if job["status"] == RUNNING and self.clock() >= job["started"] + self.pace * 1e9:
                    self._end(job)
                    moved = True

    def _may_start(self, job: Row) -> bool:
        depends = [one for op in job["ops"] for one in op["depends"] or ()]
        for number, states in depends:
            if number not in self.jobs:
                self._set(job, ERROR, [["OpExecError", [f"Job {number} not found"]]])
                return False
            status = self.jobs[number]["status"]
            if status not in FINAL:
                return False
            if states and status not in states:
                wanted = ", ".join(f"'{state}'" for state in states)
                text = (
                    f"Dependency job {number} finished with status '{status}', not one of "
                    f"{wanted} as required"
                )
                self._set(job, ERROR, [["OpExecError", [text]]] * len(job["ops"]))
                return False
        return True

    def _end(self, job: Row) -> None:
        results: list[Any] = []
        for op in job["ops"]:
            # Added by the process that runs the job.
            op["debug_level"] = 0
            try:
                self._injected(op)
                results.append(_EFFECTS[op["OP_ID"]](self.ganeti, op))
            except Fault as err:
                left = len(job["ops"]) - len(results) - 1
                after = ["OpExecError", ["Preceding opcode failed"]]
                done = [SUCCESS] * len(results)
                self._set(job, ERROR, [*results, err.written, *[after] * left])
                job["opstatus"] = done + [ERROR] * (left + 1)
                return
        self._set(job, SUCCESS, results)

    def _injected(self, op: Row) -> None:
        names = (op.get("instance_name"), op.get("node_name"), op.get("name"))
        for operation, name, text in self.faults:
            if op["OP_ID"] == operation and (not name or name in names):
                raise Fault("OpExecError", text)

    def _set(self, job: Row, status: str, results: Sequence[Any]) -> None:
        job["status"] = status
        job["opstatus"] = [status] * len(job["ops"])
        job["opresult"] = list(results)

    def cancel(self, number: int) -> list[Any]:
        job = self.jobs.get(number)
        if job is None or job["status"] in FINAL:
            return [False, f"Job {number} not found in queue"]
        if job["status"] == RUNNING:
            return [False, "Job no longer waiting, can't cancel (informed it anyway)"]
        self._set(job, CANCELED, job["opresult"])
        return [True, f"Dequeued job {number}"]


# What operations do to the cluster


def _instance(ganeti: Ganeti, op: Row) -> Row:
    name = op["instance_name"]
    found = next((row for row in ganeti.instances if row["name"] == name), None)
    if found is None:
        raise Fault("OpPrereqError", f"Instance '{name}' not known", "unknown_entity")
    return found


def _node(ganeti: Ganeti, name: str) -> Row:
    found = next((row for row in ganeti.nodes if row["name"] == name), None)
    if found is None:
        raise Fault("OpPrereqError", f"Node '{name}' not known", "unknown_entity")
    return found


def _move(ganeti: Ganeti, op: Row) -> None:
    instance = _instance(ganeti, op)
    target = op.get("target_node") or next(iter(instance["snodes"]), None)
    if target is None:
        raise Fault("OpPrereqError", "Either an iallocator or a target node is needed")
    if _node(ganeti, target)["offline"]:
        raise Fault("OpPrereqError", f"Can't use offline node '{target}'", "wrong_state")
    if instance["snodes"]:
        instance["snodes"] = [instance["pnode"]]
    instance["pnode"] = target


def _replace(ganeti: Ganeti, op: Row) -> None:
    instance = _instance(ganeti, op)
    target = _node(ganeti, op["remote_node"])["name"]
    if target in (instance["pnode"], *instance["snodes"]):
        raise Fault("OpPrereqError", "The specified node is already in use", "wrong_input")
    instance["snodes"] = [target]


_FLAGS: Final = ("master_candidate", "drained", "offline")


def _set_params(ganeti: Ganeti, op: Row) -> list[list[str]]:
    node = _node(ganeti, op["node_name"])
    if node["master"]:
        text = "The master role can be changed only via master-failover"
        raise Fault("OpPrereqError", text, "wrong_input")
    leaves = node["master_candidate"] and bool(op.get("drained") or op.get("offline"))
    if leaves and not op.get("auto_promote") and _candidates(ganeti) <= _pool(ganeti):
        text = (
            "Not enough master candidates, please pass auto promote option to allow promotion "
            "(--auto-promote or RAPI auto_promote=True)"
        )
        raise Fault("OpPrereqError", text, "wrong_state")
    wanted = {flag: op[flag] for flag in _FLAGS if op.get(flag) is not None}
    if any(wanted.values()):
        wanted = dict.fromkeys(_FLAGS, False) | wanted
    changes = [[flag, str(new)] for flag, new in wanted.items() if node[flag] != new]
    node.update(wanted)
    _promote(ganeti)
    return changes


def _candidates(ganeti: Ganeti) -> int:
    return sum(row["master_candidate"] for row in ganeti.nodes)


def _pool(ganeti: Ganeti) -> int:
    usable = sum(not (row["offline"] or row["drained"]) for row in ganeti.nodes)
    return min(int(ganeti.info["candidate_pool_size"]), usable)


def _promote(ganeti: Ganeti) -> None:
    for row in ganeti.nodes:
        if _candidates(ganeti) < _pool(ganeti) and not (row["offline"] or row["drained"]):
            row["master_candidate"] = True


def _tags(ganeti: Ganeti, op: Row) -> list[str]:
    kind, name = op["kind"], op["name"]
    if kind == "cluster":
        holder = ganeti.info
    elif kind == "node":
        holder = _node(ganeti, name)
    else:
        rows = {"instance": ganeti.instances, "nodegroup": ganeti.groups}[kind]
        holder = next(row for row in rows if row["name"] == name)
    tags: list[str] = holder["tags"]
    return tags


def _set_tags(ganeti: Ganeti, op: Row) -> None:
    tags = _tags(ganeti, op)
    tags += [tag for tag in op["tags"] if tag not in tags]


def _remove_tags(ganeti: Ganeti, op: Row) -> None:
    tags = _tags(ganeti, op)
    if missing := [tag for tag in op["tags"] if tag not in tags]:
        names = ", ".join(f"'{tag}'" for tag in missing)
        raise Fault("OpPrereqError", f"Tag(s) {names} not found", "unknown_entity")
    tags[:] = [tag for tag in tags if tag not in op["tags"]]


def _nothing(ganeti: Ganeti, op: Row) -> None:
    pass


_EFFECTS: Final[dict[str, Callable[[Ganeti, Row], Any]]] = {
    "OP_INSTANCE_MIGRATE": _move,
    "OP_INSTANCE_FAILOVER": _move,
    "OP_INSTANCE_REPLACE_DISKS": _replace,
    "OP_NODE_SET_PARAMS": _set_params,
    "OP_TAGS_SET": _set_tags,
    "OP_TAGS_DEL": _remove_tags,
    "OP_TEST_DELAY": _nothing,
    "OP_NODE_QUERY_STORAGE": lambda ganeti, op: ganeti.storage_rows(
        op["storage_type"], op["nodes"]
    ),
}
KNOWN: Final = frozenset(_EFFECTS)
