"""What the commands about aggregates start from: a cluster with its rules, names, columns."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.core.commands.tables import add_table_options, print_notes, table
from ganeti_steward.core.config import config_path, load_config
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.sources import Source, read_source
from ganeti_steward.plugins.aggregates.membership import Names, Rules, read_rules
from ganeti_steward.plugins.aggregates.wishes import read_wishes

if TYPE_CHECKING:
    from ganeti_steward.core.model import Cluster

#: Names shown of each kind unless all are asked for.
SHOWN: Final = 10


class Site(NamedTuple):
    """A cluster and what its tags and the configuration say."""

    source: Source
    rules: Rules

    @property
    def cluster(self) -> Cluster:
        """The snapshot."""
        return self.source.cluster


def read_site(options: argparse.Namespace) -> Site:
    """The cluster that was asked for with its rules; raises StewardError."""
    config = load_config(config_path())
    source = read_source(options)
    rules = read_rules(source.cluster, config.aggregates)
    print_notes((*source.notes, *rules.notes))
    return Site(source, rules)


def asking(site: Site) -> dict[str, Names]:
    """Instance -> the aggregates it mentions positively."""
    return {
        instance.name: read_wishes(site.rules, instance).wishes.wanted
        for instance in site.cluster.instances
    }


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
    """``-o`` and Ganeti's two options for lists; ``fields``: name -> heading."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="FIELD,...",
        help="the columns, after a + besides the usual ones; known: " + ", ".join(fields),
    )
    add_table_options(parser)


def field_table(
    options: argparse.Namespace,
    fields: Mapping[str, str],
    usual: Sequence[str],
    rows: Sequence[Mapping[str, str]],
) -> str:
    """The rows with the columns that were asked for; raises StewardError."""
    given: str | None = options.output
    chosen = list(usual)
    if given is not None:
        more = given.removeprefix("+").split(",")
        chosen = [*chosen, *more] if given.startswith("+") else more
    unknown = [name for name in chosen if name not in fields]
    if unknown:
        raise StewardError(f"unknown field {unknown[0]!a} (known: {', '.join(fields)})")
    return table(
        [fields[name] for name in chosen],
        [[row[name] for name in chosen] for row in rows],
        separator=options.separator,
        no_headers=options.no_headers,
    )
