"""What happens when: events in the order of their times, equal times in the order of arrival."""

from __future__ import annotations

import heapq
from collections.abc import Callable

Event = Callable[[], None]


class Schedule:
    """The events that are still to come, and the time now; times are ns since the epoch."""

    def __init__(self, now: int) -> None:
        self.now = now
        self._events: list[tuple[int, int, Event]] = []
        self._added = 0

    def after(self, delay: float, event: Event) -> None:
        """Have something happen after so many ns."""
        self._added += 1
        heapq.heappush(self._events, (self.now + max(int(delay), 0), self._added, event))

    @property
    def next(self) -> int | None:
        """When the next event happens; None: nothing happens any more."""
        return self._events[0][0] if self._events else None

    def run(self) -> None:
        """Let the next event happen; it becomes the time now."""
        at, _, event = heapq.heappop(self._events)
        self.now = at
        event()
