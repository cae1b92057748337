"""A cluster with records of incidents, reached by luxid or RAPI, that runs jobs about tags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from daemons import Reached
from records import recorded

from ganeti_steward.plugins.model.incident import Incident


class Recorded(Reached):
    """Answers for the filter rules, and does tag operations, which end at once."""

    def __init__(self, incidents: Iterable[Incident] = ()) -> None:
        self.rows = [_row(one) for one in incidents]
        self.homes: list[tuple[str, list[str]]] = []
        """primary and secondaries of each instance"""
        self.cluster_tags: list[str] = []
        self.done: list[tuple[str, str, list[str]]] = []
        """operation, name of the object (empty: the cluster) and tags"""
        self.error = ""
        """the error each job ends with; empty: it succeeds"""

    def luxi(self, method: str, arguments: list[Any]) -> Any:
        if method == "Query" and arguments[0] == "filter":
            fields = arguments[1]
            return {"data": [[[0, row[name]] for name in fields] for row in self.rows]}
        if method == "Query" and arguments[0] == "job":
            return {"data": []}
        if method == "Query" and arguments[0] == "instance":
            assert arguments[1] == ["pnode", "snodes", "admin_state"]
            return {"data": [[[0, first], [0, others], [0, "up"]] for first, others in self.homes]}
        if method == "QueryClusterInfo":
            return {"tags": self.cluster_tags}
        if method == "ReplaceFilter":
            uuid, priority, predicates, action, trail = arguments
            self.rows = [row for row in self.rows if row["uuid"] != uuid]
            self.rows.append(_row_of(uuid, priority, predicates, action, trail))
            return uuid
        if method == "SubmitManyJobs":
            ((operation,),) = arguments[0]
            return [[True, self._do(operation)]]
        assert method == "QueryJobs"
        return [[number, *self._state().values()] for number in arguments[0]]

    def rapi(self, method: str, path: str) -> tuple[int, Any]:
        parts, query = urlsplit(path).path.split("/")[2:], parse_qs(urlsplit(path).query)
        if parts == ["filters"] and query == {"bulk": ["1"]}:
            return 200, self.rows
        if parts == ["instances"] and query == {"bulk": ["1"]}:
            return 200, [
                {"pnode": first, "snodes": others, "admin_state": "up"}
                for first, others in self.homes
            ]
        if parts == ["info"]:
            return 200, {"tags": self.cluster_tags}
        if parts[0] == "jobs":
            return 200, self._state()
        assert parts[-1] == "tags"
        name = {"PUT": "OP_TAGS_SET", "DELETE": "OP_TAGS_DEL"}[method]
        kind = "node" if parts[0] == "nodes" else "cluster"
        operation = {"OP_ID": name, "kind": kind, "name": parts[1:2], "tags": query["tag"]}
        return 200, self._do(operation | {"name": parts[1] if kind == "node" else None})

    def _do(self, operation: Mapping[str, Any]) -> int:
        tags = operation["tags"]
        self.done.append((operation["OP_ID"], operation["name"] or "", tags))
        if operation["kind"] == "cluster":
            left = [tag for tag in self.cluster_tags if tag not in tags]
            self.cluster_tags = left + (tags if operation["OP_ID"] == "OP_TAGS_SET" else [])
        return 40 + len(self.done)

    def _state(self) -> dict[str, Any]:
        if self.error:
            error = ["OpPrereqError", [self.error, "unknown_entity"]]
            return {"status": "error", "opstatus": ["error"], "opresult": [error]}
        return {"status": "success", "opstatus": ["success"], "opresult": [None]}


def _row(incident: Incident) -> dict[str, Any]:
    rule = recorded(incident)
    trail = [list(one) for one in rule.reasons]
    return _row_of(rule.uuid, rule.priority, list(rule.predicates), rule.action, trail)


def _row_of(uuid: str, priority: int, predicates: Any, action: Any, trail: Any) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "priority": priority,
        "predicates": predicates,
        "action": action,
        "reason_trail": trail,
        "watermark": 0,
    }
