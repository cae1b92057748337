"""A cluster with filter rules in the stand-in for luxid, reached by luxid or RAPI."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from daemons import Received, luxid, rapi
from workspace import Done

if TYPE_CHECKING:
    from standin import StandIn

Call = Callable[..., Done]

#: The ways to reach a cluster.
WAYS = ("luxi", "rapi")


class Ruled:
    """Answers for the filter rules only."""

    def __init__(self, standin: StandIn) -> None:
        self.standin = standin
        self.refused: dict[str, str] = {}
        """method of luxid -> the error it ends with from now on"""
        self.left: dict[str, int] = {}
        """method of luxid -> how often it can be called before it is refused"""

    @property
    def rules(self) -> list[dict[str, Any]]:
        """All rules as luxid has them, oldest first."""
        return list(self.standin.filters.values())

    def put(self, uuid: str, **more: Any) -> None:
        """Put a rule there, whatever is in it."""
        usual: dict[str, Any] = {"watermark": 0, "priority": 0, "predicates": [], "action": "PAUSE"}
        self.standin.filters[uuid] = {"uuid": uuid, **usual, "reason_trail": [], **more}

    def answered(self, method: str, arguments: list[Any]) -> Mapping[str, Any]:
        """The whole answer of luxid."""
        left = self.left.get(method, 1)
        if method in self.left:
            self.left[method] -= 1
        error = self.refused.get(method) or ("no more changes" if left < 1 else "")
        if error:
            return {"success": False, "result": ["GenericError", [error]]}
        return self.standin.call(method, arguments)

    def luxi(self, method: str, arguments: list[Any]) -> Any:
        return json.dumps(self.answered(method, arguments)).encode() + b"\x03"

    def rapi(self, request: Received) -> tuple[int, Any]:
        """What RAPI answers; it calls luxid."""
        parts = urlsplit(request.path).path.split("/")[2:]
        assert parts[0] == "filters"
        uuid = parts[1] if len(parts) > 1 else None
        if request.method == "GET":
            return 200, self.rules
        if request.method == "DELETE":
            answer = self.answered("DeleteFilter", [uuid])
        else:
            assert {"POST": uuid is None, "PUT": uuid is not None}[request.method]
            answer = self.answered("ReplaceFilter", [uuid, *_checked(request.body)])
        if answer["success"]:
            return 200, answer["result"]
        return 500, {"code": 500, "message": "Server Error", "explain": answer["result"][1][0]}

    @contextmanager
    def reached(self, path: Path, way: str) -> Iterator[tuple[str, ...]]:
        """The options with which a command reaches it, by ``luxi`` or ``rapi``."""
        if way == "luxi":
            with luxid(path, self.luxi) as daemon:
                yield "--luxi-socket", daemon.path
            return
        with rapi(lambda method, path: self.rapi(server.requests[-1])) as server:
            yield "--rapi", server.host, "--rapi-insecure"


def _checked(body: Mapping[str, Any]) -> list[Any]:
    """The arguments in a body; other keys than these are refused."""
    usual = {"priority": 0, "predicates": [], "action": "CONTINUE", "reason": []}
    assert set(body) <= set(usual)
    return list((usual | body).values())
