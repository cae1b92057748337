"""What programs note in the reason trail of a rule: what it is for, and an action of a plugin.

Actions that Ganeti does not have are stored as a PAUSE: luxid holds the jobs, whether or not a
maintenance daemon runs that releases them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.plugins.filters.filter_rules import CONTINUE, PAUSE, FilterRule
from ganeti_steward.plugins.filters.rule_text import action_text
from ganeti_steward.plugins.texts import text_member

#: The source of the reason that is the record, in the trail of a filter rule without effect.
RECORD_SOURCE: Final = "maintd:incident"
#: The source of the reason of a rule that holds creations; the text is the incident's uuid.
CREATION_SOURCE: Final = "maintd:held-creations"

INCIDENT: Final = "incident"
RECIPE: Final = "recipe"
#: A rule of a file that was applied.
FILE: Final = "file"
#: A rule that the maintenance daemon made for its own use.
DAEMON: Final = "maintd"

#: What the text of a recipe's reason begins with; the recipe, a colon and the owner's name follow.
MARK: Final = "gnt-steward:recipe:"
#: What the text of such a rule's reason begins with; owner, a colon and the rule's name follow.
FILE_MARK: Final = "gnt-steward:file:"
_DAEMON_SOURCE: Final = "maintd:"
_MARKED: Final = re.compile(rf"{MARK}([a-z-]+):(.+)", re.DOTALL)
_OF_FILE: Final = re.compile(rf"{FILE_MARK}([^:]+:.+)", re.DOTALL)


class Purpose(NamedTuple):
    """Why a rule must not be changed by hand; each part is empty where nothing is known."""

    kind: str = ""
    """`INCIDENT`, `RECIPE`, `FILE` or `DAEMON`; empty: a rule like any other"""
    recipe: str = ""
    """which recipe made it"""
    name: str = ""
    """the owner of the recipe's rules, ``OWNER:NAME`` of a file, or the node of the incident"""

    @property
    def word(self) -> str:
        """A few words for a column; empty for a rule like any other."""
        return " ".join(filter(None, self))


def purpose_of(rule: FilterRule) -> Purpose:
    """What the reason trail of a rule says that it is for.

    What the maintenance daemon needs comes before any other mark: other users can add marks.
    """
    return _of_daemon(rule) or _of_user(rule) or Purpose()


def users_rules(rules: Iterable[FilterRule]) -> list[FilterRule]:
    """The rules of people and their files and recipes: all but those of the maintenance daemon.

    Whatever deletes rules, or proposes that, chooses among these: a record applies to no job and
    looks unused, and without it the daemon does not know its incident.
    """
    return [rule for rule in rules if _of_daemon(rule) is None]


def _of_daemon(rule: FilterRule) -> Purpose | None:
    """The purpose of a rule that the maintenance daemon wrote; None for any other rule."""
    if (text := record_in(rule)) is not None:
        return Purpose(INCIDENT, name=text_member(text, "node_name"))
    used = (reason.text for reason in rule.reasons if reason.source.startswith(_DAEMON_SOURCE))
    return next((Purpose(DAEMON, name=text) for text in used), None)


def _of_user(rule: FilterRule) -> Purpose | None:
    """The purpose of a rule of a recipe or a file; None for any other rule."""
    for reason in rule.reasons:
        if marked := _MARKED.fullmatch(reason.text):
            return Purpose(RECIPE, marked[1], marked[2])
        if marked := _OF_FILE.fullmatch(reason.text):
            return Purpose(FILE, name=marked[1])
    return None


def mark(recipe: str, name: str) -> str:
    """The text of the reason that `purpose_of` recognizes."""
    return f"{MARK}{recipe}:{name}"


def file_mark(owner: str, name: str) -> str:
    """The text of the reason of a rule in a file that `purpose_of` recognizes."""
    return f"{FILE_MARK}{owner}:{name}"


def warning(rule: FilterRule) -> str:
    """Why the rule should be left to its owner, in a sentence; empty when it need not."""
    purpose = purpose_of(rule)
    if purpose.kind == INCIDENT:
        of = f" of {purpose.name}" if purpose.name else ""
        return (
            f"filter rule {rule.uuid} is the record of incident {rule.uuid}{of}: without it the "
            "maintenance daemon does not know the incident"
        )
    if purpose.kind == DAEMON:
        return f"filter rule {rule.uuid} is used by the maintenance daemon: {quoted(purpose.name)}"
    if purpose.kind == RECIPE:
        return (
            f"filter rule {rule.uuid} belongs to the recipe {purpose.recipe} of "
            f"{quoted(purpose.name)}, which 'gnt-steward filter recipe remove' removes as a whole"
        )
    if purpose.kind == FILE:
        owner, _, name = purpose.name.partition(":")
        return (
            f"filter rule {rule.uuid} is {quoted(name)} in the file of {quoted(owner)}: the next "
            "'gnt-steward filter apply' of that file undoes the change"
        )
    return ""


def warnings(rules: Iterable[FilterRule]) -> list[str]:
    """The warnings about these rules."""
    return [text for rule in rules if (text := warning(rule))]


# The rules that the maintenance daemon writes

#: True for no job: their numbers start with 1.
_NEVER: Final = ["jobid", ["<", "id", 0]]
#: After all rules that have an effect, for people who read the list.
_RECORD_PRIORITY: Final = 1000
#: After the rules that recipes write by default, and before their limits.
_CREATION_PRIORITY: Final = 90
#: Parameters that name the node of a new instance.  One rule each: luxid does not match an opcode
#: on which a parameter of the expression is not set.
_CREATION_FIELDS: Final = ("pnode", "snode")


def record_in(rule: FilterRule) -> str | None:
    """The text of the record that a rule claims to be; None for any other rule."""
    return next((reason.text for reason in rule.reasons if reason.source == RECORD_SOURCE), None)


def owner_of(rule: FilterRule) -> str:
    """The uuid of the incident for which a rule holds creations; empty for any other rule."""
    found = (reason.text for reason in rule.reasons if reason.source == CREATION_SOURCE)
    return next(found, "")


def record_rule(incident: str, text: str, now: int) -> FilterRule:
    """The rule that holds a record, without effect on any job; ``now``: ns since the epoch."""
    reason = Reason(RECORD_SOURCE, text, now)
    return FilterRule(incident, _RECORD_PRIORITY, (_NEVER,), CONTINUE, reasons=(reason,))


def creation_rules(incident: str, node: str, now: int) -> tuple[FilterRule, ...]:
    """The rules that hold new instances off a node (by name); ``now``: ns since the epoch."""
    reason = Reason(CREATION_SOURCE, incident, now)
    return tuple(
        FilterRule(
            str(uuid5(NAMESPACE_URL, f"{incident} {field}")),
            _CREATION_PRIORITY,
            (["opcode", ["&", ["=", "OP_ID", "OP_INSTANCE_CREATE"], ["=", field, node]]],),
            PAUSE,
            reasons=(reason,),
        )
        for field in _CREATION_FIELDS
    )


def same_effect(one: FilterRule, other: FilterRule) -> bool:
    """Whether two rules apply to the same jobs in the same way; their reasons may differ."""
    return one._replace(reasons=(), watermark=0) == other._replace(reasons=(), watermark=0)


def altered(rule: FilterRule) -> str:
    """What another user has made of a rule of the daemon, in a sentence; empty: nothing."""
    if record_in(rule) is not None:
        if rule.action == CONTINUE:
            return ""
        what = f"it is the record of an incident, and its action is {action_text(rule)}"
    elif owner := owner_of(rule):
        if any(same_effect(rule, one) for one in creation_rules(owner, _held_node(rule), 0)):
            return ""
        what = f"it must hold new instances only, for incident {owner}, and was changed"
    else:
        return ""
    return (
        f"{what}; the maintenance daemon on the master corrects its own rules, any other can be "
        f"deleted: gnt-filter delete {rule.uuid}"
    )


def _held_node(rule: FilterRule) -> str:
    """The node that a rule which holds creations names; empty where it names none."""
    match rule.predicates:
        case (["opcode", ["&", _, ["=", _, str(node)]]],):
            return node
    return ""


#: The source of the reason whose text is the action.
ACTION_SOURCE: Final = "steward:filter-action"

_FORM: Final = re.compile(r"([A-Z][A-Z0-9_]*)(?: +(\S.*))?", re.ASCII)


class NotedAction(NamedTuple):
    """An action that a plugin decides."""

    name: str
    """such as ``WINDOW``"""
    arguments: str = ""

    @property
    def text(self) -> str:
        """The action as people write it."""
        return f"{self.name} {self.arguments}".strip()


def read_action(text: str) -> NotedAction | None:
    """An action of a text; None where it has not the form of any."""
    found = _FORM.fullmatch(text.strip())
    return NotedAction(found[1], found[2] or "") if found else None


def noted_action(rule: FilterRule) -> NotedAction | None:
    """The action in a rule's reason trail; None in a rule with an action of Ganeti.

    A text that has not the form of an action is one without a name, which no plugin knows.
    """
    if rule.action != PAUSE:
        return None
    for reason in rule.reasons:
        if reason.source == ACTION_SOURCE:
            return read_action(reason.text) or NotedAction("", reason.text)
    return None


def shown_action(rule: FilterRule) -> str:
    """The action by its name, also where it is not Ganeti's."""
    noted = noted_action(rule)
    return noted.text if noted else action_text(rule)


def note_of(action: NotedAction, now: int) -> Reason:
    """The entry of the reason trail; ``now``: ns since the epoch."""
    return Reason(ACTION_SOURCE, action.text, now)
