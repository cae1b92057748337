"""Nonces: each makes one request possible, once, soon, and only at the process that gave it."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from ganeti_steward.core.ganeti.signing import NONCE_PREFIX

#: Outstanding nonces of all callers, and of one.
MOST: Final = 1024
MOST_OF_ONE: Final = 16


class _Given(NamedTuple):
    """To whom and until when."""

    caller: str
    until: float


class Nonces:
    """The nonces that are outstanding; may be called by several threads."""

    def __init__(self, secret: Callable[[], str], clock: Callable[[], float], life: float) -> None:
        """``secret``: gives a text that cannot be guessed; ``clock`` and ``life``: seconds."""
        self._secret, self._clock, self._life = secret, clock, life
        self._given: OrderedDict[str, _Given] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            return len(self._given)

    def give(self, caller: str) -> str:
        """A new nonce; the caller's oldest one ends when it has too many."""
        nonce = NONCE_PREFIX + self._secret()
        with self._lock:
            now = self._clock()
            self._drop_old(now)
            numbers = Counter(given.caller for given in self._given.values())
            if numbers[caller] >= MOST_OF_ONE:
                self._drop_oldest_of(caller)
            elif len(self._given) >= MOST:
                # Who has most loses one, so that no caller can displace another's.
                self._drop_oldest_of(max(numbers, key=numbers.__getitem__))
            self._given[nonce] = _Given(caller, now + self._life)
        return nonce

    def is_good(self, nonce: str, caller: str) -> bool:
        """Whether `take` would use it up now."""
        with self._lock:
            self._drop_old(self._clock())
            given = self._given.get(nonce)
            return given is not None and given.caller == caller

    def take(self, nonce: str, caller: str) -> bool:
        """Use up a nonce; whether it was this caller's and still good.

        Another caller who has seen it cannot use it up.
        """
        with self._lock:
            self._drop_old(self._clock())
            given = self._given.get(nonce)
            if given is None or given.caller != caller:
                return False
            del self._given[nonce]
            return True

    def _drop_old(self, now: float) -> None:
        """All have the same life, so the first ones end first."""
        while self._given and next(iter(self._given.values())).until <= now:
            self._given.popitem(last=False)

    def _drop_oldest_of(self, caller: str) -> None:
        del self._given[
            next(nonce for nonce, given in self._given.items() if given.caller == caller)
        ]
