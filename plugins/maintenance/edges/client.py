"""A client of the node agent: its report, and repair commands, with everything checked.

An answer is accepted only when it is signed for this very request, has the expected purpose,
and is about the node that was called.
"""

from __future__ import annotations

import errno
import http.client
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.ganeti.signing import is_nonce, sign, strict_json
from ganeti_steward.core.json_reader import printable, quoted
from ganeti_steward.core.node_agent import remembered
from ganeti_steward.core.node_agent.protocol import (
    MASTER_FAILOVER,
    NONCE_PATH,
    PORT,
    REPAIR,
    REPAIR_PATH,
    REPORT,
    REPORT_PATH,
    STATE_PATH,
    BadAnswer,
    CommandEnd,
    RepairRequest,
    message_text,
)
from ganeti_steward.plugins.maintenance.edges import answers

#: Seconds until the connection stands.
_CONNECT_LIMIT: Final = 10.0

#: A node that is gone while its repair command runs is noticed within two minutes, and so is one
#: that was restarted.
_KEEP_ALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6),
)

#: Bytes of an answer.
_LONGEST: Final = 2**24


class AgentRefused(StewardError):
    """The agent has refused, according to an answer that is not signed."""


class NotConnected(StewardError):
    """There was no connection: nothing was run."""


class MachineGone(NotConnected):
    """Not even the kernel of the machine has answered: no connection, and no refusal of one."""


class OutcomeUnknown(StewardError):
    """A repair command was requested, and it is unknown whether it was run."""


class AgentClient:
    """Calls to the agent of one node; raises StewardError naming it."""

    def __init__(
        self,
        address: str,
        names: Collection[str],
        key: KeyFile,
        *,
        port: int = PORT,
        time_limit: float = 30,
        longest: int = _LONGEST,
        random: Callable[[], str] = lambda: secrets.token_urlsafe(32),
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """``names``: the node's uuid and full name, either of which it may call itself.

        ``time_limit``: seconds for one call; ``longest``: bytes of an answer; ``random``: gives
        salts; ``clock``: ns since the epoch.
        """
        self._names, self._key = tuple(names), key
        self._address, self._port = address, port
        self._time_limit, self._longest = time_limit, longest
        self._random, self._clock = random, clock
        self.ahead: int | None = None
        """seconds by which the node's clock was ahead of this one's at its last answer, negative
        where it was behind; None: not known.  It is not signed: it serves for sentences only."""

    @property
    def where(self) -> str:
        """The place, for messages."""
        return f"the agent of {self._names[-1]} at {self._address} port {self._port}"

    def report(self, max_age: float) -> dict[str, Any]:
        """The node's report, not older than ``max_age`` seconds.

        Its ``data`` is None where nothing is known about the node; ``unknown`` has the reasons.
        Raises RejectedAnswer for an answer that is ignored, another StewardError where
        there is none.
        """
        salt = self._random()
        status, raw = self._call("GET", f"{REPORT_PATH}?salt={salt}", self._time_limit)
        if status != HTTPStatus.OK:
            raise self._error(f"no report (HTTP {status}: {_line(raw)})")
        try:
            report = answers.open_answer(self._key, raw, salt, REPORT)
            answers.check_report(report, self._names, self._clock(), max_age)
        except answers.RejectedAnswer as err:
            raise self._rejected(err.reason, str(err)) from None
        return report

    def repair(
        self,
        node: str,
        command: str,
        diagnose: bytes,
        time_limit: float,
        once: tuple[str, int],
    ) -> CommandEnd:
        """Have a repair command run; ``time_limit``: seconds until its outcome is given up.

        ``node`` is what the report calls the node, ``diagnose`` the object that requests the
        command, as canonical JSON.  ``once``: an id, which the agent never runs twice, and when it
        was given to this command (s since the epoch).  Raises AgentRefused, NotConnected
        or another StewardError where nothing was run, and OutcomeUnknown where that is unknown.
        """
        given = RepairRequest(node, command, diagnose, self._random(), *once)
        status, raw = self._requested(REPAIR, given, time_limit)
        if status == HTTPStatus.FORBIDDEN:
            raise self._refused()
        return self._ended(given, status, raw).outcome

    def take_over(
        self, node: str, wanted: bytes, time_limit: float, once: tuple[str, int]
    ) -> CommandEnd:
        """Have the node made the master, by ``gnt-cluster master-failover`` there.

        ``wanted``: an object with the name of the ``master`` that it takes the role from, as
        canonical JSON; ``once``, ``node`` and ``time_limit``: as of `repair`.  Raises AgentRefused
        only where the command is certainly not run: no request was sent, or the refusal is signed.
        """
        given = RepairRequest(node, MASTER_FAILOVER, wanted, self._random(), *once)
        status, raw = self._requested(MASTER_FAILOVER, given, time_limit)
        if status == HTTPStatus.FORBIDDEN:
            raise OutcomeUnknown(f"{self._refused()}; {_unknown(MASTER_FAILOVER)}")
        found = self._ended(given, status, raw)
        if not found.started:
            raise AgentRefused(f"{self.where}: {found.outcome.fault}")
        return found.outcome

    def _requested(
        self, purpose: str, given: RepairRequest, time_limit: float
    ) -> tuple[int, bytes]:
        """Status and body of the answer to a signed request."""
        nonce = self._nonce()
        request = sign(self._key.key(), message_text(purpose, given), nonce)
        try:
            return self._call("POST", REPAIR_PATH, time_limit, request)
        except NotConnected:
            raise
        except StewardError as err:
            raise OutcomeUnknown(f"{err}; {_unknown(given.command)}") from None

    def _ended(self, given: RepairRequest, status: int, raw: bytes) -> remembered.RepairState:
        """How a command has ended, by the signed answer; raises OutcomeUnknown."""
        command = given.command
        try:
            if status != HTTPStatus.OK:
                raise self._error(f"no answer to a repair (HTTP {status}: {_line(raw)})")
            found = remembered.read_state(
                answers.open_answer(self._key, raw, given.rsalt, remembered.STATE),
                given.node,
                given.id,
            )
            if (found.state, found.command) != (remembered.ENDED, command):
                raise BadAnswer(f"the command with its id is {found.state}")
            return found
        except (BadAnswer, answers.RejectedAnswer) as err:
            raise OutcomeUnknown(f"{self._error(str(err))}; {_unknown(command)}") from None
        except StewardError as err:
            raise OutcomeUnknown(f"{err}; {_unknown(command)}") from None

    def repair_state(self, node: str, id_: str, submitted: int) -> remembered.RepairState:
        """What became of a command that was requested with an id; a signed answer.

        ``submitted``: when the id was given to it, s since the epoch.  After this query the
        agent does not start a command with that id any more.  Raises AgentRefused, NotConnected or
        another StewardError where there is no answer.
        """
        nonce, rsalt = self._nonce(), self._random()
        question = remembered.CommandQuestion(node, id_, submitted, rsalt)
        text = message_text(remembered.QUESTION, question)
        request = sign(self._key.key(), text, nonce)
        status, raw = self._call("POST", STATE_PATH, self._time_limit, request)
        if status == HTTPStatus.FORBIDDEN:
            raise self._refused()
        if status != HTTPStatus.OK:
            raise self._error(f"no state of a repair (HTTP {status}: {_line(raw)})")
        try:
            return remembered.read_state(
                answers.open_answer(self._key, raw, rsalt, remembered.STATE), node, id_
            )
        except (BadAnswer, answers.RejectedAnswer) as err:
            raise self._error(str(err)) from None

    def _nonce(self) -> str:
        status, raw = self._call("POST", NONCE_PATH, self._time_limit)
        if status == HTTPStatus.FORBIDDEN:
            raise self._refused()
        try:
            nonce = strict_json(raw.decode())["nonce"]
        except (ValueError, TypeError, KeyError):
            nonce = None
        if status != HTTPStatus.OK or not (isinstance(nonce, str) and is_nonce(nonce)):
            raise self._error(f"no nonce (HTTP {status}: {_line(raw)})")
        return nonce

    def _call(self, method: str, path: str, limit: float, body: bytes = b"") -> tuple[int, bytes]:
        """Status and body of one answer, within ``limit`` seconds."""
        deadline = time.monotonic() + limit
        connection = http.client.HTTPConnection(
            self._address, self._port, min(limit, _CONNECT_LIMIT)
        )
        try:
            connection.connect()
        except OSError as err:
            connection.close()
            kind = MachineGone if _is_gone(err) else NotConnected
            raise kind(f"{self.where}: {reason_of(err)}") from None
        # A time limit of the socket would start again with each byte of the answer.
        connection.sock.settimeout(None)
        for level, option, value in _KEEP_ALIVE:
            connection.sock.setsockopt(level, option, value)
        late = threading.Event()
        overrun = threading.Timer(deadline - time.monotonic(), _hang_up, [connection.sock, late])
        try:
            overrun.start()
        except RuntimeError as err:
            # There are too many threads; nothing was sent.
            connection.close()
            raise NotConnected(f"{self.where}: {err}") from None
        try:
            connection.request(method, path, body, {"Connection": "close"})
            answer = connection.getresponse()
            raw = answer.read(self._longest + 1)
        except OSError as err:
            if not late.is_set():
                raise self._error(_broken(err)) from None
        except http.client.HTTPException as err:
            if not late.is_set():
                raise self._rejected(answers.FORM, f"no HTTP: {_broken(err)}") from None
        finally:
            overrun.cancel()
            connection.close()
        # Whatever was read after being hung up on is not the whole.
        if late.is_set():
            raise self._error(f"no answer within {limit:g} s")
        if len(raw) > self._longest:
            raise self._rejected(answers.SIZE, f"the answer has more than {self._longest} bytes")
        if answer.length:
            raise self._error("the answer is cut off")
        self.ahead = _ahead(answer.getheader("Date", ""), self._clock())
        return answer.status, raw

    def _refused(self) -> AgentRefused:
        return AgentRefused(f"{self.where}: refused; see the agent's log")

    def _rejected(self, reason: str, text: str) -> answers.RejectedAnswer:
        return answers.RejectedAnswer(reason, f"{self.where}: {text}")

    def _error(self, text: str) -> StewardError:
        return StewardError(f"{self.where}: {text}")


def _ahead(date: str, now: int) -> int | None:
    """How far the moment in a header is ahead of ``now`` (ns since the epoch), in whole seconds."""
    try:
        return int(parsedate_to_datetime(date).timestamp()) - now // 10**9
    except (ValueError, OverflowError):
        return None


def _is_gone(err: OSError) -> bool:
    """Whether nothing came back from it; where this network is down, nothing is known of it."""
    return isinstance(err, TimeoutError) or err.errno == errno.EHOSTUNREACH


def _hang_up(connection: socket.socket, late: threading.Event) -> None:
    """End the wait for the connection, and mark it as late."""
    late.set()
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _unknown(command: str) -> str:
    return f"whether {command} was run is not known"


def _broken(err: Exception) -> str:
    # Of an answer that is no HTTP the text is a part.
    text = reason_of(err)
    return f"the connection broke: {printable(text)[:200] or type(err).__name__}"


def _line(raw: bytes) -> str:
    """An answer in a sentence."""
    return quoted(" ".join(raw[:1000].decode(errors="replace").split()))
