"""``gnt-steward aggregate hosts``: the nodes that expressions allow."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Final

from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import Value, add_field_options, print_fields, print_notes
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError
from ganeti_steward.core.model.site_rules import ROLES, TAG_PREFIX
from ganeti_steward.plugins.aggregates.cli.reading import (
    TaggedCluster,
    check_template,
)
from ganeti_steward.plugins.aggregates.language.expression import ExpressionError, Term
from ganeti_steward.plugins.aggregates.language.limits import entitled_text
from ganeti_steward.plugins.aggregates.language.requests import parse_requested
from ganeti_steward.plugins.aggregates.language.tags import INSTANCE, read_tag
from ganeti_steward.plugins.aggregates.requirements import requirements_of
from ganeti_steward.plugins.aggregates.verdict import Objection
from ganeti_steward.plugins.aggregates.verdicts import Evaluator

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Node

#: Columns of the list -> headings.
FIELDS: Final = {
    "name": "Node",
    "group": "Group",
    "roles": "Roles",
    "state": "State",
    "aggregates": "Aggregates",
    "why": "Why not",
}
_USUAL: Final = ("name", "group", "roles", "state")


def describe_hosts(parser: argparse.ArgumentParser) -> None:
    """The expressions, and the columns."""
    describe(
        parser,
        {
            "gnt-steward aggregate hosts in:licensed": "the nodes of an aggregate",
            "gnt-steward aggregate hosts '!reserved' -v": "all nodes, with the reason against each",
        },
        statuses={EXIT_FAILURE: "no node is allowed"},
    )
    parser.add_argument(
        "expression",
        nargs="+",
        metavar="EXPRESSION",
        help="as in the configuration ('in:a,b', '!a', 'member_of_primary=a') or a tag of an "
        "instance; of several all hold",
    )
    parser.add_argument(
        "--disk-template",
        metavar="TEMPLATE",
        default="drbd",
        help="of the instance, which decides where its disks are; default: %(default)s",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="also the other nodes, with the reason"
    )
    add_field_options(parser, FIELDS)


def list_hosts(options: argparse.Namespace, tagged: TaggedCluster) -> int:
    """Print the nodes; status 1 when none is allowed."""
    tagged.rules.check_usable()
    check_template(options.disk_template)
    terms = [_term(text, tagged) for text in options.expression]
    print_notes(_claims(terms, tagged))
    requirements = requirements_of(tagged.rules, terms)
    evaluator, rows = Evaluator(tagged.rules, tagged.cluster), []
    rules: Counter[str] = Counter()
    for node in tagged.cluster.nodes:
        found = {
            role: evaluator.node(requirements, options.disk_template, node, role) for role in ROLES
        }
        if None not in found.values():
            rules.update({reason.rule for reason in found.values() if reason})
        if options.verbose or None in found.values():
            rows.append(_row(tagged, node, found))
    usual = (*_USUAL, "why") if options.verbose else _USUAL
    print_fields(options, FIELDS, usual, rows)
    if any(row["roles"] for row in rows):
        return EXIT_OK
    counts = ", ".join(f"{number} {rule}" for rule, number in rules.most_common())
    print_notes([f"0/{len(tagged.cluster.nodes)} nodes: {counts}"])
    return EXIT_FAILURE


def _row(tagged: TaggedCluster, node: Node, found: dict[str, Objection | None]) -> dict[str, Value]:
    cluster, membership = tagged.cluster, tagged.rules.membership
    reasons = {reason.text for reason in found.values() if reason}
    return {
        "name": node.name,
        "group": cluster.group(node.group).name,
        "roles": [role for role, reason in found.items() if reason is None],
        "state": node.condition or "usable",
        "aggregates": sorted(
            membership.nodes.get(node.name, frozenset())
            | membership.groups.get(node.group, frozenset())
        ),
        "why": "; ".join(sorted(reasons)) or "-",
    }


def _term(text: str, tagged: TaggedCluster) -> Term:
    """One expression; raises StewardError."""
    try:
        one = read_tag(INSTANCE, text) if text.startswith(TAG_PREFIX) else parse_requested(text)
    except ExpressionError as err:
        raise StewardError(f"{text!a}: {err}") from None
    if not isinstance(one, Term):
        raise StewardError(f"{text!a}: excludes no host")
    return one


def _claims(terms: list[Term], tagged: TaggedCluster) -> list[str]:
    """What keeps instances from such a request, whatever the hosts."""
    notes = []
    for name in dict.fromkeys(name for term in terms if not term.negative for name in term.names):
        if name in tagged.rules.settings.unclaimable:
            notes.append(f"no instance may request aggregate {name}")
        elif who := entitled_text(tagged.rules.entitled, name):
            notes.append(f"only {who} may request aggregate {name}")
    return notes
