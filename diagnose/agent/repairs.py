"""Who may have a repair command run, and that each accepted request runs it once.

The caller only gets "refused"; the reason is in the log.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.hmac_key import KeyFile, NoKey
from ganeti_steward.core.ganeti.signing import BadMessage, open_signed, sign
from ganeti_steward.core.json_nesting import TooDeep, check_nesting
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.node_agent.protocol import (
    BadRequest,
    Outcome,
    RepairRequest,
    answer_text,
    read_request,
)
from ganeti_steward.core.service.callers import caller
from ganeti_steward.core.service.rate_limited_log import RateLimitedLog
from ganeti_steward.core.trusted_program import Forbidden
from ganeti_steward.diagnose.agent.nonces import Nonces
from ganeti_steward.diagnose.agent.penalties import Penalties

#: Bytes a request may have.
REQUEST_LIMIT: Final = 2**20

#: Characters of a command's output that are logged.
_LOGGED: Final = 400

_log = logging.getLogger(__name__)


class Refused(StewardError):
    """All that a caller learns."""


class Unreadable(StewardError):
    """A request that is refused before any of it is parsed."""


class _Fault(StewardError):
    """Why a request is refused.  ``guess``: whether the caller may be guessing."""

    def __init__(self, reason: str, *, guess: bool) -> None:
        self.guess = guess
        super().__init__(reason)


def _check_size(raw: bytes) -> None:
    """Refuse what no parser should see; raises Unreadable."""
    if len(raw) > REQUEST_LIMIT:
        raise Unreadable(f"the request has more than {REQUEST_LIMIT} bytes")
    try:
        check_nesting(raw)
    except TooDeep as err:
        raise Unreadable(str(err)) from None


class Repairs:
    """Takes requests from several threads; one command runs at a time."""

    def __init__(
        self,
        key: KeyFile,
        is_this_node: Callable[[str], bool],
        execute: Callable[[RepairRequest], Outcome],
        nonces: Nonces,
        penalties: Penalties,
    ) -> None:
        """``execute`` runs a command; raises Forbidden where it must not be run."""
        self._key, self._is_this_node, self._execute = key, is_this_node, execute
        self._nonces, self._penalties = nonces, penalties
        self._running = threading.Lock()
        self._keyless = RateLimitedLog(_log)

    def nonce(self, address: str) -> str:
        """What a request from this address has to be signed with; raises Refused."""
        who = caller(address)
        self._listen_to(who)
        return self._nonces.give(who)

    def repair(self, address: str, raw: bytes) -> bytes:
        """Execute a signed request; the signed answer.  Raises Unreadable, Refused, NoKey."""
        _check_size(raw)
        who = caller(address)
        self._listen_to(who)
        try:
            request = self._examine(who, raw)
            outcome = self._run(address, request)
        except _Fault as err:
            shut_out = self._penalties.punish(who) if err.guess else 0
            _log.warning("repair refused caller=%s shut-out=%g reason=%s", address, shut_out, err)
            raise Refused from None
        self._penalties.forgive(who)
        return sign(self._key.key(), answer_text(request, outcome), request.rsalt)

    def _listen_to(self, who: str) -> None:
        if self._penalties.is_shut_out(who):
            # Not logged each time: that would be the caller's way to fill the disk.
            _log.debug("repair unexamined caller=%s", who)
            raise Refused

    def _examine(self, who: str, raw: bytes) -> RepairRequest:
        """The request, its nonce used up; raises _Fault, Refused."""
        try:
            signed = self._key.with_key(lambda key: open_signed(key, raw))
        except NoKey as err:
            # Not a guess, so the caller is not locked out.
            self._keyless.warning(f"repair refused caller={who} shut-out=0 reason={err}")
            raise Refused from None
        except BadMessage as err:
            raise _Fault(str(err), guess=True) from None
        if not self._nonces.take(signed.salt, who):
            raise _Fault("its nonce is unknown, used, too old or another caller's", guess=True)
        try:
            return read_request(signed.text, self._is_this_node)
        except BadRequest as err:
            raise _Fault(str(err), guess=True) from None

    def _run(self, address: str, request: RepairRequest) -> Outcome:
        if not self._running.acquire(blocking=False):
            raise _Fault("another repair command is running", guess=False)
        try:
            _log.info("repair requested caller=%s command=%s", address, request.command)
            outcome = self._execute(request)
        except Forbidden as err:
            raise _Fault(str(err), guess=True) from None
        finally:
            self._running.release()
        _log.info(
            "repair ended command=%s status=%s fault=%s output=%s",
            request.command,
            outcome.status,
            quoted(outcome.fault),
            repr(outcome.output[:_LOGGED]),
        )
        return outcome
