"""The roles of an instance's hosts that a value may be for."""

from __future__ import annotations

from typing import Final

from ganeti_steward.core.model.site_rules import PRIMARY, SECONDARY
from ganeti_steward.plugins.aggregates.language.expression import ExpressionError, Term

STORAGE: Final = "storage"
UNIT: Final = "unit"
#: All there are.
ROLES: Final = (PRIMARY, SECONDARY, STORAGE, UNIT)


def checked_role(term: Term) -> Term:
    """The term, when its role is none or one there is; raises ExpressionError."""
    if term.role and term.role not in ROLES:
        raise ExpressionError(f"unknown role {term.role!a} (known: {', '.join(ROLES)})")
    return term
