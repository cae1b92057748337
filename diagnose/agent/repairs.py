"""Who may have a repair command run, and that each accepted request, and each id, runs it once.

The caller only gets "refused"; the reason is in the log.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.hmac_key import KeyFile, NoKey
from ganeti_steward.core.ganeti.signing import BadMessage, open_signed, sign, strict_json
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.finding import LIVE_REPAIR
from ganeti_steward.core.node_agent import protocol
from ganeti_steward.core.node_agent.remembered import ENDED, RepairState, read_question, state_text
from ganeti_steward.core.process.trusted_program import Forbidden
from ganeti_steward.core.service.callers import caller
from ganeti_steward.core.service.rate_limited_log import RateLimitedLog
from ganeti_steward.diagnose.agent.memory import Memory
from ganeti_steward.diagnose.agent.nonces import Nonces
from ganeti_steward.diagnose.agent.penalties import Penalties
from ganeti_steward.diagnose.agent.takeover import Takeover

#: A signed message as bytes: one object of three texts.  Nothing in it can be matched in two ways.
_MEMBER: Final = rb'\s*+"(msg|salt|hmac)"\s*+:\s*+"((?:[^"\\]++|\\.)*+)"\s*+'

_FORM: Final = re.compile(
    rb"\s*+\{" + _MEMBER + rb"," + _MEMBER + rb"," + _MEMBER + rb"\}\s*+", re.DOTALL
)

#: Bytes of a salt as JSON.
_LONGEST_SALT: Final = 256

#: Bytes a request may have.
REQUEST_LIMIT: Final = 2**20

_NO_NONCE: Final = "its nonce is unknown, used, too old or another caller's"

#: Characters of a command's output that are logged.
_LOGGED: Final = 400

_Read = TypeVar("_Read")

Execute = Callable[[protocol.RepairRequest], protocol.CommandEnd]

_log = logging.getLogger(__name__)


class RepairRefused(StewardError):
    """All that a caller learns."""


class Unreadable(StewardError):
    """A request that is refused before any of it is parsed."""


class _Rejection(StewardError):
    """Why a request is refused.  ``guess``: whether the caller may be guessing."""

    def __init__(self, reason: str, *, guess: bool) -> None:
        self.guess = guess
        super().__init__(reason)


class Repairs:
    """Takes requests from several threads; one command of each kind runs at a time."""

    def __init__(
        self,
        key: KeyFile,
        is_this_node: Callable[[str], bool],
        execute: Execute,
        nonces: Nonces,
        penalties: Penalties,
        memory: Memory,
        *,
        runs_commands: bool = True,
        takeover: Takeover | None = None,
    ) -> None:
        """``execute`` runs a command; raises Forbidden where it must not be run.

        ``runs_commands``: whether any repair command is run; ``takeover``: makes this node the
        master; None: that is not permitted.
        """
        self._memory, self._runs_commands, self._takeover = memory, runs_commands, takeover
        self._key, self._is_this_node, self._execute = key, is_this_node, execute
        self._nonces, self._penalties = nonces, penalties
        self._running = {status: threading.Lock() for status in (LIVE_REPAIR, protocol.HOOK)}
        self._keyless = RateLimitedLog(_log)

    def nonce(self, address: str) -> str:
        """What a request from this address has to be signed with; raises Refused."""
        who = caller(address)
        self._listen_to(who)
        return self._nonces.give(who)

    def repair(self, address: str, raw: bytes) -> bytes:
        """Execute a signed request; the signed answer.  Raises Unreadable, Refused, NoKey."""
        with self._judged(address) as who:
            request, wanted = self._examine(who, raw, _read)
            if wanted == protocol.MASTER_FAILOVER:
                state = self._take_over(address, request)
            elif self._runs_commands:
                state = self._once(address, request, self._execute)
            else:
                raise _Rejection("repair commands are not run (agent.repair)", guess=False)
        text = state_text(request.node, request.id, state)
        return sign(self._key.key(), text, request.rsalt)

    def state(self, address: str, raw: bytes) -> bytes:
        """The signed answer to a signed question; raises Unreadable, Refused, NoKey."""
        with self._judged(address) as who:
            question = self._examine(who, raw, read_question)
            found = self._memory.query(question.id, question.submitted)
        _log.debug("repair question caller=%s id=%s state=%s", address, question.id, found.state)
        text = state_text(question.node, question.id, found)
        return sign(self._key.key(), text, question.rsalt)

    def listens_to(self, address: str) -> bool:
        """Whether a request from this address would be examined now."""
        return not self._penalties.is_shut_out(caller(address))

    @contextmanager
    def _judged(self, address: str) -> Iterator[str]:
        """Punish a caller whose request turns out to be a guess, or forgive; raises Refused."""
        who = caller(address)
        self._listen_to(who)
        try:
            yield who
        except _Rejection as err:
            shut_out = self._penalties.punish(who) if err.guess else 0
            _log.warning("repair refused caller=%s shut-out=%g reason=%s", address, shut_out, err)
            raise RepairRefused from None
        self._penalties.forgive(who)

    def _listen_to(self, who: str) -> None:
        if self._penalties.is_shut_out(who):
            # Not logged each time: that would be the caller's way to fill the disk.
            _log.debug("repair unexamined caller=%s", who)
            raise RepairRefused

    def _examine(
        self, who: str, raw: bytes, read: Callable[[str, Callable[[str], bool]], _Read]
    ) -> _Read:
        """The request, its nonce used up; raises Unreadable, _Fault, Refused.

        What costs least comes first: without a nonce of this agent no key is used and no JSON is
        read, without a signature none of the text.
        """
        if len(raw) > REQUEST_LIMIT:
            raise Unreadable(f"the request has more than {REQUEST_LIMIT} bytes")
        try:
            if not self._nonces.is_good(salt_of(raw), who):
                raise _Rejection(_NO_NONCE, guess=True)
            signed = self._key.with_key(lambda key: open_signed(key, raw))
        except NoKey as err:
            # Not a guess, so the caller is not locked out.
            self._keyless.warning(f"repair refused caller={who} shut-out=0 reason={err}")
            raise RepairRefused from None
        except BadMessage as err:
            raise _Rejection(str(err), guess=True) from None
        if not self._nonces.take(signed.salt, who):
            raise _Rejection(_NO_NONCE, guess=True)
        try:
            return read(signed.text, self._is_this_node)
        except protocol.BadRequest as err:
            raise _Rejection(str(err), guess=True) from None

    def _take_over(self, address: str, request: protocol.RepairRequest) -> RepairState:
        """Make this node the master if its id is new; what has become of it.

        A refusal is signed: only then the caller may turn to another node.
        """
        known = self._memory.state(request.id)
        takeover = self._takeover
        if takeover is None:
            fault = "it is not permitted here (agent.master-failover)"
        else:
            fault = "" if known else takeover.fault(request)
        if takeover is not None and not fault:
            try:
                return self._once(address, request, takeover.execute)
            except _Rejection as err:
                if self._memory.state(request.id):
                    raise
                fault = str(err)
        _log.warning("master failover refused caller=%s id=%s: %s", address, request.id, fault)
        outcome = protocol.CommandEnd(None, fault=f"it was not run: {fault}")
        return known or RepairState(ENDED, request.command, 0, outcome)

    def _once(self, address: str, request: protocol.RepairRequest, execute: Execute) -> RepairState:
        """Run a command if its id is new; what has become of it.  Raises _Rejection."""
        state = self._memory.state(request.id)
        if state is None:
            with self._alone(request):
                return self._begun(address, request, execute)
        self._not_again(address, request, state)
        return state

    def _begun(
        self, address: str, request: protocol.RepairRequest, execute: Execute
    ) -> RepairState:
        """Run a command unless it must not be, and note the outcome; raises _Fault."""
        state = self._memory.begin(request)
        if state is not None:
            self._not_again(address, request, state)
            return state
        outcome = None
        try:
            outcome = self._run(address, request, execute)
        except _Rejection as err:
            outcome = protocol.CommandEnd(None, fault=f"it was not run: {err}")
            raise
        finally:
            self._memory.end(request, outcome)
        state = self._memory.state(request.id) or RepairState(ENDED, request.command)
        # All of its output, which is not remembered.
        return state._replace(outcome=outcome)

    def _not_again(self, address: str, request: protocol.RepairRequest, state: RepairState) -> None:
        why = state.outcome.fault or state.state
        _log.info("repair not run again caller=%s id=%s: %s", address, request.id, why)

    @contextmanager
    def _alone(self, request: protocol.RepairRequest) -> Iterator[None]:
        """Be the only command of its kind that runs: no repair waits for a hook; raises _Fault.

        A change of the master is of the kind of repairs.
        """
        status = load_json(request.diagnose).get("status", LIVE_REPAIR)
        if not self._running[status].acquire(blocking=False):
            what = "hook" if status == protocol.HOOK else "repair command"
            raise _Rejection(f"another {what} is running", guess=False)
        try:
            yield
        finally:
            self._running[status].release()

    def _run(
        self, address: str, request: protocol.RepairRequest, execute: Execute
    ) -> protocol.CommandEnd:
        _log.info("repair requested caller=%s command=%s", address, request.command)
        try:
            outcome = execute(request)
        except Forbidden as err:
            raise _Rejection(str(err), guess=True) from None
        _log.info(
            "repair ended command=%s status=%s fault=%s output=%s",
            request.command,
            outcome.status,
            quoted(outcome.fault),
            repr(outcome.output[:_LOGGED]),
        )
        return outcome


def _read(text: str, is_this_node: Callable[[str], bool]) -> tuple[protocol.RepairRequest, str]:
    """The request in the text of a signed message, and its purpose; raises BadRequest."""
    try:
        given = strict_json(text)
    except ValueError:
        given = None
    if isinstance(given, dict) and given.get("purpose") == protocol.MASTER_FAILOVER:
        purpose = protocol.MASTER_FAILOVER
        request = protocol.read_message(protocol.RepairRequest, text, purpose, is_this_node)
        if request.command != purpose:
            raise protocol.BadRequest(f"{quoted(request.command)} is not {purpose}")
        return request, purpose
    return protocol.read_request(text, is_this_node), protocol.REPAIR


def salt_of(raw: bytes) -> str:
    """The salt of what may be a signed message, found without reading it as JSON.

    It takes one look at each byte at most, and nothing at all is verified.  Raises BadMessage for
    what cannot be a signed message, which is all that `open_signed` refuses for its form, and more:
    lists, objects and members within it, and salts with escapes.
    """
    found = _FORM.fullmatch(raw)
    members = dict(zip(found.groups()[::2], found.groups()[1::2], strict=True)) if found else {}
    salt = members.get(b"salt", b"")
    if len(members) != 3 or len(salt) > _LONGEST_SALT or b"\\" in salt:
        raise BadMessage("it is not a signed message")
    return salt.decode(errors="replace")
