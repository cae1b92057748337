"""What an allocator is given besides the request and the cluster."""

from __future__ import annotations

from typing import NamedTuple

from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.site_rules import NoSite, Site


class Context(NamedTuple):
    """Options of the call, the site's own rules, and whether somebody wants to know why."""

    options: Options = Options()
    site: Site = NoSite()
    explain: bool = False
    """fill in `Answer.explanations` and `Refusal.explanations`"""
