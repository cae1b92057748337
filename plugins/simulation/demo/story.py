"""What happens in a demo, step by step."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.plugins.maintenance.edges.served_status import fetch_status
from ganeti_steward.plugins.model.incident import STATES
from ganeti_steward.plugins.simulation.demo.confd import ADDRESS
from ganeti_steward.plugins.simulation.demo.files import BAD, GOOD
from ganeti_steward.plugins.simulation.demo.luxid import DemoLuxid
from ganeti_steward.plugins.simulation.demo.narrator import (
    Narrator,
    is_held,
    is_moving,
    is_over,
)
from ganeti_steward.plugins.simulation.demo.nodes import DemoNodes

#: Seconds between two looks at what is new, and until something must have happened.
_LOOK: Final = 0.2
_LIMIT: Final = 600.0


class Story(ABC):
    """The steps, one after the other; each raises StewardError."""

    def __init__(
        self, nodes: DemoNodes, luxid: DemoLuxid, narrator: Narrator, pause: float
    ) -> None:
        """``pause``: seconds for reading between two steps."""
        self._nodes, self._files, self._luxid = nodes, nodes.files, luxid
        self._narrator, self._pause = narrator, pause
        _, self._ill, self._second, *_ = (node.name for node in self._files.nodes)

    def begin(self, port: int) -> None:
        """Wait until the daemon has a report of every node; ``port``: of the status page."""
        self._until(lambda: _all_healthy(port), "the daemon has no report of every node")
        self._say(f"the agents of all {len(self._files.nodes)} nodes report that they are healthy")
        self._say(f"the status page: http://{ADDRESS}:{port}/ui")
        self._say("of two places, the one with the lower cluster score is better")
        self.rest(2 * self._pause)

    @abstractmethod
    def play(self) -> None:
        """All that happens."""

    def rest(self, seconds: float) -> None:
        """Only follow what happens for so long."""
        last = time.monotonic() + seconds
        while (left := last - time.monotonic()) > 0:
            self._follow()
            time.sleep(min(_LOOK, left))
        self._follow()

    def keep(self) -> None:
        """Follow what happens until a signal comes."""
        while True:
            self.rest(60)

    def _say(self, text: str) -> None:
        self._narrator.say("demo", text)

    def _has(self, matches: Callable[..., bool], node: str) -> bool:
        return any(matches(one, node) for one in self._narrator.entries)

    def _follow(self) -> None:
        self._nodes.check()
        self._narrator.follow()

    def _until(self, condition: Callable[[], bool], fault: str) -> None:
        last = time.monotonic() + _LIMIT
        while True:
            self._follow()
            if condition():
                return
            if time.monotonic() > last:
                raise StewardError(f"{fault} after {_LIMIT:g} s; this machine may be too busy")
            time.sleep(_LOOK)


class FaultStory(Story):
    """The fans of one node fail, then those of another one for a while."""

    def play(self) -> None:
        """From the first fault to the empty node."""
        self._say(f"{self._ill}: two fans stand still; its agent will report evacuate")
        self._files.have_fans(self._ill, BAD)
        self._until(lambda: self._has(is_moving, self._ill), f"{self._ill} is not evacuated")
        self._say(f"{self._second}: its fans fail, too; only one node is repaired at a time")
        self._files.have_fans(self._second, BAD)
        self._until(
            lambda: self._has(is_held, self._second) or self._has(is_over, self._ill),
            f"the daemon does not notice {self._second}",
        )
        self.rest(self._pause)
        self._say(f"{self._second}: its fans are replaced")
        self._files.have_fans(self._second, GOOD)
        self._until(lambda: self._has(is_over, self._ill), f"{self._ill} is not empty")
        self._until(lambda: bool(self._luxid.cluster.nodes[self._ill].tags), "the node has no tag")
        self.rest(self._pause)
        self._conclude()

    def _conclude(self) -> None:
        node = self._luxid.cluster.nodes[self._ill]
        last = next(one for one in reversed(self._narrator.entries) if is_over(one, self._ill))
        left = sum(self._ill in one.nodes for one in self._luxid.cluster.instances.values())
        if not STATES[last.after].succeeded or left or not node.offline:
            raise StewardError(
                f"the evacuation of {self._ill} ended as {last.after}: {last.reason}"
            )
        self._say(
            f"{self._ill} is empty and offline, and its tag {min(node.tags)} says that it waits "
            "for a repair; every instance runs on other nodes"
        )


def _all_healthy(port: int) -> bool:
    try:
        nodes = fetch_status(ADDRESS, port)["daemon"]["nodes"]
    except StewardError:
        # It does not listen yet.
        return False
    return bool(nodes) and all(one["observation"] == "healthy" for one in nodes)
