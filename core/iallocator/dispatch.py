"""From a message to an outcome: the configured allocators, in order, until one succeeds."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from ganeti_steward.core import builtins
from ganeti_steward.core.config.values import CHAIN_LIMIT
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.hooks.calls import log_failure
from ganeti_steward.core.iallocator.members import Question, opened
from ganeti_steward.core.iallocator.message import read_parsed
from ganeti_steward.core.iallocator.request_types import TYPES
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal
from ganeti_steward.core.model.cluster_reader import parse
from ganeti_steward.core.model.requests import MultiAllocate
from ganeti_steward.core.needed import ROOM_PREFIXES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ganeti_steward.core.config.values import Config
    from ganeti_steward.core.iallocator.members import Members
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.options import Options
    from ganeti_steward.core.model.requests import Request

_log = logging.getLogger(__name__)

#: The refusal where the configuration has an empty chain for a request type.
_NO_ALLOCATOR: Final = (
    "the configuration names no allocator for requests of type {}: name one in its section "
    "[allocators], or call Ganeti's command with nodes or with another iallocator"
)


def answer_message(
    raw: bytes, options: Options, config: Config, *, explain: bool = False
) -> Outcome:
    """Answer one iallocator message; raises BadInput when it cannot be read."""
    return answer_parsed(parse(raw), raw, options, config, explain=explain)


def answer_parsed(
    message: Mapping[str, Any], raw: bytes, options: Options, config: Config, *, explain: bool
) -> Outcome:
    """Answer a message that was parsed from ``raw``; raises BadInput when it cannot be read."""
    cluster, request = read_parsed(message)
    outcome = dispatch(request, cluster, config, options, explain=explain, raw=raw)
    notes = [note for note in message.get("notes") or () if isinstance(note, str)]
    if options.ignored:
        notes.append(f"options ignored: {' '.join(options.ignored)}")
    return outcome._replace(info=outcome.info + "".join(f" ({note})" for note in notes))


def dispatch(
    request: Request,
    cluster: Cluster,
    config: Config,
    options: Options,
    *,
    explain: bool,
    raw: bytes | None = None,
) -> Outcome:
    """Answer one request; whatever goes wrong with a plugin becomes a refusal naming it."""
    started = time.monotonic()
    note = ""
    if options.measured:
        measured_load = builtins.module(builtins.MEASURED_LOAD)
        cluster, note = measured_load.measured(cluster, options)
    cluster, notes = reserved(cluster, config)
    question = Question(request, cluster, config, options, explain, raw)
    if not config.chain(question.type_name):
        return Refusal(_NO_ALLOCATOR.format(question.type_name))
    try:
        with opened(question) as members:
            outcome = _noted(_whole(_ask_chain(question, members, started), question), members)
    except PluginError as err:
        outcome = _failed(err)
    notes = (*([note] if note else []), *notes)
    return outcome._replace(info=outcome.info + "".join(f" ({one})" for one in notes))


def reserved(cluster: Cluster, config: Config) -> tuple[Cluster, tuple[str, ...]]:
    """The cluster with configured reserves, and notes on its tags; most have neither."""
    section = config.sections.get("reserve")
    if section is None and not cluster.is_tagged(ROOM_PREFIXES):
        return cluster, ()
    found: tuple[Cluster, tuple[str, ...]]
    found = builtins.module(builtins.RESERVES).reserved(cluster, section)
    return found


def _whole(outcome: Outcome, question: Question) -> Outcome:
    """A refusal instead of a batch that is placed in part, unless that is allowed.

    Ganeti would report that all instances were created (allocation 9.4).
    """
    if not isinstance(question.request, MultiAllocate) or isinstance(outcome, Refusal):
        return outcome
    allowed = question.options.partial_batches
    if allowed is None:
        allowed = question.config.allocators.partial_batches
    result: Any = outcome.result
    placed, failed = map(len, result)
    if allowed or not failed:
        return outcome
    begin = f"{failed} instances failed to allocate and {placed} were allocated successfully"
    reasons = outcome.info.removeprefix(begin).removeprefix("; ")
    text = (
        f"{failed} of {placed + failed} instances {'has' if failed == 1 else 'have'} no place, so "
        "none is placed (--partial-batches places the others)"
    )
    return Refusal(f"{text}; {reasons}", outcome.explanations, failed)


def left_out(outcome: Outcome, type_name: str) -> int:
    """How many instances have no place although the others have one.

    With any, Ganeti moves none (allocation 10).  ``type_name``: of the request, on the wire.
    """
    if isinstance(outcome, Refusal):
        return outcome.left_out
    result: Any = outcome.result
    return len(result[1]) if TYPES[type_name].leaves_out else 0


def _noted(outcome: Outcome, members: Members) -> Outcome:
    """The outcome with the notes of the plugins; a failure of one costs only its own."""
    notes: list[str] = []
    try:
        names = members.annotating()
    except PluginError as err:
        log_failure(err)
        return outcome
    for name in names:
        try:
            notes += members.notes(name, outcome)
        except PluginError as err:
            log_failure(err)
    return outcome._replace(info=f"{outcome.info} ({'; '.join(notes)})") if notes else outcome


def _ask_chain(question: Question, members: Members, started: float) -> Outcome:
    """The first full answer; else the best of those in part, or all refusals in one."""
    chain = question.config.chain(question.type_name)
    partial: list[Answer] = []
    refusals: list[Refusal] = []
    reasons: list[str] = []
    outcome: Outcome | None
    for at, name in enumerate(chain):
        left = started + CHAIN_LIMIT - time.monotonic()
        limit = fair_share(question.config.allocators.time_limit, left, len(chain) - at)
        try:
            outcome, owner = members.outcome(name, limit), f"{name}: "
        except PluginError as err:
            outcome, owner = _failed(err), ""
        if isinstance(outcome, Answer):
            if not left_out(outcome, question.type_name):
                return outcome
            partial.append(outcome)
        elif outcome is not None:
            refusals.append(outcome)
            reasons.append(f"{owner}{outcome.info}")
        if outcome is not None and at + 1 < len(chain):
            _log.info(
                "allocator=%s gave no full answer, the next one is called: %s", name, outcome.info
            )
    if partial:
        return min(partial, key=lambda answer: left_out(answer, question.type_name))
    if not refusals:
        return Refusal(f"no allocator takes this request (called: {', '.join(chain)})")
    if len(refusals) == 1:
        return refusals[0]
    # Where the fault is a plugin's that all of them need, it has been found several times.
    return Refusal("; ".join(dict.fromkeys(reasons)), refusals[-1].explanations)


def fair_share(limit: float, left: float, members: int) -> float:
    """Seconds for the next of so many members; what one leaves, those after it have more."""
    return min(limit, max(left, 1.0) / members)


def _failed(err: PluginError) -> Refusal:
    # The cause goes to the log with its traceback, the sentence to the user.
    log_failure(err)
    return Refusal(str(err))
