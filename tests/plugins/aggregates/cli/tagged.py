"""A running cluster that carries out jobs about tags, as Ganeti does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from daemons import Reached
from live import Ganeti, Message, Row

Operation = dict[str, Any]

_KINDS = {"nodes": "node", "groups": "nodegroup", "instances": "instance"}


def instance(nodes: list[str], *tags: str, template: str = "diskless") -> Message:
    """An instance of a message, with nothing but nodes and tags to speak of."""
    return {
        "disk_template": template,
        "tags": [*tags],
        "vcpus": 1,
        "memory": 512,
        "spindle_use": 1,
        "disks": [],
        "disk_space_total": 0,
        "nics": [],
        "nodes": nodes,
        "admin_state": "up",
    }


class Tagged(Ganeti, Reached):
    """Jobs end as soon as they are queried."""

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        self.done: list[Operation] = []
        """every operation, in its order"""
        self.before: Callable[[Operation], str] = lambda operation: ""
        """called before each one; returns the error the operation fails with"""
        self._ended: dict[int, str] = {}

    def tags(self, kind: str, name: str | None = None) -> list[str]:
        """The tags of an object, to be changed as you like."""
        row: Row = {
            "cluster": lambda: self.info,
            "nodegroup": lambda: next(row for row in self.groups if row["name"] == name),
            "node": lambda: self.node(name or ""),
            "instance": lambda: self.instance(name or ""),
        }[kind]()
        tags: list[str] = row["tags"]
        return tags

    def luxi(self, method: str, arguments: list[Any]) -> Any:
        """What luxid answers."""
        if method == "SubmitManyJobs" and "TAGS" in arguments[0][0][0]["OP_ID"]:
            return [[True, self._do(operation)] for (operation,) in arguments[0]]
        if method == "QueryJobs" and arguments[0][0] in self._ended:
            return [[job, *self._state(job)] for job in arguments[0]]
        return super().luxi(method, arguments)

    def rapi(self, method: str, path: str) -> tuple[int, Any]:
        """What the RAPI daemon answers."""
        parts, query = urlsplit(path).path.split("/")[2:], parse_qs(urlsplit(path).query)
        if parts[-1] == "tags":
            name = {"PUT": "OP_TAGS_SET", "DELETE": "OP_TAGS_DEL"}[method]
            where = (_KINDS[parts[0]], parts[1]) if len(parts) == 3 else ("cluster", None)
            return 200, str(
                self._do({"OP_ID": name, "kind": where[0], "name": where[1], "tags": query["tag"]})
            )
        if parts[0] == "jobs" and int(parts[1]) in self._ended:
            status, opstatus, opresult = self._state(int(parts[1]))
            return 200, {"status": status, "opstatus": opstatus, "opresult": opresult}
        return super().rapi(method, path)

    def _do(self, operation: Operation) -> int:
        number = 1000 + len(self._ended)
        self._ended[number] = self.before(operation) or self._carried_out(operation)
        return number

    def _carried_out(self, operation: Operation) -> str:
        """The error, or nothing."""
        mine, given = self.tags(operation["kind"], operation["name"]), operation["tags"]
        if operation["OP_ID"] == "OP_TAGS_DEL":
            lacking = [tag for tag in given if tag not in mine]
            if lacking:
                return f"Tag(s) {lacking[0]!r} not found"
            mine[:] = [tag for tag in mine if tag not in given]
        else:
            mine += [tag for tag in given if tag not in mine]
        self.done.append(operation)
        return ""

    def _state(self, number: int) -> list[Any]:
        error = self._ended[number]
        if not error:
            return ["success", ["success"], [None]]
        return ["error", ["error"], [["OpPrereqError", [error, "unknown_entity"]]]]
