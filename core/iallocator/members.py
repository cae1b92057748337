"""The members of a chain: calling one, checking its result, and where site plugins run.

With plugins that are not built in, all plugins run in a child process
(`ganeti_steward.core.hooks.isolation`).  Programs (``command:PATH``) are processes of their
own and started by this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import orjson

from ganeti_steward.core import builtins
from ganeti_steward.core.errors import COMMAND_PREFIX, PluginError
from ganeti_steward.core.hooks.calls import PluginRules, call
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.iallocator.results import outcome_fault
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.requests import HOOKS, TYPE_NAMES, Balance
from ganeti_steward.core.model.site_rules import NoPlace

if TYPE_CHECKING:
    from typing import Protocol

    from ganeti_steward.core.config.values import Config
    from ganeti_steward.core.hooks.isolation import Isolated
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.options import Options
    from ganeti_steward.core.model.requests import Request

    class Members(Protocol):
        """What the members of a chain, and the rules beside them, return."""

        def outcome(self, name: str, limit: float) -> Outcome | None:
            """The outcome of one allocator, checked; ``limit`` in seconds.  Raises PluginError."""

        def annotating(self) -> list[str]:
            """The plugins that may have notes on an outcome; raises PluginError."""

        def notes(self, name: str, outcome: Outcome) -> list[str]:
            """One plugin's sentences to add to an outcome; raises PluginError."""


class Question(NamedTuple):
    """What the members of a chain have to answer."""

    request: Request
    cluster: Cluster
    config: Config
    options: Options
    explain: bool = False
    raw: bytes | None = None
    """the message as it came, which a program needs; None where there was none"""

    @property
    def type_name(self) -> str:
        """The request's type as it is on the wire."""
        return TYPE_NAMES[type(self.request)]


@contextmanager
def opened(question: Question) -> Iterator[Members]:
    """The members for one question, their plugins loaded; raises PluginError."""
    names = question.config.plugins.load
    if all(map(builtins.built_in, names)):
        yield _Here(question)
        return
    from ganeti_steward.core.hooks.isolation import Isolated  # not on the path without plugins

    with Isolated(partial(_serve, question), names) as child:
        yield _InChild(question, child)


class _Here:
    """Members in this process."""

    def __init__(self, question: Question) -> None:
        self._question = question
        if any(map(builtins.built_in, question.config.chain(question.type_name))):
            # Python 3.11 keeps its frames in pieces of 16 KiB.  Deep in the calls below, the many
            # small calls of this import would get and give back a piece each: 10 % of the time.
            builtins.module(builtins.ENGINE_LIBRARY)
        self._plugins = Plugins(question.config)
        self._rules = PluginRules(self._plugins, question.config, question.request)

    def outcome(self, name: str, limit: float) -> Outcome | None:
        return _checked(name, self._question, self._outcome(name, limit))

    def _outcome(self, name: str, limit: float) -> object:
        request, cluster, _, options, explain, _ = self._question
        if name.startswith(COMMAND_PREFIX):
            return _program(name, self._question, limit)
        implementation = self._plugins.implementation(name, HOOKS[self._question.type_name])
        if fault := self._closed():
            return Refusal(fault)
        context = Context(options, self._rules, explain)
        return call(implementation, limit, request=request, cluster=cluster, context=context)

    def _closed(self) -> str:
        """Why site rules let no instance of the cluster move, where moves are wanted."""
        request, cluster = self._question.request, self._question.cluster
        if not isinstance(request, Balance) or request.max_moves == 0 or not cluster.instances:
            return ""
        bans = self._rules.bans(cluster, cluster.instances[0])
        faults = [ban.reason for ban in bans if isinstance(ban, NoPlace) and ban.everything]
        return "; ".join(faults)

    def annotating(self) -> list[str]:
        return self._rules.annotating(self._question.cluster)

    def notes(self, name: str, outcome: Outcome) -> list[str]:
        return self._rules.notes(name, self._question.cluster, outcome)


class _InChild:
    """Members in a child process."""

    def __init__(self, question: Question, child: Isolated) -> None:
        self._question, self._child = question, child
        child.ask("load")

    def outcome(self, name: str, limit: float) -> Outcome | None:
        if name.startswith(COMMAND_PREFIX):
            return _checked(name, self._question, _program(name, self._question, limit))
        outcome: Outcome | None = self._child.ask("outcome", name, limit)
        return outcome

    def annotating(self) -> list[str]:
        found: list[str] = self._child.ask("annotating")
        return found

    def notes(self, name: str, outcome: Outcome) -> list[str]:
        found: list[str] = self._child.ask("notes", name, outcome._replace(explanations=()))
        return found


class _Served:
    """The same members on the child's side; what it returns is made of plain values."""

    def __init__(self, question: Question) -> None:
        self._members = _Here(question)

    def __call__(self, what: str, *arguments: object) -> object:
        function = getattr(self, what)
        return function(*arguments)

    def load(self) -> None:
        """Nothing more: the plugins are loaded."""

    def outcome(self, name: str, limit: float) -> Outcome | None:
        """As `Members.outcome`."""
        outcome = self._members.outcome(name, limit)
        if outcome is None:
            return None
        outcome = outcome._replace(info=outcome.info.encode().decode())
        if isinstance(outcome, Refusal):
            return outcome
        try:
            return outcome._replace(result=orjson.loads(orjson.dumps(outcome.result)))
        except (orjson.JSONEncodeError, orjson.JSONDecodeError) as err:
            return Refusal(f"the allocator's result cannot be written: {err}")

    def annotating(self) -> list[str]:
        """As `Members.annotating`."""
        return self._members.annotating()

    def notes(self, name: str, outcome: Outcome) -> list[str]:
        """As `Members.notes`."""
        return self._members.notes(name, outcome)


def _serve(question: Question) -> _Served:
    return _Served(question)


def _program(name: str, question: Question, limit: float) -> Outcome:
    external = builtins.module(builtins.EXTERNAL_PROGRAM)
    outcome: Outcome = external.call_program(
        name, question.raw, question.options, question.request, limit
    )
    return outcome


def _checked(name: str, question: Question, outcome: object) -> Outcome | None:
    if outcome is None:
        return None
    fault = outcome_fault(outcome, question.request, question.cluster)
    if fault or not isinstance(outcome, Answer | Refusal):
        raise PluginError(name, fault)
    return outcome
