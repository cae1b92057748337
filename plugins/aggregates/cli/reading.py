"""What the commands about aggregates share: a cluster with its rules, names, columns."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from ganeti_steward.core.commands.cluster_options import read_source
from ganeti_steward.core.commands.tables import add_table_options, print_notes, table
from ganeti_steward.core.config.load import config_path, load_config
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.sources import Source
from ganeti_steward.plugins.aggregates.config import Aggregates
from ganeti_steward.plugins.aggregates.declarations import read_rules
from ganeti_steward.plugins.aggregates.membership import Rules
from ganeti_steward.plugins.aggregates.requirements import read_requirements

if TYPE_CHECKING:
    from ganeti_steward.core.ganeti.jobs import Jobs
    from ganeti_steward.core.model.cluster import Cluster

#: Names shown of each kind unless all are requested.
SHOWN: Final = 10

#: A field of a list: a word, how many, yes or no, names.
Value = str | int | bool | Sequence[str]


class TaggedCluster(NamedTuple):
    """A cluster with the rules of its tags and of the configuration."""

    source: Source
    rules: Rules

    @property
    def cluster(self) -> Cluster:
        """The snapshot."""
        return self.source.cluster

    @property
    def jobs(self) -> Jobs:
        """The client that writes its tags; raises StewardError for a file."""
        if self.source.jobs is None:
            raise StewardError(f"tags are written to a live cluster, not to {self.source.where}")
        return self.source.jobs


def run_action(options: argparse.Namespace) -> int:
    """Run the sub-command's function ``act`` on the cluster; raises StewardError."""
    act: Callable[[argparse.Namespace, TaggedCluster], int] = options.act
    return act(options, read_tagged(options))


def read_tagged(options: argparse.Namespace) -> TaggedCluster:
    """The cluster the options name, with its rules; raises StewardError."""
    config = load_config(config_path())
    source = read_source(options)
    rules = read_rules(source.cluster, config.section(Aggregates))
    print_notes((*source.notes, *rules.notes))
    return TaggedCluster(source, rules)


def requesting_instances(tagged: TaggedCluster) -> dict[str, list[str]]:
    """Aggregate -> the instances that mention it positively, where there are any."""
    found: dict[str, list[str]] = {}
    for instance in tagged.cluster.instances:
        for name in read_requirements(tagged.rules, instance).requirements.wanted:
            found.setdefault(name, []).append(instance.name)
    return found


def full_name(name: str, known: Collection[str]) -> str | None:
    """A name that may lack the domain, as gnt-* commands take it."""
    if name in known:
        return name
    found = [one for one in known if one.startswith(f"{name}.")]
    return found[0] if len(found) == 1 else None


def listed(names: Sequence[str], *, every: bool = True) -> str:
    """Names for a sentence; ``every`` False: the first ones and how many more."""
    shown = names if every else names[:SHOWN]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def add_field_options(parser: argparse.ArgumentParser, fields: Mapping[str, str]) -> None:
    """``-o``, ``--json`` and Ganeti's two options for lists; ``fields``: name -> heading."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="FIELD,...",
        help="the columns; after a + in addition to the usual ones; known: " + ", ".join(fields),
    )
    add_json_option(parser, "the same as data, without -o with all fields")
    add_table_options(parser)


def add_json_option(parser: argparse.ArgumentParser, text: str) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help=text)


def print_json(data: object) -> None:
    """The data of ``--json``."""
    sys.stdout.buffer.write(orjson.dumps(data, option=orjson.OPT_INDENT_2) + b"\n")


def print_fields(
    options: argparse.Namespace,
    fields: Mapping[str, str],
    usual: Sequence[str],
    rows: Sequence[Mapping[str, Value]],
) -> None:
    """The rows with the chosen fields; raises StewardError."""
    chosen = _chosen(options.output, fields, usual)
    if options.json:
        names = chosen if options.output is not None else fields
        print_json([{name: row[name] for name in names} for row in rows])
        return
    text = table(
        [fields[name] for name in chosen],
        [[_cell(row[name]) for name in chosen] for row in rows],
        separator=options.separator,
        no_headers=options.no_headers,
    )
    sys.stdout.write(text)


def _chosen(given: str | None, fields: Mapping[str, str], usual: Sequence[str]) -> Sequence[str]:
    """The names of the fields; raises StewardError."""
    if given is None:
        return usual
    more = given.removeprefix("+").split(",")
    unknown = [name for name in more if name not in fields]
    if unknown:
        raise StewardError(f"unknown field {unknown[0]!a} (known: {', '.join(fields)})")
    return [*usual, *more] if given.startswith("+") else more


def _cell(value: Value) -> str:
    if isinstance(value, bool):
        return "Y" if value else "N"
    if isinstance(value, str | int):
        return str(value)
    return ",".join(value) or "-"
