"""Shadows: further allocators whose answers are only compared with the given one, and logged.

Ganeti waits for the allocator's process to end.  So the shadows run in a process of their
own, which is started when the answer has been written, shares no descriptor and no session
with it, and has a low priority.  Only one such process runs at a time on a machine; a
request that arrives meanwhile is not compared.  A comparison is one line of the log:

    shadow=NAME request=TYPE name=INSTANCE same=no ours=a/b theirs=c/d score=OURS/THEIRS ms=N
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson

from ganeti_steward.core import log
from ganeti_steward.core.config.load import config_path
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.iallocator.members import Question, opened
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal
from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.requests import Allocate, Relocate
from ganeti_steward.plugins.shadow.comparison import (
    names,
    places,
    request_type,
    same,
    short,
    word,
)
from ganeti_steward.plugins.shadow.config import Shadow

if TYPE_CHECKING:
    from ganeti_steward.core.iallocator.members import Members

_log = logging.getLogger(__name__)


def start(config: Config, raw: bytes, options: Options, answer: bytes) -> None:
    """Have an answer compared by a process of its own; returns at once.

    ``answer`` is what Ganeti was given for the message ``raw``.
    """
    if not config.section(Shadow).chains or not _log.isEnabledFor(logging.INFO):
        return
    try:
        if os.fork():
            return
    except OSError as err:
        _log.warning("the shadows cannot be called: %s", err.strerror)
        return
    try:
        _detach(config)
        _compare_alone(config, raw, options, answer)
    except Exception:
        _log.exception("the shadows cannot be called")
    finally:
        # Nothing of what the parent would do at its end.
        os._exit(0)


def _detach(config: Config) -> None:
    """Have nothing in common with the parent: no pipe of Ganeti's may stay open."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        # Not closed: code that still holds a descriptor must not write to a newer file.
        with suppress(OSError):
            os.dup2(nowhere, int(name))
    os.setsid()
    os.chdir("/")
    os.nice(19)
    log.set_up(config.log.file, config.log.level)


def _compare_alone(config: Config, raw: bytes, options: Options, answer: bytes) -> None:
    """Log the comparisons, unless another process is making some."""
    cluster, request = read_message(raw)
    if not config.shadows(request_type(request)):
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
        from ganeti_steward.allocators.state.measured_load import measured

        cluster, _ = measured(question.cluster, options)
        question = question._replace(cluster=cluster)
    ours = _read_answer(answer)
    with opened(question) as members:
        for name in config.shadows(request_type(question.request)):
            yield _compared(name, question, members, ours)


def _compared(name: str, question: Question, members: Members, ours: Outcome) -> str:
    """One line on one shadow."""
    request, cluster = question.request, question.cluster
    started = time.monotonic()
    theirs: Outcome | None = None
    try:
        theirs = members.outcome(name, question.config.section(Shadow).time_limit)
        summary, info = short(theirs, request, cluster), theirs.info if theirs else "-"
    except PluginError as err:
        summary, info = "failed", str(err)
    milliseconds = int((time.monotonic() - started) * 1000)
    fields = {
        "shadow": word(name),
        "request": request_type(request),
        "name": names(request),
        "same": "yes" if same(ours, theirs, request, cluster) else "no",
        "ours": short(ours, request, cluster),
        "theirs": summary,
        "score": f"{_score(ours, question)}/{_score(theirs, question)}",
        "ms": milliseconds,
    }
    line = " ".join(f"{key}={value}" for key, value in fields.items())
    return line if isinstance(theirs, Answer) else f"{line} info={' '.join(info.split())}"


def _read_answer(raw: bytes) -> Outcome:
    """Our own answer, as Ganeti got it."""
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
    template = placed[0].instance.template if known else None
    from ganeti_steward.allocators.score.cluster_score import score_after  # imports numpy

    kvm_memory = question.options.kvm_memory
    return f"{score_after(cluster, placed, template, kvm_memory):.8f}"
