"""From a message to an outcome: the configured allocators, in order, until one succeeds."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ganeti_steward.core import guard
from ganeti_steward.core.answer import Answer, Outcome, Refusal
from ganeti_steward.core.context import Context
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.plugins import Plugins
from ganeti_steward.core.request import HOOKS, TYPE_NAMES
from ganeti_steward.core.results import is_result
from ganeti_steward.core.wire import read_message

if TYPE_CHECKING:
    from ganeti_steward.core.config import Config
    from ganeti_steward.core.model import Cluster
    from ganeti_steward.core.options import Options
    from ganeti_steward.core.request import Request

_log = logging.getLogger(__name__)


def answer_message(
    raw: bytes, options: Options, config: Config, *, explain: bool = False
) -> Outcome:
    """Answer one iallocator message; raises BadInput when it cannot be read."""
    cluster, request = read_message(raw)
    outcome = dispatch(request, cluster, config, options, explain=explain)
    if options.ignored:
        note = f"{outcome.info} (options ignored: {' '.join(options.ignored)})"
        return outcome._replace(info=note)
    return outcome


def dispatch(
    request: Request, cluster: Cluster, config: Config, options: Options, *, explain: bool
) -> Outcome:
    """Answer one request; whatever goes wrong with a plugin becomes a refusal naming it."""
    try:
        plugins = Plugins(config)
    except PluginError as err:
        return _failed(err)
    context = Context(options, plugins, explain)
    chain = config.chain(TYPE_NAMES[type(request)])
    refusals: list[tuple[str, Refusal]] = []
    for name in chain:
        try:
            outcome = _ask(plugins, name, request, cluster, context, config)
        except PluginError as err:
            outcome = _failed(err)
        if isinstance(outcome, Answer):
            return outcome
        if outcome is not None:
            refusals.append((name, outcome))
    if not refusals:
        return Refusal(f"no allocator takes this request (asked: {', '.join(chain)})")
    if len(refusals) == 1:
        return refusals[0][1]
    info = "; ".join(f"{name}: {refusal.info}" for name, refusal in refusals)
    return Refusal(info, refusals[-1][1].explanations)


def _failed(err: PluginError) -> Refusal:
    # The cause goes to the log with its traceback, the sentence to the user.
    _log.error("%s", err, exc_info=err.__cause__)
    return Refusal(str(err))


def _ask(
    plugins: Plugins,
    name: str,
    request: Request,
    cluster: Cluster,
    context: Context,
    config: Config,
) -> Outcome | None:
    implementation = plugins.allocator(name, HOOKS[TYPE_NAMES[type(request)]])
    outcome = plugins.call(
        implementation,
        config.allocators.time_limit,
        request=request,
        cluster=cluster,
        context=context,
    )
    if outcome is None:
        return None
    fault = _fault(outcome, request, cluster)
    if fault:
        raise PluginError(name, fault)
    answer: Outcome = outcome
    return answer


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
    from ganeti_steward.core.explanation import Explanation  # not on Ganeti's path

    return isinstance(told, tuple) and all(isinstance(one, Explanation) for one in told)
