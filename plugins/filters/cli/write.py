"""``gnt-steward filter add``, ``replace`` and ``delete``: rules with gnt-filter's options.

In addition to Ganeti's actions ``--action`` takes those that the maintenance daemon carries out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from typing import Final

from ganeti_steward.core.commands.cluster_options import add_source_options
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import print_notes
from ganeti_steward.core.config.load import config_path, load_config
from ganeti_steward.core.errors import EXIT_OK, StewardError, join_faults
from ganeti_steward.core.json_reader import Faults, quoted
from ganeti_steward.plugins.filters import filter_rules, rule_notes, rule_text
from ganeti_steward.plugins.filters.actions.calling import plugins_with_actions
from ganeti_steward.plugins.filters.actions.holding import ACTIONS, fault_of
from ganeti_steward.plugins.filters.cli import cluster
from ganeti_steward.plugins.filters.lint.lint import ERROR, NOTE, WARNING, lint

#: Option of a rule -> what its value is called, what it is, and what holds without it in a new one.
_RULE: Final = {
    "priority": (
        "NUMBER",
        "rules with a lower number come first",
        "0, or 50 with an action of the maintenance daemon",
    ),
    "predicates": (
        "JSON",
        "what must be true for a job, as a list [[NAME, EXPRESSION], ...]",
        "[], which every job matches",
    ),
    "action": (
        "ACTION",
        "ACCEPT, PAUSE, REJECT, CONTINUE or 'RATE_LIMIT n'; or one that the maintenance daemon "
        "carries out: 'WINDOW Mon-Fri 22:00-06:00', 'AFTER_INCIDENT NODE', APPROVE",
        "CONTINUE, which has no effect",
    ),
    "reason": ("TEXT", "why the rule is there, for its reason trail", "none"),
}
#: Priority of a rule with an action that is not Ganeti's, where none is given.
_PRIORITY: Final = 50
#: The source of the entry that luxid adds whenever a rule is written.
_LUXID: Final = "luxid"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of gnt-filter's add."""
    describe(
        parser,
        {
            "gnt-steward filter add --action PAUSE --reason upgrade": "hold every job",
            "gnt-steward filter add --action 'WINDOW Mon-Fri 22:00-06:00'": "run jobs at night",
            "gnt-steward filter add --action REJECT --predicates "
            """'[["jobid",[">","id",9]]]'""": "cancel newer jobs",
        },
    )
    for name, (metavar, text, default) in _RULE.items():
        parser.add_argument(f"--{name}", metavar=metavar, help=f"{text}; default: {default}")
    parser.add_argument(
        "--force", action="store_true", help="add it even if lint finds an error in it"
    )
    add_source_options(parser, positional=False, files=False)
    parser.set_defaults(act=_add)


def _add(options: argparse.Namespace) -> int:
    """Create the rule and print its uuid."""
    faults = Faults()
    rule = described(options, filter_rules.FilterRule(uuid=""), time.time_ns(), faults)
    faults.check()
    if not options.force:
        check_rules([rule])
    print(filter_rules.FilterRules(cluster.live_client(options)).write(rule))
    cluster.print_note([rule], options)
    return EXIT_OK


def check_rules(rules: Iterable[filter_rules.FilterRule]) -> None:
    """Raise StewardError where lint finds an error in new rules; print what it warns of."""
    texts: dict[str, list[str]] = {ERROR: [], WARNING: [], NOTE: []}
    for finding in lint(list(rules), {}):
        name = f"rule {quoted(finding.uuid)}" if finding.uuid else ""
        texts[finding.level].append(": ".join(filter(None, (name, finding.place, finding.text))))
    if texts[ERROR]:
        raise StewardError(f"{join_faults(texts[ERROR])}; --force adds it nevertheless")
    print_notes(texts[WARNING])


def replace_options(parser: argparse.ArgumentParser) -> None:
    """The options of gnt-filter's replace, and ``--force``."""
    example = f"gnt-steward filter replace {rule_text.EXAMPLE_UUID}"
    examples = {f"{example} --priority 5": "another priority"}
    describe(parser, {**examples, example: "the same rule, a new watermark"})
    parser.add_argument("uuid", metavar="UUID", help="the rule; it is created when there is none")
    for name, (metavar, text, _) in _RULE.items():
        help_text = f"{text}; default: as it is; in a new rule as with add"
        parser.add_argument(f"--{name}", metavar=metavar, help=help_text)
    parser.add_argument(
        "--force", action="store_true", help="replace also what a program needs as it is"
    )
    add_source_options(parser, positional=False, files=False)
    parser.set_defaults(act=_replace)


def _replace(options: argparse.Namespace) -> int:
    """Write the rule, which also gives it a new watermark, and print its uuid."""
    new, now, faults = filter_rules.FilterRule(options.uuid), time.time_ns(), Faults()
    rule_text.check_uuid(options.uuid, faults)
    # What is wrong with the options comes before anything that concerns the cluster.
    described(options, new, now, faults)
    faults.check()
    rules = filter_rules.FilterRules(cluster.live_client(options))
    present = rules.read()
    if not options.force:
        cluster.check_unowned(present, [options.uuid])
    before = next((rule for rule in present.rules if rule.uuid == new.uuid), new)
    reasons = tuple(reason for reason in before.reasons if reason.source != _LUXID)
    rule = described(options, before._replace(reasons=reasons), now, faults)
    faults.check()
    print(rules.write(rule))
    return EXIT_OK


def delete_options(parser: argparse.ArgumentParser) -> None:
    """The rules to delete."""
    describe(parser, {f"gnt-steward filter delete {rule_text.EXAMPLE_UUID}": "delete one rule"})
    parser.add_argument("uuid", nargs="+", metavar="UUID", help="the rules")
    parser.add_argument("--force", action="store_true", help="delete also what a program needs")
    add_source_options(parser, positional=False, files=False)
    parser.set_defaults(act=_delete)


def _delete(options: argparse.Namespace) -> int:
    """Delete the rules; none when one of them is unknown or must be left alone."""
    rules = filter_rules.FilterRules(cluster.live_client(options))
    present = rules.read()
    cluster.check_known(present, options.uuid)
    if not options.force:
        cluster.check_unowned(present, options.uuid)
    for uuid in options.uuid:
        rules.delete(uuid)
    return EXIT_OK


def described(
    options: argparse.Namespace, before: filter_rules.FilterRule, now: int, faults: Faults
) -> filter_rules.FilterRule:
    """The rule that the options describe.

    ``before``: what holds where an option is not given; ``now``: ns since 1970.
    """
    rule, priority = before, None
    if options.priority is not None:
        priority = rule_text.parsed_priority(options.priority, faults)
    if options.predicates is not None:
        rule = rule._replace(predicates=rule_text.parsed_predicates(options.predicates, faults))
    if options.reason is not None:
        noted = tuple(
            reason for reason in rule.reasons if reason.source == rule_notes.ACTION_SOURCE
        )
        reasons = rule_text.user_reasons(options.reason, now, faults)
        rule = rule._replace(reasons=(*reasons, *noted))
    if options.action is not None:
        rule = with_action(rule, options.action, now, faults)
    return with_priority(rule, priority, faults)


def with_action(
    rule: filter_rules.FilterRule, text: str, now: int, faults: Faults
) -> filter_rules.FilterRule:
    """The rule with the action of a text, ``now`` as its time."""
    others = tuple(reason for reason in rule.reasons if reason.source != rule_notes.ACTION_SOURCE)
    rule_text.check_ascii("action", text, faults)
    noted = rule_notes.read_action(text)
    if noted is None or noted.name in (*filter_rules.PLAIN_ACTIONS, filter_rules.RATE_LIMIT):
        action, limit = rule_text.parsed_action(text, faults)
        return rule._replace(action=action, limit=limit, reasons=others)
    if fault := _fault(noted):
        faults.add("action", fault)
    return rule._replace(
        action=filter_rules.PAUSE, limit=0, reasons=(*others, rule_notes.note_of(noted, now))
    )


def with_priority(
    rule: filter_rules.FilterRule, given: int | None, faults: Faults
) -> filter_rules.FilterRule:
    """The rule with a priority that leaves room before it where that is needed.

    ``given``: None where the user chose none.
    """
    rule = rule if given is None else rule._replace(priority=given)
    noted = rule_notes.noted_action(rule)
    if noted is None or rule.priority > 0:
        return rule
    if given is None:
        return rule._replace(priority=_PRIORITY)
    faults.add(
        "priority",
        f"the action {noted.name} requires 1 or more, because a rule that releases a job comes "
        "before it",
    )
    return rule


def _fault(action: rule_notes.NotedAction) -> str:
    """What is wrong with an action that is not Ganeti's; empty: nothing.

    No plugin may know a misspelt one, which would hold jobs forever.
    """
    if action.name in ACTIONS:
        return fault_of(*action)
    if plugins_with_actions(load_config(config_path(), ("plugins", "plugin"))):
        return ""
    plain = ", ".join(sorted(filter_rules.PLAIN_ACTIONS))
    known = f"{plain}, {filter_rules.RATE_LIMIT}, {', '.join(ACTIONS)}"
    return (
        f"{quoted(action.name)} is none of {known}, and [plugins] load names no plugin with other "
        "actions here"
    )
