"""Tags put on the objects of a recorded request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sites import Message

DEFAULT: Final = ("node1.lab", "node2.lab", "node3.lab")
RACK2: Final = ("node4.lab", "node5.lab", "node6.lab")
RESERVING: Final = (
    "steward:default-forbidden-prefix:reservation:",
    "steward:required-prefix:reservation:",
)


def put(message: Message, aggregate: str, *nodes: str) -> None:
    """Put nodes into an aggregate."""
    for node in nodes:
        message["nodes"][node]["tags"].append(f"steward:aggregate:{aggregate}")


def group_tag(message: Message, group: str, *tags: str) -> None:
    (found,) = [g for g in message["nodegroups"].values() if g["name"] == group]
    found["tags"].extend(tags)


def ask_for(message: Message, *tags: str, name: str = "") -> None:
    """Tags of the instance of the request: in the request when it is new."""
    request = message["request"]
    if "tags" in request:
        request["tags"] = list(tags)
    else:
        message["instances"][name or request["name"]]["tags"] = list(tags)
