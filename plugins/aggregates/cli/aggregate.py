"""``gnt-steward aggregate``: members, where instances may go, and changing members by tags."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Final

from ganeti_steward.allocators.jobs.run_jobs import Interrupts, interrupt_printer
from ganeti_steward.core.commands import tables
from ganeti_steward.core.commands.cluster_options import add_reason_option
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError
from ganeti_steward.plugins.aggregates.cli.fix import describe_fix, run_fix
from ganeti_steward.plugins.aggregates.cli.hosts import describe_hosts, list_hosts
from ganeti_steward.plugins.aggregates.cli.reading import (
    TaggedCluster,
    add_actions,
    end_notes,
    faults,
    misplaced,
    never_seen,
    requesting_instances,
    run_action,
)
from ganeti_steward.plugins.aggregates.cli.tagging import plan, print_changes, write
from ganeti_steward.plugins.aggregates.cli.views import views
from ganeti_steward.plugins.aggregates.language.limits import entitled_text
from ganeti_steward.plugins.aggregates.membership import Members, aggregates

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
_USUAL: Final = ("name", "groups", "nodes", "units", "pools")

_MEMBERS: Final = (
    "a node, a node group, unit:NODE:UNIT or pool:POOL (node:NODE and group:GROUP where a name "
    "is both)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command each."""
    faults = "instances that would not be placed where they are, tags that mean nothing"
    actions = {
        "list": ("every aggregate with its members", _list, _describe_list),
        "show": ("show an aggregate, a node, a node group or an instance", _show, _describe_show),
        "check": (f"{faults}; status 1 if there is any", _check, _describe_check),
        "hosts": (
            "the nodes that an expression allows; status 1 if none is",
            list_hosts,
            describe_hosts,
        ),
        "fix": (
            "move instances that would not be placed where they are; status 1 if any stays",
            run_fix,
            describe_fix,
        ),
        "add": ("put members in an aggregate, all of them or none", _change, _describe_change),
        "remove": (
            "take members out of an aggregate, all of them or none",
            _change,
            _describe_change,
        ),
    }
    add_actions(parser, actions, writing=("add", "remove"))


#: Runs the sub-command; returns the exit status.
run: Final = run_action


def _describe_list(parser: argparse.ArgumentParser) -> None:
    describe(
        parser,
        {
            "gnt-steward aggregate list": "name, groups, nodes, units and pools of each",
            "gnt-steward aggregate list -o +instances,until": "with two more columns",
        },
    )
    tables.add_field_options(parser, FIELDS)


def _describe_show(parser: argparse.ArgumentParser) -> None:
    describe(
        parser,
        {
            "gnt-steward aggregate show licensed": "members, and the instances that request it",
            "gnt-steward aggregate show web1.example.com": "where this instance may go",
        },
    )
    parser.add_argument(
        "name",
        metavar="aggregate",
        help="its members or aggregates, and which instances may go where and why not",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="all names, not the first few")


def _describe_check(parser: argparse.ArgumentParser) -> None:
    describe(
        parser,
        {
            "gnt-steward aggregate check": "every misplaced instance with the reason",
            "gnt-steward aggregate check --json": "the same for a script",
        },
        statuses={EXIT_FAILURE: "an instance is misplaced, or a tag means nothing"},
    )
    tables.add_json_option(parser, "the same as data")


def _describe_change(parser: argparse.ArgumentParser) -> None:
    describe(
        parser,
        {
            f"{parser.prog} licensed node3 node4": "two nodes",
            f"{parser.prog} licensed rack2 --dry-run": "print the tags only",
        },
    )
    parser.add_argument("name", metavar="aggregate", help="its name")
    parser.add_argument("member", nargs="+", help=_MEMBERS)
    parser.add_argument("--dry-run", action="store_true", help="only print what would be done")
    add_reason_option(parser)


def _list(options: argparse.Namespace, tagged: TaggedCluster) -> int:
    requesting = requesting_instances(tagged)
    rows = [
        _row(tagged, members, requesting.get(members.name, []))
        for members in aggregates(tagged.rules.membership).values()
    ]
    tables.print_fields(options, FIELDS, _USUAL, rows)
    return EXIT_OK


def _row(tagged: TaggedCluster, members: Members, instances: list[str]) -> dict[str, tables.Value]:
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
            f"{options.name!a} is not an aggregate with members, a node, a node group or an "
            f"instance of {tagged.source.where}"
        )
    sys.stdout.write("\n".join(found))
    return EXIT_OK


def _check(options: argparse.Namespace, tagged: TaggedCluster) -> int:
    tables.print_notes((*never_seen(tagged), *end_notes(tagged.rules, time.time)))
    wrong, standing = list(faults(tagged)), list(misplaced(tagged))
    well = not wrong and not standing
    if options.json:
        wrong_data, standing_data = ([one._asdict() for one in some] for some in (wrong, standing))
        data = {"well": well, "faults": wrong_data, "misplaced": standing_data}
        tables.print_json(data)
    else:
        sentences = [one.sentence for one in wrong] + [one.sentence for one in standing]
        print("\n".join(sentences or ["Nothing is wrong."]))
    return EXIT_OK if well else EXIT_FAILURE


def _change(options: argparse.Namespace, tagged: TaggedCluster) -> int:
    removed = options.what == "remove"
    changes = plan(tagged.cluster, options.name, options.member, removed=removed)
    jobs = tagged.jobs
    if not changes:
        print("Nothing to do: all of them are in it already.")
    elif not options.dry_run:
        with Interrupts(interrupt_printer("the submitted job")) as interrupts:
            write(jobs, changes, f"aggregate {options.what} {options.name}", interrupts)
    print_changes(options, changes)
    return EXIT_OK
