"""Slows down guessing: after a refusal nothing more is examined for a while.

The time doubles with each refusal and applies to that caller only.  No thread sleeps: a request
that comes too early is refused at once, and that does not make the time longer.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

#: Seconds after the first refusal, and at most.
FIRST: Final = 1.0
LONGEST: Final = 60.0

#: Seconds after the last refusal in which a caller must be quiet to be as new.
FORGOTTEN: Final = 600.0

#: Callers that are remembered; the one that was refused longest ago is forgotten first.
MOST: Final = 4096


class _Penalty(NamedTuple):
    since: float
    length: float


class Penalties:
    """Who is not listened to; may be called by several threads."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock``: seconds."""
        self._clock = clock
        self._penalties: OrderedDict[str, _Penalty] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            return len(self._penalties)

    def is_shut_out(self, caller: str) -> bool:
        """Whether the caller's time is not over yet."""
        with self._lock:
            penalty = self._penalties.get(caller)
            return penalty is not None and self._clock() < penalty.since + penalty.length

    def punish(self, caller: str) -> float:
        """Note a refusal; the seconds in which the caller is not listened to."""
        with self._lock:
            now = self._clock()
            penalty = self._penalties.pop(caller, None)
            if penalty is None or now >= penalty.since + FORGOTTEN:
                length = FIRST
            elif now < penalty.since + penalty.length:
                # It was under way before the other refusal: the same attempt.
                length = penalty.length
            else:
                length = min(2 * penalty.length, LONGEST)
            while len(self._penalties) >= MOST:
                self._penalties.popitem(last=False)
            self._penalties[caller] = _Penalty(now, length)
            return length

    def forgive(self, caller: str) -> None:
        """Forget a caller who has the key."""
        with self._lock:
            self._penalties.pop(caller, None)
