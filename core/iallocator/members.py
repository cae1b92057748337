"""The members of a chain: calling one, checking its result, and where site plugins run.

With plugins that are not built in, all plugins run in a child process
(`ganeti_steward.core.hooks.isolation`).  Programs (``command:PATH``) are processes of their
own and started by this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from ganeti_steward.core import builtins
from ganeti_steward.core.errors import COMMAND_PREFIX, PluginError
from ganeti_steward.core.hooks.calls import PluginRules, call
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.iallocator.request_types import outcome_fault
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.requests import HOOKS, TYPE_NAMES, Balance
from ganeti_steward.core.model.site_rules import NoPlace
from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    from typing import Protocol

    from ganeti_steward.core.config.values import Config
    from ganeti_steward.core.hooks.isolation import Isolated
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.explanation import Explained
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

    with Isolated(partial(_Served, question), names) as child:
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
        request, cluster, _, options, explain, _ = self._question
        found: object
        if name.startswith(COMMAND_PREFIX):
            found = _program(name, self._question, limit)
        else:
            implementation = self._plugins.implementation(name, HOOKS[self._question.type_name])
            if fault := self._closed():
                return Refusal(fault)
            context = Context(options, self._rules, explain)
            found = call(implementation, limit, request=request, cluster=cluster, context=context)
        return _checked(name, self._question, found)

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
        child.ask(_Served.load)

    def outcome(self, name: str, limit: float) -> Outcome | None:
        if name.startswith(COMMAND_PREFIX):
            return _checked(name, self._question, _program(name, self._question, limit))
        given = self._child.ask(_Served.outcome, name, limit)
        if given is None:
            return None
        outcome = given.outcome
        if self._question.explain:
            explanations = self._child.ask(_Served.explanations, kind=_explained())
            outcome = outcome._replace(explanations=explanations)
        # The child has checked it; a plugin can send what it likes in the child's name.
        return _checked(name, self._question, outcome)

    def annotating(self) -> list[str]:
        return self._child.ask(_Served.annotating)

    def notes(self, name: str, outcome: Outcome) -> list[str]:
        return self._child.ask(_Served.notes, name, _given(outcome))


class _Given(NamedTuple):
    """An outcome without its explanations."""

    refused: bool
    info: str
    result: Any = None
    left_out: int = 0

    @property
    def outcome(self) -> Outcome:
        if self.refused:
            return Refusal(self.info, left_out=self.left_out)
        return Answer(self.result, self.info)


def _given(outcome: Outcome) -> _Given:
    if isinstance(outcome, Refusal):
        return _Given(True, outcome.info, left_out=outcome.left_out)
    return _Given(False, outcome.info, outcome.result)


def _explained() -> Any:
    from ganeti_steward.core.model.explanation import Explained  # not on Ganeti's path

    return tuple[Explained, ...]


class _Served:
    """The same members on the child's side."""

    def __init__(self, question: Question) -> None:
        self._members = _Here(question)
        self._explanations: tuple[Explained, ...] = ()

    def load(self) -> None:
        """Nothing more: the plugins are loaded."""

    def outcome(self, name: str, limit: float) -> _Given | None:
        """As `Members.outcome`; its explanations are kept."""
        outcome = self._members.outcome(name, limit)
        if outcome is None:
            return None
        self._explanations = outcome.explanations
        return _given(outcome._replace(info=outcome.info.encode().decode()))

    def explanations(self) -> Any:
        """Those of the last outcome, as JSON."""
        from ganeti_steward.core.hooks.child import leaving  # in the child only

        return leaving(_explained(), self._explanations)

    def annotating(self) -> list[str]:
        """As `Members.annotating`."""
        return self._members.annotating()

    def notes(self, name: str, outcome: _Given) -> list[str]:
        """As `Members.notes`."""
        return self._members.notes(name, outcome.outcome)


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
