"""``gnt-steward place``: where a new instance would go; nothing is changed."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ganeti_steward.allocators.advice.case import Case
from ganeti_steward.allocators.advice.proposals import room_made
from ganeti_steward.allocators.cli.allocator_options import (
    add_advice_options,
    add_passed_options,
    option,
)
from ganeti_steward.allocators.cli.explain import AS_DATA, VERBOSE, advice_on, as_data, as_text
from ganeti_steward.allocators.cli.explanation_text import VERDICTS, View, verdict_rows
from ganeti_steward.allocators.cli.instance_options import (
    NAME,
    add_instance_options,
    instance_options,
    instance_request,
    known_template,
)
from ganeti_steward.allocators.cli.texts import moves_script
from ganeti_steward.core.builtins import ALLOCATION
from ganeti_steward.core.commands.cluster_options import add_source_options, read_source
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.manual import SIZES, describe
from ganeti_steward.core.commands.tables import (
    add_field_options,
    is_list,
    print_fields,
    print_json,
    print_messages,
    print_notes,
)
from ganeti_steward.core.commands.terminal import progress
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK
from ganeti_steward.core.iallocator.dispatch import dispatch
from ganeti_steward.core.model.answer import Answer, Outcome
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.options import parse_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """gnt-instance's options for a new instance, and where the cluster is."""
    describe(
        parser,
        {
            "gnt-steward place -t drbd -s 20g --memory 4g -c 2": "where this instance would go",
            "gnt-steward place -t plain -s 100g --why-not node3": "what keeps it from node3",
            "gnt-steward place -t drbd -s 500g --make-room": "moves of others that make room",
        },
        statuses={EXIT_FAILURE: "there is no place, or the cluster cannot be read"},
        units=f"{SIZES} --effort is in seconds of CPU.",
    )
    parser.add_argument("name", nargs="?", default=NAME, help="the new instance's name")
    option(parser, "-t, --disk-template TEMPLATE", "e.g. drbd", required=True)
    add_instance_options(parser)
    option(parser, "-v, --verbose", VERBOSE)
    add_field_options(parser, VERDICTS, json=AS_DATA)
    text = "where there is no place, print up to three moves of other instances that make one, "
    option(parser, "--make-room", f"{text}as gnt-* commands")
    add_advice_options(parser)
    add_passed_options(parser)
    add_source_options(parser, positional=False)


def run(options: argparse.Namespace) -> int:
    """Show the place and why; status 1 when there is none."""
    config = configuration(ALLOCATION)
    arguments = parse_options(options.option)
    template = known_template(options.disk_template)
    source = read_source(options, template)
    source.check_template(template)
    print_notes(source.notes)
    request = instance_request(instance_options(options, options.name), template, source)
    cluster = _as_sent_by_ganeti(source.cluster)
    with progress("looking for a place"):
        outcome = dispatch(request, cluster, config, arguments, explain=True)
    case = Case(request, cluster, arguments)
    if options.make_room:
        return _make_room(case, outcome, config, options)
    advice = advice_on(case, outcome, config, options)
    if is_list(options):
        rows = list(verdict_rows(outcome.explanations))
        print_fields(options, VERDICTS, tuple(VERDICTS), rows)
    elif options.json:
        print_json(as_data(outcome, advice))
    else:
        sys.stdout.write(as_text(outcome, View(options.verbose)))
        sys.stdout.write(advice.text)
    return EXIT_OK if isinstance(outcome, Answer) else EXIT_FAILURE


def _make_room(case: Case, outcome: Outcome, config: Config, options: argparse.Namespace) -> int:
    """Print the moves; status 1 when none make room."""
    if isinstance(outcome, Answer):
        result: Any = outcome.result
        print(f"# {options.name} fits on {'/'.join(result)} without moves")
        return EXIT_OK
    with progress("looking for moves that make room"):
        found = room_made(case, config, options.effort)
    if found is not None and found.found:
        sys.stdout.write(moves_script(found.found[0], options.name))
        return EXIT_OK
    bounded = found is not None and found.bounded
    limit = f" in {options.effort:g} s of CPU (--effort)" if bounded else ""
    nothing = f"no moves of up to three instances were found that make room{limit}"
    print_messages([f"no place: {outcome.info}", nothing])
    return EXIT_FAILURE


def _as_sent_by_ganeti(cluster: Cluster) -> Cluster:
    """Without what Ganeti does not send to an allocator, so that both find the same place."""
    return cluster.replace(
        (node._replace(cpu_speed=1.0) for node in cluster.nodes),
        (one._replace(auto_balance=True, forthcoming=False) for one in cluster.instances),
    )
