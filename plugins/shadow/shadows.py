"""Shadows: further allocators whose answers are only compared with the given one, and logged.

Ganeti waits for the allocator's process to end.  So the shadows run in a process of their
own, which is started when the answer has been written.  It has a session of its own and a low
priority, and of the allocator's descriptors it keeps the log only.  Only one such process runs at
a time on a machine; a request that arrives meanwhile is not compared.  A comparison is one line
of the log:

    compared=NAME request=TYPE name=INSTANCE same=no answered=a/b shadow=c/d score=1.5/1.7 ms=N
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson

from ganeti_steward.core.config.load import config_path
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.iallocator.members import Question, opened
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.iallocator.request_types import type_of
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal
from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.requests import TYPE_NAMES, Allocate, Relocate, Request
from ganeti_steward.core.process import forked
from ganeti_steward.plugins.shadow.config import Shadow

if TYPE_CHECKING:
    from ganeti_steward.core.iallocator.members import Members
    from ganeti_steward.core.iallocator.request_types import Placed
    from ganeti_steward.core.model.cluster import Cluster

_log = logging.getLogger(__name__)

#: How many instances of a request are named.
_NAMED: Final = 3


def start(config: Config, raw: bytes, options: Options, answer: bytes) -> None:
    """Have an answer compared by a process of its own; returns at once.

    ``answer`` is what Ganeti was given for the message ``raw``.
    """
    if not config.section(Shadow).chains or not _log.isEnabledFor(logging.INFO):
        return
    try:
        forked.fork(partial(_compare_apart, config, raw, options, answer))
    except OSError as err:
        _log.warning("the shadows cannot be called: %s", err.strerror)


def _compare_apart(config: Config, raw: bytes, options: Options, answer: bytes) -> None:
    """Have only the log in common with the parent: no pipe of Ganeti's may stay open."""
    try:
        forked.detach((), os.open(os.devnull, os.O_RDWR))
        forked.reset_signals()
        os.chdir("/")
        os.nice(19)
        _compare_alone(config, raw, options, answer)
    except Exception:
        _log.exception("the shadows cannot be called")


def _compare_alone(config: Config, raw: bytes, options: Options, answer: bytes) -> None:
    """Log the comparisons, unless another process is making some."""
    cluster, request = read_message(raw)
    if not config.shadows(TYPE_NAMES[type(request)]):
        return
    with open(config_path(), "rb") as lock:
        try:
            # Only where there is a configuration there are shadows, so the file exists.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _log.info("shadows are not called, they are busy: name=%s", names(request))
            return
        for line in compare(Question(request, cluster, config, options, raw=raw), answer):
            _log.info("%s", line)


def compare(question: Question, answer: bytes) -> Iterator[str]:
    """Compare each shadow of a request: one line for each; raises StewardError.

    ``answer`` is what was answered to the message.
    """
    config, options = question.config, question.options
    if options.measured:
        from ganeti_steward.allocators.loads.measured_load import measured

        cluster, _ = measured(question.cluster, options)
        question = question._replace(cluster=cluster)
    answered = _read_answer(answer)
    with opened(question) as members:
        for name in config.shadows(question.type_name):
            yield _compared(name, question, members, answered)


def _compared(name: str, question: Question, members: Members, answered: Outcome) -> str:
    """One line on one shadow."""
    request, cluster = question.request, question.cluster
    started = time.monotonic()
    shadow: Outcome | None = None
    try:
        shadow = members.outcome(name, question.config.section(Shadow).time_limit)
        summary, info = short(shadow, request, cluster), shadow.info if shadow else "-"
    except PluginError as err:
        summary, info = "failed", str(err)
    milliseconds = int((time.monotonic() - started) * 1000)
    scores = _score(answered, question), _score(shadow, question)
    other = "tie" if scores[0] == scores[1] != "-" else "no"
    fields = {
        "compared": word(name),
        "request": TYPE_NAMES[type(request)],
        "name": names(request),
        "same": "yes" if same(answered, shadow, request, cluster) else other,
        "answered": short(answered, request, cluster),
        "shadow": summary,
        "score": "/".join(scores),
        "ms": milliseconds,
    }
    line = " ".join(f"{key}={value}" for key, value in fields.items())
    return line if isinstance(shadow, Answer) else f"{line} info={' '.join(info.split())}"


def _read_answer(raw: bytes) -> Outcome:
    """The answer that Ganeti got."""
    answer: dict[str, Any] = orjson.loads(raw)
    if answer["success"]:
        return Answer(answer["result"], answer["info"])
    return Refusal(answer["info"])


def _score(outcome: Outcome | None, question: Question) -> str:
    """The cluster's score after an answer; ``-`` where it places no instance."""
    request, cluster = question.request, question.cluster
    placed = places(outcome, request, cluster) if isinstance(outcome, Answer) else []
    if not placed:
        return "-"
    known = isinstance(request, Allocate | Relocate)
    template = placed[0][0].template if known else None
    from ganeti_steward.allocators.score.cluster_score import score_after  # imports numpy

    kvm_memory = question.options.kvm_memory
    return f"{score_after(cluster, placed, template, kvm_memory):.8f}"


def places(answer: Answer, request: Request, cluster: Cluster) -> list[Placed]:
    """The instances where an answer puts them; its result has been checked."""
    placed = type_of(request).placed
    return placed(answer.result, request, cluster) if placed else []


def names(request: Request) -> str:
    """The instances a request is about, in one word."""
    found = type_of(request).instances(request)
    more = [f"+{len(found) - _NAMED}"] if len(found) > _NAMED else []
    return ",".join([*map(word, found[:_NAMED]), *more]) or "-"


def word(text: str) -> str:
    """A name that cannot be mistaken for more than one field of a line."""
    return text if text.isprintable() and text and " " not in text else quoted(text)


def short(outcome: Outcome | None, request: Request, cluster: Cluster) -> str:
    """An outcome in one word: ``node1/node2``, ``placed:5,failed:1``, ``refused``."""
    if outcome is None:
        return "not-mine"
    if not isinstance(outcome, Answer):
        return "refused"
    summary = type_of(request).summary
    if summary:
        return summary(outcome.result)
    ((_, nodes),) = places(outcome, request, cluster)
    return "/".join(map(word, nodes))


def same(answered: Outcome, shadow: Outcome | None, request: Request, cluster: Cluster) -> bool:
    """Whether both put the same instances on the same nodes, or both refuse."""
    if not (isinstance(answered, Answer) and isinstance(shadow, Answer)):
        return shadow is not None and type(answered) is type(shadow)
    if type_of(request).placed is None:
        return short(answered, request, cluster) == short(shadow, request, cluster)
    first, second = (
        sorted((instance.name, nodes) for instance, nodes in places(answer, request, cluster))
        for answer in (answered, shadow)
    )
    return first == second
