"""The rules of recipes on a cluster: created and deleted together, each under its owner's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import uuid4

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.json_reader import printable, quoted
from ganeti_steward.plugins.filters.filter_rules import FilterRule, FilterRules
from ganeti_steward.plugins.filters.purpose import RECIPE, purpose_of

#: How many names a message has.
_NAMED: Final = 5


def create_all(rules: FilterRules, new: Sequence[FilterRule]) -> list[str]:
    """Create all rules of a recipe; their uuids.

    Raises StewardError; nothing is left of them then, or the error names what is.
    """
    purpose = purpose_of(new[0])
    if there := [one.uuid for one in rules.read().rules if purpose_of(one) == purpose]:
        raise StewardError(
            f"{quoted(purpose.name)} has the recipe {purpose.recipe} already, in filter rule "
            f"{', '.join(there)}; remove it first, or use another name"
        )
    # With uuids of our own even a rule whose creation was not confirmed can be deleted.
    chosen = [rule._replace(uuid=str(uuid4())) for rule in new]
    for number, rule in enumerate(chosen, 1):
        try:
            rules.write(rule)
        except (StewardError, KeyboardInterrupt) as err:
            left = _delete(rules, [one.uuid for one in chosen[:number]])
            outcome = left or "no rule was created"
            raise StewardError(f"{str(err) or 'interrupted'}; {outcome}") from None
    return [rule.uuid for rule in chosen]


def remove_all(rules: FilterRules, name: str, recipe: str | None) -> list[str]:
    """Delete all rules of a name, or those of one recipe; their uuids.  Raises StewardError."""
    marked = [(one.uuid, purpose_of(one)) for one in rules.read().rules]
    found = [
        uuid
        for uuid, purpose in marked
        if (purpose.kind, purpose.name) == (RECIPE, name) and recipe in (None, purpose.recipe)
    ]
    if not found:
        names = sorted({quoted(purpose.name) for _, purpose in marked if purpose.kind == RECIPE})
        known = printable(", ".join(names[:_NAMED])) + (", ..." if len(names) > _NAMED else "")
        what = f"recipe {recipe}" if recipe else "recipe"
        raise StewardError(
            f"{quoted(name)} has no {what} here (names with recipes: {known or 'none'})"
        )
    if left := _delete(rules, found):
        raise StewardError(left)
    return found


def _delete(rules: FilterRules, uuids: Sequence[str]) -> str:
    """Delete rules; which are left, and why, in a part of a sentence, empty for none.

    The last one comes first: an earlier rule may be an exception to it.
    """
    left = list(uuids)
    try:
        while left:
            rules.delete(left[-1])
            left.pop()
    except StewardError as err:
        return f"filter rule {', '.join(left)} may still exist: {err}"
    return ""
