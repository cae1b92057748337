"""``gnt-steward capacity``: how many more instances fit, where, and what runs out first."""

from __future__ import annotations

import argparse
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ganeti_steward.allocators.capacity import sizes
from ganeti_steward.allocators.capacity.assumed import Assumed, assume
from ganeti_steward.allocators.cli.allocator_options import (
    add_offline_option,
    add_passed_options,
    add_plot_option,
    option,
)
from ganeti_steward.allocators.cli.instance_options import (
    InstanceOptions,
    add_instance_options,
    instance_options,
    instance_request,
    known_template,
)
from ganeti_steward.allocators.overview.picture import heading, write_plot, write_text
from ganeti_steward.allocators.state.names import meant_nodes, short_names
from ganeti_steward.allocators.state.sizes import UNITS, format_size, parse_size
from ganeti_steward.allocators.text_output import htools_text
from ganeti_steward.core.builtins import ALLOCATION
from ganeti_steward.core.commands import tables
from ganeti_steward.core.commands.cluster_options import add_source_options, read_source
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.manual import SIZES, describe
from ganeti_steward.core.commands.terminal import progress
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import EXIT_OK, StewardError
from ganeti_steward.core.ganeti.sources import Source
from ganeti_steward.core.iallocator.dispatch import dispatch
from ganeti_steward.core.json_reader import counted, quoted
from ganeti_steward.core.model.answer import Refusal
from ganeti_steward.core.model.cluster import Cluster, Spec
from ganeti_steward.core.model.options import Options, parse_options
from ganeti_steward.core.model.requests import Allocate, Capacity

#: Columns that a wrapped cell has at least.
_NARROWEST: Final = 24
#: The fields of a list of sizes: name -> heading; people get the last one below each line.
_FIELDS: Final = {
    "mode": "Mode",
    "template": "Template",
    "memory": "Memory",
    "disk": "Disk",
    "vcpus": "VCPUs",
    "fit": "Fit",
    "limit": "Runs out first",
    "nodes": "Nodes",
}
#: Places shown of each size, without --placements.
_SHOWN: Final = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """hspace's options where it has them, and gnt-instance's for a given instance."""
    describe(
        parser,
        {
            "gnt-steward capacity": "tiered and standard count of the cluster of this master",
            "gnt-steward capacity --text-data cluster.data --print-nodes": "with a row per node",
            "gnt-steward capacity -t drbd --memory 4g -c 2 --disk 0:size=20g": "of this instance",
            "gnt-steward capacity --only standard --add-nodes 1": "if there were one more node",
            "gnt-steward capacity --only standard -O power:a": "if these nodes were gone",
        },
        units=f"{SIZES} --units and --separator change how they are printed.",
    )
    text = "default: drbd where the policies allow it"
    option(parser, "-t, --disk-template TEMPLATE", text)
    text = "the fixed size, default: the policy's standard; DISK is what it takes on each node"
    option(parser, "--standard-alloc DISK,MEMORY,VCPUS", text)
    text = "the largest size of the tiered run, default: the policy's largest"
    option(parser, "--tiered-alloc DISK,MEMORY,VCPUS", text)
    text = "one of the two counts, not both"
    parser.add_argument("--only", choices=(sizes.STANDARD, sizes.TIERED), help=text)
    add_offline_option(parser)
    text = (
        "as if N more nodes like NODE were there, without instances; default: like the usable node "
        "with most memory, in its group; may be given several times"
    )
    option(parser, "--add-nodes N[:like=NODE][:group=GROUP]", text, several=True)
    option(parser, "--print-nodes", "also the nodes before and after")
    option(parser, "--placements", "all places in their order, not the first few")
    option(parser, "--no-capacity-checks", "nodes need not stay evacuable")
    add_passed_options(parser, example="--ignore-soft-errors")
    add_plot_option(parser, "filled by the first count")
    text = "write the cluster after each count to FILE.tiered and so on, in htools' text format"
    option(parser, "-S, --save FILE", text)
    tables.add_field_options(parser, _FIELDS, json="the same as data, with all places")
    add_units_option(parser)
    add_instance_options(parser)
    add_source_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the counts; the status does not depend on them."""
    config = configuration(ALLOCATION)
    given = list(options.option)
    if options.no_capacity_checks:
        given.append("--no-capacity-checks")
    arguments = parse_options(given)
    template = None if options.disk_template is None else known_template(options.disk_template)
    source = read_source(options, template)
    if template is not None:
        source.check_template(template)
    tables.print_notes(source.notes)
    found, arguments = _measured(source.cluster, arguments)
    offline = meant_nodes(options.offline, found)
    kvm_memory, group = arguments.kvm_memory, options.group
    assumed = assume(found, offline, options.add_nodes, group, kvm_memory)
    source, cluster = source._replace(cluster=assumed.cluster), assumed.cluster
    groups = sizes.counted_groups(cluster, group)
    template = template or sizes.usual_template(groups, source.templates)
    counter = _Counter(config, arguments)
    instance = instance_options(options)
    with progress(counter.words):
        if instance.sized:
            request = instance_request(instance, template, source)
            runs = [sizes.Filling("requested", sizes.fill(counter.count, cluster, request))]
        else:
            sized = _sized(instance, template, source)
            chosen = sizes.PolicySizes(
                options.only, _spec(options.standard_alloc), _spec(options.tiered_alloc)
            )
            runs = sizes.policy_runs(chosen, cluster, groups, sized, counter.count)
    if options.plot is not None:
        _plot(assumed, runs, options.plot, arguments)
    if options.save is not None:
        _save(runs, options.save, kvm_memory)
    if options.json:
        tables.print_json(as_data(assumed, runs))
    elif tables.is_list(options):
        tables.print_notes(assumed.sentences)
        tables.print_fields(options, _FIELDS, [*_FIELDS], _size_rows(runs, options))
    else:
        sys.stdout.write(as_text(assumed, runs, options))
    return EXIT_OK


def _measured(cluster: Cluster, options: Options) -> tuple[Cluster, Options]:
    """With the load that ``--mond`` wants, measured once and only where there is a node."""
    if not options.measured:
        return cluster, options
    from ganeti_steward.allocators.loads.measured_load import measured  # not for the help

    found, note = measured(cluster, options)
    tables.print_notes([note] if note else [])
    return found, options._replace(mond=False)


def _plot(assumed: Assumed, runs: Sequence[sizes.Filling], path: str, options: Options) -> None:
    """Draw the nodes now and filled by the first count; raises StewardError."""
    # They import the engine, which --help does not need.
    from ganeti_steward.allocators.overview.filled import overview
    from ganeti_steward.allocators.state.load import load

    now = load(assumed.cluster, None, options.kvm_memory)
    title = heading("Capacity", assumed.cluster.name, time.time())
    assumptions = "".join(f". {sentence[:-1]}" for sentence in assumed.sentences)
    if not runs:
        write_plot(path, overview(now), title, f"now; nothing was counted{assumptions}")
        return
    mode, filling = runs[0]
    note = f"now, and after {mode}: {counted(filling.total, 'instance')} more{assumptions}"
    after = load(filling.cluster, None, options.kvm_memory)
    write_plot(path, overview(now, after), title, note)


def _save(runs: Sequence[sizes.Filling], path: str, kvm_memory: int) -> None:
    """Write the cluster after each count, as hspace does; raises StewardError."""
    for at, run in enumerate(runs):
        before = sum(run.mode == other.mode for other in runs[:at])
        name = f"{path}.{run.mode}{f'-{before + 1}' if before else ''}"
        write_text(name, htools_text(run.filling.cluster, kvm_memory))


def count_policy_sizes(source: Source, config: Config, options: Options) -> list[sizes.Filling]:
    """The counts without any option: of the policies' sizes; raises StewardError."""
    groups = sizes.counted_groups(source.cluster, None)
    sized = _sized(InstanceOptions(), sizes.usual_template(groups, source.templates), source)
    count = _Counter(config, options).count
    return sizes.policy_runs(sizes.PolicySizes(), source.cluster, groups, sized, count)


class _Counter:
    """Sends ``capacity`` requests to the configured allocators."""

    def __init__(self, config: Config, options: Options) -> None:
        self._config, self._options = config, options
        self._counted = 0

    def words(self) -> str:
        """How far it is, for a user who waits."""
        return f"counting, {counted(self._counted, 'size')} done"

    def count(self, item: Allocate, cluster: Cluster, hints: bool) -> Mapping[str, object]:
        """The result; raises StewardError where there is none."""
        request = Capacity(item)
        outcome = dispatch(request, cluster, self._config, self._options, explain=hints)
        if isinstance(outcome, Refusal):
            raise StewardError(outcome.info)
        self._counted += 1
        result: Any = outcome.result
        return dict(result)


def _spec(text: str | None) -> Spec | None:
    """hspace's way to write a size."""
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != 3 or not (parts[2].isascii() and parts[2].isdigit() and len(parts[2]) < 6):
        raise StewardError(f"DISK,MEMORY,VCPUS is expected, found {quoted(text)}")
    disk, memory = (parse_size(part) for part in parts[:2])
    return Spec(memory, int(parts[2]), disk, disks=1, nics=0, spindles=1)


def _sized(options: InstanceOptions, template: str, source: Source) -> sizes.Sized:
    """Each size replaces the 1 MiB and the 1 vcpu; the rest of the request is the same."""
    disks = () if template == "diskless" else ("0:size=1",)
    small = options._replace(memory="1", vcpus="1", disks=disks)
    return sizes.Sized(instance_request(small, template, source))


def as_text(assumed: Assumed, runs: Sequence[sizes.Filling], options: argparse.Namespace) -> str:
    """What was assumed, a line for each size, then what is in use before and after."""
    cluster = assumed.cluster
    used = [sizes.usage(cluster), *(sizes.usage(run.filling.cluster) for run in runs)]
    shares = [
        (name, *(f"{100 * share[at]:.2f}%" for share in used))
        for at, name in enumerate(sizes.Usage._fields)
    ]
    modes = [f"after {run.mode} ({run.filling.total})" for run in runs]
    hidden = options.no_headers
    sentences = "".join(map(tables.wrapped, assumed.sentences))
    parts = [
        *([sentences] if sentences else []),
        _sizes_text(cluster, runs, options),
        tables.table(
            ("In use", "now", *modes), shares, no_headers=hidden, width=tables.terminal_width()
        ),
    ]
    if options.print_nodes:
        nodes, width = _nodes(cluster, runs, options), tables.terminal_width()
        parts.append(tables.table(*nodes, no_headers=hidden, width=width))
    return "\n".join(parts)


def _sizes_text(
    cluster: Cluster, runs: Sequence[sizes.Filling], options: argparse.Namespace
) -> str:
    """A line for each size, then its places below it."""
    steps = [(run.mode, step) for run in runs for step in run.filling.steps]
    rows = [_row(mode, step, units_of(options)) for mode, step in steps]
    headings = [*_FIELDS.values()][:-1]
    short = short_names([node.name for node in cluster.nodes])
    below = _places([step for _, step in steps], short, all_of_them=options.placements)
    lines = tables.table(headings, rows, no_headers=options.no_headers).splitlines(keepends=True)
    text = "" if options.no_headers else lines.pop(0)
    for line, row, places in zip(lines, rows, below, strict=True):
        text += _hanging(line, row[-1]) + (tables.wrapped(f"  {places}") if places else "")
    return text


def _hanging(line: str, last: str) -> str:
    """A line of a table whose last cell, ``last``, is wrapped where the terminal is too narrow."""
    width, start = tables.terminal_width(), len(line.rstrip("\n")) - len(last)
    if width is None or len(line) <= width + 1:
        return line
    parts = textwrap.wrap(last, max(width - start, _NARROWEST), break_long_words=False)
    return f"{line[:start]}{(chr(10) + ' ' * start).join(parts)}\n"


def _size_rows(
    runs: Sequence[sizes.Filling], options: argparse.Namespace
) -> list[Mapping[str, tables.Value]]:
    """A row for each size with its places, as `_FIELDS`."""
    rows: list[Mapping[str, tables.Value]] = []
    for run in runs:
        places = _places(run.filling.steps, {}, all_of_them=options.placements)
        for step, nodes in zip(run.filling.steps, places, strict=True):
            row = (*_row(run.mode, step, units_of(options)), nodes)
            rows.append(dict(zip(_FIELDS, row, strict=True)))
    return rows


def _row(mode: str, step: sizes.SizeCount, units: str) -> tuple[str, ...]:
    instance = step.instance
    return (
        mode,
        instance.template,
        format_size(instance.memory, units),
        format_size(instance.disk_space, units),
        str(instance.vcpus),
        str(len(step.placements)),
        step.limited_by,
    )


def _places(
    steps: Sequence[sizes.SizeCount], short: Mapping[str, str], *, all_of_them: bool
) -> list[str]:
    """The first places of each size, or all; ``short``: the names to print, if they are others."""
    found = []
    for step in steps:
        shown = step.placements if all_of_them else step.placements[:_SHOWN]
        left = len(step.placements) - len(shown)
        places = ["/".join(short.get(name, name) for name in nodes) for nodes in shown]
        found.append(" ".join([*places, *([f"and {left} more"] if left else [])]))
    return found


def _nodes(
    cluster: Cluster, runs: Sequence[sizes.Filling], options: argparse.Namespace
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """What is free on each node now and after each run."""
    units = units_of(options)
    short = short_names([node.name for node in cluster.nodes])
    headings = ["Node", "Free memory", "Free disk"]
    for run in runs:
        headings += [f"{run.mode}: memory", "disk", "copies"]
    rows = []
    for at, node in enumerate(cluster.nodes):
        unknown = node.lacks_disk_figures
        name = short[node.name] if options.separator is None else node.name
        disk = "?" if unknown else format_size(node.free_disk, units)
        row = [name, format_size(node.free_memory, units), disk]
        for run in runs:
            after = run.filling.cluster.nodes[at]
            places = [nodes for step in run.filling.steps for nodes in step.placements]
            copies = sum(node.name in nodes for nodes in places)
            disk = "?" if unknown else format_size(after.free_disk, units)
            row += [format_size(after.free_memory, units), disk, str(copies)]
        rows.append(row)
    return headings, rows


def as_data(assumed: Assumed, runs: Sequence[sizes.Filling]) -> dict[str, object]:
    """Everything for JSON."""
    return {
        "offline": assumed.offline,
        "added": [one._asdict() for one in assumed.added],
        "usage": sizes.usage(assumed.cluster)._asdict(),
        "runs": [
            {
                "mode": run.mode,
                "count": run.filling.total,
                "usage": sizes.usage(run.filling.cluster)._asdict(),
                "sizes": [_size(step) for step in run.filling.steps],
            }
            for run in runs
        ],
    }


def _size(step: sizes.SizeCount) -> dict[str, object]:
    instance = step.instance
    return {
        "disk_template": instance.template,
        "memory": instance.memory,
        "disk": instance.disk_space,
        "vcpus": instance.vcpus,
        "spindle_use": instance.spindle_use,
        "count": len(step.placements),
        "placements": step.placements,
        "limited_by": step.limited_by,
    }


def add_units_option(parser: argparse.ArgumentParser) -> None:
    """Ganeti's option for the sizes in a table."""
    parser.add_argument(
        "--units",
        choices=UNITS,
        help="the unit of memory and disk: h (scaled, with a suffix), m, g or t; default: h, "
        "with --separator m",
    )


def units_of(options: argparse.Namespace) -> str:
    """The unit chosen, or that of Ganeti's commands."""
    default = "h" if options.separator is None else "m"
    return str(options.units or default)
