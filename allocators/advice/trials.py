"""The answers of the configured allocators to many changed requests and clusters.

The plugins are loaded once, in this process.  Programs (``command:PATH``) are not called: they
need a message of Ganeti.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ganeti_steward.core.errors import COMMAND_PREFIX, PluginError
from ganeti_steward.core.hooks.calls import PluginRules, call
from ganeti_steward.core.hooks.manager import Plugins
from ganeti_steward.core.iallocator.results import outcome_fault
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal
from ganeti_steward.core.model.requests import HOOKS, TYPE_NAMES

if TYPE_CHECKING:
    from ganeti_steward.core.config.values import Config
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.requests import Request
    from ganeti_steward.core.model.site_rules import SiteRules


class Trials:
    """The configured allocators and site rules."""

    def __init__(self, config: Config) -> None:
        """Load the plugins; raises PluginError."""
        self._config: Final = config
        self._plugins: Final = Plugins(config)

    def members(self, request: Request) -> tuple[str, ...]:
        """The allocators that answer; empty where only programs are configured."""
        chain = self._config.chain(TYPE_NAMES[type(request)])
        return tuple(name for name in chain if not name.startswith(COMMAND_PREFIX))

    def rules(self, request: Request) -> SiteRules:
        """The site rules for a request."""
        return PluginRules(self._plugins, self._config, request)

    def outcome(self, request: Request, cluster: Cluster, context: Context) -> Outcome:
        """The first full answer, else the last outcome; raises PluginError."""
        last: Outcome = Refusal("no allocator takes this request")
        for name in self.members(request):
            hook = HOOKS[TYPE_NAMES[type(request)]]
            implementation = self._plugins.implementation(name, hook)
            limit = self._config.allocators.time_limit
            found = call(implementation, limit, request=request, cluster=cluster, context=context)
            if found is None:
                continue
            fault = outcome_fault(found, request, cluster)
            if fault or not isinstance(found, Answer | Refusal):
                raise PluginError(name, fault)
            if isinstance(found, Answer):
                return found
            last = found
        return last
