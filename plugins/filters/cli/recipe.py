"""``gnt-steward filter recipe``: the usual policies, each under the name of its owner."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple
from uuid import uuid4

from ganeti_steward.core.commands.cluster_options import add_source_options
from ganeti_steward.core.commands.manual import add_subcommand, add_subcommands, describe
from ganeti_steward.core.commands.tables import add_json_option, print_json
from ganeti_steward.core.errors import EXIT_OK, StewardError
from ganeti_steward.core.ganeti.luxi import REASON_SOURCE
from ganeti_steward.core.ganeti.reasons import USER, Reason
from ganeti_steward.core.json_reader import Faults, printable, quoted
from ganeti_steward.plugins.filters import recipes, rule_text
from ganeti_steward.plugins.filters.cli.cluster import live_client
from ganeti_steward.plugins.filters.filter_rules import RATE_LIMIT, FilterRule, FilterRules
from ganeti_steward.plugins.filters.rule_notes import RECIPE, mark, purpose_of, users_rules

_REMOVE: Final = "remove"
_OPCODE: Final = re.compile(r"OP_[A-Z]+(_[A-Z]+)*")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One subcommand for each recipe, and one to remove them."""
    what = add_subcommands(parser, "RECIPE", dest="recipe")
    for name, recipe in RECIPES.items():
        add_subcommand(what, name, recipe.help, partial(_add_recipe, name))
    text = "delete the rules that recipes created for a name"
    add_subcommand(what, _REMOVE, text, _add_remove)
    parser.set_defaults(act=_run)


def _add_recipe(name: str, one: argparse.ArgumentParser) -> None:
    command = f"gnt-steward filter recipe {name} upgrade"
    number = " 2" if name == recipes.LIMIT else ""
    describe(
        one,
        {
            f"{command}{number}": "print the rules",
            f"{command}{number} --submit --reason 'new kernel'": "create them",
        },
    )
    one.add_argument("name", metavar="NAME", help="whose rules these are, such as 'pink bunny'")
    RECIPES[name].add_options(one)
    _add_writing(one)


def _add_remove(one: argparse.ArgumentParser) -> None:
    describe(
        one,
        {
            "gnt-steward filter recipe remove upgrade": "of all recipes",
            "gnt-steward filter recipe remove upgrade --recipe drain": "of one recipe",
        },
    )
    one.add_argument(
        "name", metavar="NAME", help="the name of the rules; rules of other names stay"
    )
    one.add_argument(
        "--recipe",
        dest="only",
        choices=tuple(RECIPES),
        metavar="RECIPE",
        help=f"of this recipe only: {', '.join(RECIPES)}",
    )
    add_source_options(one, positional=False, files=False)


def _add_allow(parser: argparse.ArgumentParser, otherwise: str = "none") -> None:
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="TEXT",
        help="let jobs through that were submitted with --reason TEXT; may be repeated; "
        f"default: {otherwise}",
    )
    parser.add_argument(
        "--source",
        default=USER,
        help=f"the source of these reasons; default: {USER}, which gnt-* commands and RAPI use",
    )
    parser.add_argument(
        "--allow-maintd", action="store_true", help="let jobs of the maintenance daemon through"
    )


def _add_only(parser: argparse.ArgumentParser) -> None:
    _add_allow(parser, "NAME")
    parser.add_argument("--new", action="store_true", help="do not hold what is queued already")


def _add_opcode(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--opcode",
        action="append",
        metavar="OP_...",
        help="jobs with this opcode instead; may be repeated",
    )


def _add_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("number", metavar="NUMBER", help="so many at a time, from 1")
    _add_opcode(parser)


def _add_writing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--priority", metavar="NUMBER", help="of the first rule; default: the recipe's"
    )
    parser.add_argument("--reason", metavar="TEXT", help="why, for the reason trails of the rules")
    parser.add_argument(
        "--submit", action="store_true", help="create the rules, all or none, and print their uuids"
    )
    add_json_option(parser, "without --submit: print the rules as RAPI takes them")
    add_source_options(parser, positional=False, files=False)


def _run(options: argparse.Namespace) -> int:
    """Print or create the rules of a recipe, or remove them."""
    name, faults = options.name, Faults()
    if not name.strip() or name != name.strip() or not name.isprintable():
        faults.add("name", f"words without blanks around are expected, found {quoted(name)}")
    rule_text.check_ascii("name", name, faults)
    rules = [] if options.recipe == _REMOVE else _rules(options, time.time_ns(), faults)
    faults.check()
    if options.recipe == _REMOVE:
        for uuid in remove_all(FilterRules(live_client(options)), name, options.only):
            print(uuid)
        return EXIT_OK
    if options.submit:
        for uuid in create_all(FilterRules(live_client(options)), rules):
            print(uuid)
    elif options.json:
        print_json([rule.content for rule in rules])
    else:
        for rule in rules:
            print(_command(rule, mark(options.recipe, name)))
    return EXIT_OK


def _rules(options: argparse.Namespace, now: int, faults: Faults) -> list[FilterRule]:
    rules = RECIPES[options.recipe].rules(options, faults)
    if options.priority is not None:
        rules = recipes.moved(rules, rule_text.parsed_priority(options.priority, faults) or 0)
    own = Reason(REASON_SOURCE, mark(options.recipe, options.name), now)
    reasons = (*rule_text.user_reasons(options.reason, now, faults), own)
    return [rule._replace(reasons=reasons) for rule in rules]


def _allowed(options: argparse.Namespace, faults: Faults, usual: str = "") -> list[recipes.Allowed]:
    texts = options.allow or ([usual] if usual else [])
    if not all(texts):
        faults.add("--allow", "the text of a reason is expected")
    for text in (*texts, options.source):
        rule_text.check_ascii("--allow", text, faults)
    allowed = [recipes.Allowed(options.source, text) for text in texts]
    return [*allowed, recipes.DAEMON_JOBS] if options.allow_maintd else allowed


def _opcodes(options: argparse.Namespace, faults: Faults) -> Sequence[str]:
    for opcode in options.opcode or ():
        if not _OPCODE.fullmatch(opcode):
            faults.add("--opcode", f"{quoted(opcode)} is not an opcode such as OP_INSTANCE_MIGRATE")
    return options.opcode or ()


def _limit(options: argparse.Namespace, faults: Faults) -> list[FilterRule]:
    _, number = rule_text.parsed_action(f"{RATE_LIMIT} {options.number}", faults)
    return recipes.limit(number, _opcodes(options, faults) or recipes.REPLACEMENTS)


class Recipe(NamedTuple):
    """How a recipe is called."""

    help: str
    """what it does, in one line"""
    add_options: Callable[[argparse.ArgumentParser], None]
    """adds what it takes in addition to the name"""
    rules: Callable[[argparse.Namespace, Faults], list[FilterRule]]
    """its rules, from what was given"""


#: Name -> recipe, in the order of the help.
RECIPES: Final[Mapping[str, Recipe]] = {
    recipes.DRAIN: Recipe(
        "cancel new jobs; what is queued already runs",
        _add_allow,
        lambda options, faults: recipes.drain(_allowed(options, faults)),
    ),
    recipes.SOFT_DRAIN: Recipe(
        "hold new jobs; what is queued already runs",
        _add_allow,
        lambda options, faults: recipes.soft_drain(_allowed(options, faults)),
    ),
    recipes.ONLY: Recipe(
        "let the jobs of one maintenance run and hold all others",
        _add_only,
        lambda options, faults: recipes.only(
            _allowed(options, faults, options.name), new=options.new
        ),
    ),
    recipes.FORBID: Recipe(
        "cancel jobs that create instances, or with other opcodes, queued ones as well",
        _add_opcode,
        lambda options, faults: recipes.forbid(_opcodes(options, faults) or recipes.CREATIONS),
    ),
    recipes.LIMIT: Recipe(
        "let at most so many disk replacements, or other opcodes, run at a time",
        _add_limit,
        _limit,
    ),
}


def _command(rule: FilterRule, reason: str) -> str:
    """The call of gnt-filter that creates the rule."""
    words = {
        "priority": str(rule.priority),
        "predicates": json.dumps(rule.predicates),
        "action": rule_text.action_text(rule),
        "reason": reason,
    }
    return "gnt-filter add " + " ".join(
        f"--{name}={shlex.quote(value)}" for name, value in words.items()
    )


#: How many names a message has.
_NAMED: Final = 5


def create_all(rules: FilterRules, new: Sequence[FilterRule]) -> list[str]:
    """Create all rules of a recipe; their uuids.

    Raises StewardError; nothing is left of them then, or the error names what is.
    """
    purpose = purpose_of(new[0])
    present = users_rules(rules.read().rules)
    if there := [one.uuid for one in present if purpose_of(one) == purpose]:
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
    marked = [(one.uuid, purpose_of(one)) for one in users_rules(rules.read().rules)]
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
