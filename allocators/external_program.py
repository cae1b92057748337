"""External programs as members of a chain, run the way Ganeti runs an allocator.

A member ``command:/usr/lib/ganeti/iallocators/hail`` is called with a file (mode 0600) that
holds the message as it came, then the options written behind its path in the
configuration, then those of the call that this program knows, which are hail's.  Others are
not passed on: hail ends with status 2 on an option it does not know.
"""

from __future__ import annotations

import shlex
import tempfile
from typing import Any, Final

import orjson

from ganeti_steward.core.errors import COMMAND_PREFIX, PluginError
from ganeti_steward.core.json_reader import describe, printable, quoted
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal
from ganeti_steward.core.model.options import Options, written
from ganeti_steward.core.model.requests import MultiAllocate, Request
from ganeti_steward.core.process.following import Ended
from ganeti_steward.core.process.program import run_supervised
from ganeti_steward.core.process.trusted_program import Forbidden, opened_program, program_fault

#: What write_answer puts before every info, and hail too.
_GOOD, _BAD = "Request successful: ", "Request failed: "

#: Characters of a program's standard error that are shown.
_SHOWN: Final = 200


def check_command(name: str) -> None:
    """Check the program of a member and its own options; raises PluginError."""
    fault = program_fault(_words(name)[0])
    if fault:
        raise PluginError(name, fault)


def _words(name: str) -> list[str]:
    try:
        words = shlex.split(name.removeprefix(COMMAND_PREFIX))
    except ValueError as err:
        raise PluginError(name, f"cannot be read: {err}") from None
    if not words:
        raise PluginError(name, "names no program")
    return words


def call_program(
    name: str, raw: bytes | None, options: Options, request: Request, limit: float
) -> Outcome:
    """Call a member; ``raw`` is the message, ``limit`` in seconds.  Raises PluginError.

    The result is not checked against the cluster.
    """
    path, *own = _words(name)
    if raw is None:
        raise PluginError(name, "needs a message from Ganeti, and here is none")
    try:
        with tempfile.NamedTemporaryFile(prefix="steward-iallocator.") as file:
            file.write(raw)
            file.flush()
            command = [path, file.name, *own, *written(options)]
            with opened_program(path) as program:
                ended = run_supervised(command, limit, executable=program)
    except Forbidden as err:
        raise PluginError(name, str(err)) from None
    except OSError as err:
        raise PluginError(name, f"cannot be run: {err.strerror}") from None
    fault = ended.fault or _status_fault(ended)
    if fault:
        raise PluginError(name, fault)
    return _outcome(name, ended, request)


def _status_fault(ended: Ended) -> str:
    if not ended.status:
        return ""
    ending = f"exit status {ended.status}" if ended.status > 0 else f"signal {-ended.status}"
    lines = ended.errors.decode(errors="replace").split("\n")
    first = next((line.strip() for line in lines if line.strip()), "no message")
    return f"ended with {ending}: {_shown(first)}"


def _shown(text: str) -> str:
    """A line on one line, whatever is in it."""
    text = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    return printable(text)


def _outcome(name: str, ended: Ended, request: Request) -> Outcome:
    """A program's answer, read as Ganeti would read it; raises PluginError."""
    try:
        answer: Any = orjson.loads(ended.output)
    except orjson.JSONDecodeError as err:
        if not ended.output.strip():
            raise PluginError(name, "gave no answer") from None
        begun = quoted(ended.output[:80].decode(errors="replace"))
        raise PluginError(name, f"gave {begun}, which is not JSON: {err}") from None
    if not isinstance(answer, dict):
        raise PluginError(name, f"gave {describe(answer)}, not an object")
    answer.setdefault("result", answer.get("nodes"))
    lacking = [key for key in ("success", "info", "result") if key not in answer]
    if lacking or (answer["result"] is None and answer["success"]):
        raise PluginError(name, f"gave an answer without {(lacking or ['result'])[0]!r}")
    info = str(answer["info"])
    if not answer["success"]:
        return Refusal(info.removeprefix(_BAD))
    result = answer["result"]
    if isinstance(request, MultiAllocate):
        result, more = _plain_names(result)
        info += more
    return Answer(result, info.removeprefix(_GOOD))


def _plain_names(result: Any) -> tuple[Any, str]:
    """A batch with the failed ones as plain names, as Ganeti wants them, and their reasons.

    hail gives pairs of name and reason.
    """
    try:
        placed, failed = result
        pairs = [pair for pair in failed if isinstance(pair, list)]
        names = [item[0] if isinstance(item, list) else item for item in failed]
        reasons = "".join(f"; {name}: {reason}" for name, reason in pairs)
    except (TypeError, ValueError, IndexError):
        # Whatever that is, the check of results refuses it.
        return result, ""
    return [placed, names], reasons
