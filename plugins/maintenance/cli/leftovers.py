"""``gnt-steward leftovers``: what of a cluster still names Steward, before it is uninstalled."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ganeti_steward.core.commands.cluster_options import add_source_options
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import add_json_option, print_json, print_lines
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK
from ganeti_steward.core.model.site_rules import TAG_PREFIX
from ganeti_steward.plugins.filters.filter_rules import FilterRule, read_rules
from ganeti_steward.plugins.filters.rule_notes import noted_action, purpose_of
from ganeti_steward.plugins.maintenance.cli.cluster import live_client
from ganeti_steward.plugins.model.debts import meaning

if TYPE_CHECKING:
    from ganeti_steward.core.ganeti.luxi import Luxi
    from ganeti_steward.core.ganeti.rapi import Rapi

#: The name of the allocator, and what the tags begin with that only Steward reads.
_ALLOCATOR: Final = "steward"
_TAGS: Final = (TAG_PREFIX, "maintd:")

#: Kind of object -> the command that removes its tags.
_UNTAG: Final = {
    "cluster": "gnt-cluster remove-tags",
    "group": "gnt-group remove-tags",
    "node": "gnt-node remove-tags",
    "instance": "gnt-instance remove-tags",
}


class Leftover(NamedTuple):
    """One thing that names Steward."""

    what: str
    """in words, without a full stop"""
    command: str
    """removes it"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the cluster is."""
    describe(
        parser,
        {
            "gnt-steward leftovers": "of the cluster of this master, with commands to remove it",
            "gnt-steward leftovers --rapi cluster.example.com": "from anywhere",
        },
        statuses={
            EXIT_OK: "nothing names Steward",
            EXIT_FAILURE: "something does, or the cluster cannot be read",
        },
    )
    add_json_option(parser, "the same as data")
    add_source_options(parser, positional=False, files=False)


def run(options: argparse.Namespace) -> int:
    """Print everything with the command that removes it; status 1 when there is any."""
    found = list(leftovers(live_client(options)))
    if options.json:
        print_json([one._asdict() for one in found])
    elif not found:
        print("Nothing in the cluster names Steward.")
    else:
        for one in found:
            print_lines([one.what, f"    {one.command}"])
    return EXIT_FAILURE if found else EXIT_OK


def leftovers(client: Luxi | Rapi) -> Iterator[Leftover]:
    """The default allocator, tags and filter rules; raises StewardError."""
    info = client.info()
    yield from _allocator(info)
    yield from _tags("cluster", "", info["tags"])
    nodes = {row["uuid"]: row["name"] for row in client.rows("node", ("uuid", "name"))}
    for kind in ("group", "node", "instance"):
        for row in client.rows(kind, ("name", "tags")):
            yield from _tags(kind, row["name"], row["tags"] or (), nodes)
    for rule in read_rules(client).rules:
        yield from _rule(rule)


def _allocator(info: Mapping[str, Any]) -> Iterator[Leftover]:
    if info.get("default_iallocator") != _ALLOCATOR:
        return
    yield Leftover(
        f"{_ALLOCATOR} is the default allocator: commands without -I would fail",
        "gnt-cluster modify --default-iallocator=hail",
    )
    if parameters := info.get("default_iallocator_params"):
        names = ", ".join(sorted(parameters))
        yield Leftover(
            f"the default allocator has parameters, which another may not know: {names}",
            "gnt-cluster modify --default-iallocator-params=",
        )


def _tags(
    kind: str, name: str, tags: Sequence[str], nodes: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Leftover]:
    """One entry for all tags of one object, which one command removes."""
    own = sorted(tag for tag in tags if tag.startswith(_TAGS))
    if own:
        of = f"{kind} {name}".strip()
        words = [name, *own] if name else own
        count = "a tag" if len(own) == 1 else f"{len(own)} tags"
        meant = "; ".join(filter(None, (meaning(tag, nodes) for tag in own)))
        what = f"{of} has {count}: {', '.join(own)}" + (f" ({meant})" if meant else "")
        yield Leftover(what, f"{_UNTAG[kind]} {shlex.join(words)}")


def _rule(rule: FilterRule) -> Iterator[Leftover]:
    noted, purpose = noted_action(rule), purpose_of(rule)
    if noted is not None:
        what = f"holds jobs until the maintenance daemon releases them ({noted.text})"
    elif purpose.kind:
        what = f"was made by Steward ({purpose.word})"
    else:
        return
    yield Leftover(f"filter rule {rule.uuid} {what}", f"gnt-filter delete {rule.uuid}")
