"""``gnt-steward aggregate``: members, where instances may go, and changing members by tags."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Final

from ganeti_steward.allocators.jobs.run_jobs import Interrupts, interrupt_printer
from ganeti_steward.core.commands.cluster_options import add_reason_option, add_source_options
from ganeti_steward.core.commands.manual import add_subcommand, add_subcommands, describe
from ganeti_steward.core.commands.tables import (
    Value,
    add_field_options,
    add_json_option,
    print_notes,
)
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError
from ganeti_steward.plugins.aggregates.cli.fix import add_fix_options, run_fix
from ganeti_steward.plugins.aggregates.cli.hosts import add_hosts_options, list_hosts
from ganeti_steward.plugins.aggregates.cli.members import plan
from ganeti_steward.plugins.aggregates.cli.reading import (
    TaggedCluster,
    requesting_instances,
    run_action,
)
from ganeti_steward.plugins.aggregates.cli.reservation_list import end_notes
from ganeti_steward.plugins.aggregates.cli.standing import faults, misplaced, never_seen
from ganeti_steward.plugins.aggregates.cli.tagging import write
from ganeti_steward.plugins.aggregates.cli.versions import (
    add_version_option,
    print_rows,
    print_versioned,
)
from ganeti_steward.plugins.aggregates.cli.views import views
from ganeti_steward.plugins.aggregates.language.entitlement import entitled_text
from ganeti_steward.plugins.aggregates.members import Members, aggregates

#: Columns of the list -> headings.
FIELDS: Final = {
    "name": "Aggregate",
    "groups": "Groups",
    "nodes": "Nodes",
    "units": "Units",
    "pools": "Pools",
    "members": "Members",
    "closed": "Closed",
    "instances": "Instances",
    "until": "Until",
    "entitled": "Entitled",
}
_NEW: Final = ("until", "entitled")
_USUAL: Final = ("name", "groups", "nodes", "units", "pools")

_MEMBERS: Final = (
    "a node, a node group, unit:NODE:UNIT or pool:POOL (node:NODE and group:GROUP where a name "
    "is both)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command each."""
    what = add_subcommands(parser, "WHAT")
    one = add_subcommand(what, "list", "every aggregate with its members")
    describe(
        one,
        {
            "gnt-steward aggregate list": "name, groups, nodes, units and pools of each",
            "gnt-steward aggregate list -o +instances,until": "with two more columns",
        },
    )
    add_field_options(one, FIELDS)
    add_version_option(one)
    one.set_defaults(act=_list)
    _source(one)
    one = add_subcommand(what, "show", "one aggregate, node, node group or instance")
    describe(
        one,
        {
            "gnt-steward aggregate show licensed": "members, and the instances that request it",
            "gnt-steward aggregate show web1.example.com": "where this instance may go",
        },
    )
    one.add_argument(
        "name", help="its members or aggregates, and which instances may go where and why not"
    )
    one.add_argument("-v", "--verbose", action="store_true", help="all names, not the first few")
    one.set_defaults(act=_show)
    _source(one)
    one = add_subcommand(
        what,
        "check",
        "instances that would not be placed where they are, tags that mean nothing; status 1 if "
        "there is any",
    )
    describe(
        one,
        {
            "gnt-steward aggregate check": "every misplaced instance with the reason",
            "gnt-steward aggregate check --json": "the same for a script",
        },
        statuses={EXIT_FAILURE: "an instance is misplaced, or a tag means nothing"},
    )
    add_json_option(one, "the same as data")
    add_version_option(one)
    one.set_defaults(act=_check)
    _source(one)
    one = add_subcommand(what, "hosts", "the nodes that an expression allows; status 1 if none is")
    describe(
        one,
        {
            "gnt-steward aggregate hosts in:licensed": "the nodes of an aggregate",
            "gnt-steward aggregate hosts '!reserved' -v": "all nodes, with the reason against each",
        },
        statuses={EXIT_FAILURE: "no node is allowed"},
    )
    add_hosts_options(one)
    one.set_defaults(act=list_hosts)
    _source(one)
    one = add_subcommand(
        what,
        "fix",
        "move instances that would not be placed where they are; status 1 if any stays",
    )
    describe(
        one,
        {
            "gnt-steward aggregate fix": "the moves, as a plan",
            "gnt-steward aggregate fix web1 -X --yes": "move one instance, without confirmation",
        },
        statuses={EXIT_FAILURE: "an instance stays misplaced, or a job failed"},
        units="Copied data is in GiB.",
    )
    add_fix_options(one)
    one.set_defaults(act=run_fix)
    _source(one)
    for word, text, removed in (
        ("add", "put members in an aggregate", False),
        ("remove", "take members out of an aggregate", True),
    ):
        one = add_subcommand(what, word, f"{text}, all of them or none")
        describe(
            one,
            {
                f"gnt-steward aggregate {word} licensed node3 node4": "two nodes",
                f"gnt-steward aggregate {word} licensed rack2 --dry-run": "print the tags only",
            },
        )
        one.add_argument("name", help="the aggregate")
        one.add_argument("member", nargs="+", help=_MEMBERS)
        one.add_argument("--dry-run", action="store_true", help="only print what would be done")
        one.set_defaults(act=_change, removed=removed)
        add_reason_option(one)
        _source(one)


def _source(parser: argparse.ArgumentParser) -> None:
    add_source_options(parser, positional=False)


def run(options: argparse.Namespace) -> int:
    """Run the sub-command; returns the exit status."""
    return run_action(options)


def _list(options: argparse.Namespace, tagged: TaggedCluster) -> int:
    requesting = requesting_instances(tagged)
    rows = [
        _row(tagged, members, requesting.get(members.name, []))
        for members in aggregates(tagged.rules.membership).values()
    ]
    print_rows(options, "aggregates", FIELDS, _USUAL, rows, _NEW)
    return EXIT_OK


def _row(tagged: TaggedCluster, members: Members, instances: list[str]) -> dict[str, Value]:
    groups = {group.uuid: group.name for group in tagged.cluster.groups}
    columns = {
        "groups": [groups[uuid] for uuid in members.groups],
        "nodes": members.nodes,
        "units": [f"{node}:{unit}" for node, unit in members.units],
        "pools": members.pools,
    }
    return {
        "name": members.name,
        "members": sum(map(len, columns.values())),
        "closed": any(
            members.name.startswith(prefix) for prefix in tagged.rules.settings.forbidden
        ),
        "instances": sorted(instances),
        "until": tagged.rules.until.get(members.name) or "-",
        "entitled": entitled_text(tagged.rules.entitled, members.name) or "-",
        **{name: sorted(names) for name, names in columns.items()},
    }


def _show(options: argparse.Namespace, tagged: TaggedCluster) -> int:
    found = views(tagged, options.name, every=options.verbose)
    if not found:
        raise StewardError(
            f"{options.name!a} is no aggregate with a member, no node, no node group and no "
            f"instance of {tagged.source.where}"
        )
    sys.stdout.write("\n".join(found))
    return EXIT_OK


def _check(options: argparse.Namespace, tagged: TaggedCluster) -> int:
    print_notes((*never_seen(tagged), *end_notes(tagged.rules, time.time)))
    wrong, standing = list(faults(tagged)), list(misplaced(tagged))
    well = not wrong and not standing
    if options.json:
        wrong_data, standing_data = ([one._asdict() for one in some] for some in (wrong, standing))
        data = {"well": well, "faults": wrong_data, "misplaced": standing_data}
        print_versioned(options, "", data)
    else:
        sentences = [one.sentence for one in wrong] + [one.sentence for one in standing]
        print("\n".join(sentences or ["Nothing is wrong."]))
    return EXIT_OK if well else EXIT_FAILURE


def _change(options: argparse.Namespace, tagged: TaggedCluster) -> int:
    removed: bool = options.removed
    changes = plan(tagged.cluster, options.name, options.member, removed=removed)
    jobs = tagged.jobs
    if not changes:
        print("Nothing to do: all of them are in it already.")
    elif not options.dry_run:
        with Interrupts(interrupt_printer("the submitted job")) as interrupts:
            write(jobs, changes, _reason(options), interrupts)
    for change in changes:
        print(f"{'would be done' if options.dry_run else 'done'}: {change.sentence}")
    return EXIT_OK


def _reason(options: argparse.Namespace) -> str:
    return f"aggregate {options.what} {options.name}"
