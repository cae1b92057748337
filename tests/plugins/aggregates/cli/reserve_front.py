"""A cluster with a free pool of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from front import capture

if TYPE_CHECKING:
    from front import Front
    from tagged import Operation, Tagged
    from workspace import Done


Message = dict[str, Any]


IN = "steward:aggregate:"


FREE = f"{IN}reservation:free"


SETTINGS = (
    "steward:default-forbidden-prefix:reservation:",
    "steward:required-prefix:reservation:",
    "steward:unclaimable:reservation:free",
)


def site(*free: str) -> Message:
    """Nodes 4 to 6 are rack2; those named are in the free pool."""
    message = capture("allocate-diskless")
    message["cluster_tags"] = [*SETTINGS]
    for name, node in message["nodes"].items():
        node["tags"] = [FREE] if name.partition(".")[0] in free else []
    return message


def live(front: Front, ganeti: Tagged, *arguments: str, way: str = "luxi") -> Done:
    with ganeti.reached(front.path, way) as options:
        return front("reserve", *arguments, *options)


def inside(ganeti: Tagged) -> dict[str, list[str]]:
    """Node -> what it is in, of those that are in anything."""
    found = {row["name"]: [tag.removeprefix(IN) for tag in row["tags"]] for row in ganeti.nodes}
    return {name.partition(".")[0]: tags for name, tags in sorted(found.items()) if tags}


# -- not alone


class Meanwhile:
    """Does something to the cluster once, before the first operation that fits."""

    def __init__(self, ganeti: Tagged, fits: str, act: Any) -> None:
        self._fits, self._act, self._done = fits, act, False
        ganeti.before = self

    def __call__(self, operation: Operation) -> str:
        text = f"{operation['OP_ID']} {operation['name']} {operation['tags'][0]}"
        if self._fits in text and not self._done:
            self._done = True
            return self._act() or ""
        return ""
