"""From a message to an outcome: the configured allocators, in order, until one succeeds."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ganeti_steward.core import builtins
from ganeti_steward.core.config.values import CHAIN_LIMIT
from ganeti_steward.core.errors import COMMAND_PREFIX, PluginError
from ganeti_steward.core.hooks import timed_call as guard
from ganeti_steward.core.hooks.calls import PluginRules, call, log_failure
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.iallocator.results import is_result
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.requests import HOOKS, TYPE_NAMES, ChangeGroup, NodeEvacuate

if TYPE_CHECKING:
    from ganeti_steward.core.config.values import Config
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.options import Options
    from ganeti_steward.core.model.requests import Request

_log = logging.getLogger(__name__)


class Question(NamedTuple):
    """What the members of a chain are asked."""

    request: Request
    cluster: Cluster
    context: Context
    plugins: Plugins
    raw: bytes | None
    """the message as it came, which a program needs; None where there was none"""


def answer_message(
    raw: bytes, options: Options, config: Config, *, explain: bool = False
) -> Outcome:
    """Answer one iallocator message; raises BadInput when it cannot be read."""
    cluster, request = read_message(raw)
    outcome = dispatch(request, cluster, config, options, explain=explain, raw=raw)
    if options.ignored:
        note = f"{outcome.info} (options ignored: {' '.join(options.ignored)})"
        return outcome._replace(info=note)
    return outcome


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
    try:
        plugins = Plugins(config)
    except PluginError as err:
        outcome: Outcome = _failed(err)
    else:
        rules = PluginRules(plugins, config, request)
        context = Context(options, rules, explain)
        outcome = _ask_chain(Question(request, cluster, context, plugins, raw), config, started)
        outcome = _noted(outcome, rules.notes(cluster, outcome))
    return outcome._replace(info=f"{outcome.info} ({note})") if note else outcome


def _noted(outcome: Outcome, notes: Sequence[str]) -> Outcome:
    """The outcome with the notes of the plugins."""
    return outcome._replace(info=f"{outcome.info} ({'; '.join(notes)})") if notes else outcome


def _ask_chain(question: Question, config: Config, started: float) -> Outcome:
    chain = config.chain(TYPE_NAMES[type(question.request)])
    asked = _Asked(question)
    for at, name in enumerate(chain):
        left = started + CHAIN_LIMIT - time.monotonic()
        limit = fair_share(config.allocators.time_limit, left, len(chain) - at)
        outcome = asked.ask(name, limit)
        if isinstance(outcome, Answer) and not _left_behind(outcome, question.request):
            return outcome
        if outcome is not None and at + 1 < len(chain):
            _log.info("allocator=%s gave no full answer, the next is asked: %s", name, outcome.info)
    return asked.outcome(chain)


def fair_share(limit: float, left: float, members: int) -> float:
    """Seconds for the next of so many members; what one leaves, those after it have more."""
    return min(limit, max(left, 1.0) / members)


class _Asked:
    """What the members said who did not answer in full."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._partial: list[Answer] = []
        self._refusals: list[Refusal] = []
        self._reasons: list[str] = []

    def ask(self, name: str, limit: float) -> Outcome | None:
        """Ask one member and keep what it says."""
        outcome: Outcome | None
        try:
            outcome = ask_member(name, self._question, limit)
        except PluginError as err:
            outcome = _failed(err)
            self._reasons.append(outcome.info)
        else:
            if isinstance(outcome, Refusal):
                self._reasons.append(f"{name}: {outcome.info}")
        if isinstance(outcome, Answer):
            self._partial.append(outcome)
        elif outcome is not None:
            self._refusals.append(outcome)
        return outcome

    def outcome(self, chain: tuple[str, ...]) -> Outcome:
        """What all of them come to."""
        if self._partial:
            request = self._question.request
            return min(self._partial, key=lambda answer: _left_behind(answer, request))
        if not self._refusals:
            return Refusal(f"no allocator takes this request (asked: {', '.join(chain)})")
        if len(self._refusals) == 1:
            return self._refusals[0]
        return Refusal("; ".join(self._reasons), self._refusals[-1].explanations)


def _left_behind(answer: Answer, request: Request) -> int:
    """How many instances an answer fails to move: with any, Ganeti moves none (allocation 10)."""
    if not isinstance(request, NodeEvacuate | ChangeGroup):
        return 0
    moves: Any = answer.result
    return len(moves[1])


def _failed(err: PluginError) -> Refusal:
    # The cause goes to the log with its traceback, the sentence to the user.
    log_failure(err)
    return Refusal(str(err))


def ask_member(name: str, question: Question, limit: float) -> Outcome | None:
    """What one allocator says, checked; raises PluginError.  ``limit`` is in seconds."""
    request, cluster, context, plugins, raw = question
    outcome: Outcome | None
    if name.startswith(COMMAND_PREFIX):
        external = builtins.module(builtins.EXTERNAL_PROGRAM)
        outcome = external.ask_program(name, raw, context.options, request, limit)
    else:
        implementation = plugins.implementation(name, HOOKS[TYPE_NAMES[type(request)]])
        arguments = {"request": request, "cluster": cluster, "context": context}
        outcome = call(implementation, limit, **arguments)
    if outcome is None:
        return None
    fault = _fault(outcome, request, cluster)
    if fault:
        raise PluginError(name, fault)
    return outcome


def _fault(outcome: object, request: Request, cluster: Cluster) -> str:
    """What is wrong with what an allocator gave; Ganeti would stumble over it."""
    if not isinstance(outcome, Answer | Refusal):
        return f"gave {type(outcome).__name__}, not an answer or a refusal"
    try:
        outcome.info.encode()
    except (AttributeError, UnicodeEncodeError):
        return f"gave the info {guard.shown(outcome.info)}, which is no text"
    told: object = outcome.explanations
    if told != () and not _are_explanations(told):
        return f"gave the explanations {guard.shown(told)}"
    if isinstance(outcome, Refusal) or is_result(outcome.result, request, cluster):
        return ""
    shown = guard.shown(outcome.result)
    return f"gave {shown}, which is no answer to this request on this cluster"


def _are_explanations(told: object) -> bool:
    from ganeti_steward.core.model.explanation import Told  # not on Ganeti's path

    return isinstance(told, tuple) and all(isinstance(one, Told) for one in told)
