"""What an allocator is given besides the request and the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from ganeti_steward.core.options import Options
from ganeti_steward.core.site import NoSite, Site


@dataclass(frozen=True, slots=True)
class Context:
    """Options of the call, the site's own rules, and whether somebody wants to know why."""

    options: Options = field(default_factory=Options)
    site: Site = field(default_factory=NoSite)
    explain: bool = False
    """fill in `Answer.explanations` and `Refusal.explanations`"""
