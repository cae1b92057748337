"""What an allocator gets in addition to the request and the cluster."""

from __future__ import annotations

from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.site_rules import NoSiteRules, SiteRules
from ganeti_steward.core.records import NamedTuple


class Context(NamedTuple):
    """Options of the call, the site rules, and whether the answer is to be explained."""

    options: Options = Options()
    site_rules: SiteRules = NoSiteRules()
    explain: bool = False
    """fill in `Answer.explanations` and `Refusal.explanations`"""
