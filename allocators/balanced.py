"""The default allocator ``balanced``: hail's rules, hail's score, better searches.

The engine of a request type is the module of its name in the folder of its family; it holds a
function of the same name.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.requests import KINDS

if TYPE_CHECKING:
    from ganeti_steward.core.model.answer import Outcome
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.requests import Kind


def _answering(kind: Kind) -> Callable[..., Outcome]:
    """The implementation of a request type's hook; the engine is imported when it is called."""
    name = kind.hook.removeprefix("steward_")

    def implementation(request: Any, cluster: Cluster, context: Context) -> Outcome:
        engine = import_module(f"ganeti_steward.allocators.{kind.family}.{name}")
        outcome: Outcome = getattr(engine, name)(request, cluster, context)
        return outcome

    implementation.__name__ = kind.hook
    return hookimpl(implementation)


globals().update({kind.hook: _answering(kind) for kind in KINDS})
