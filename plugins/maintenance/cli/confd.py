"""``gnt-steward confd``: query the master candidates' confd, and see who they say is master."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_NOT_MASTER, EXIT_OK, StewardError
from ganeti_steward.core.ganeti.hmac_key import PATH, KeyFile
from ganeti_steward.core.ganeti.this_node import DATA, candidate_addresses, this_node
from ganeti_steward.plugins.maintenance.confd.choice import Mastership, newest, vote
from ganeti_steward.plugins.maintenance.confd.client import PORT, TIME_LIMIT, Confd
from ganeti_steward.plugins.maintenance.confd.messages import (
    MASTER_FIELDS,
    Query,
    QueryType,
    Reply,
    ReplyStatus,
)


class _Kind(NamedTuple):
    """A query by its name on the command line."""

    type: QueryType
    text: str
    argument: str = ""
    """what it takes: required, or optional in brackets; empty: nothing"""


QUERIES: Final[Mapping[str, _Kind]] = {
    "ping": _Kind(QueryType.PING, "the version of the configuration"),
    "master": _Kind(QueryType.CLUSTER_MASTER, "name of the master, cluster and master address"),
    "candidates": _Kind(QueryType.MASTER_CANDIDATE_IPS, "addresses of the master candidates"),
    "nodes": _Kind(QueryType.NODE_PRIMARY_IPS, "primary addresses of all nodes"),
    "role": _Kind(QueryType.NODE_ROLE, "role of a node (0 master ... 4 regular)", "NODE"),
    "instances": _Kind(QueryType.NODE_INSTANCES, "instances of a node", "NODE"),
    "drbd": _Kind(QueryType.NODE_DRBD, "DRBD minors of a node", "NODE"),
    "disks": _Kind(QueryType.INSTANCE_DISKS, "disks of an instance", "INSTANCE"),
    "instance-ips": _Kind(QueryType.INSTANCE_IPS, "addresses of instances", "[LINK]"),
    "config": _Kind(QueryType.CONFIG, "a value of the configuration", "PATH"),
    "collectors": _Kind(QueryType.DATA_COLLECTORS, "collectors of the monitoring daemon"),
    "vote": _Kind(QueryType.CLUSTER_MASTER, "whether this node is the master"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    describe(
        parser,
        {
            "gnt-steward confd vote": "whether this node is the master",
            "gnt-steward confd role node3.example.com": "the role of a node, as a number",
            "gnt-steward confd config /cluster/cluster_name": "a value of the configuration",
        },
        statuses={
            EXIT_OK: "there is an answer; with vote: this node is the master",
            EXIT_FAILURE: "no candidate replied, they disagree, or the answer is an error; with "
            "vote: undecided",
            EXIT_NOT_MASTER: "with vote: another node is the master",
        },
        lists={
            "queries": {
                f"{name} {kind.argument}".strip(): kind.text for name, kind in QUERIES.items()
            }
        },
    )
    parser.add_argument("query", choices=QUERIES, metavar="QUERY", help="see below")
    parser.add_argument("argument", nargs="?", help="what the query takes")
    parser.add_argument(
        "-a",
        "--address",
        action="append",
        metavar="IP",
        help="a master candidate; default: those this node knows; may be repeated",
    )
    parser.add_argument("-p", "--port", type=int, default=PORT, help="default: %(default)s")
    parser.add_argument("--key-file", default=PATH, help="default: %(default)s")
    parser.add_argument(
        "--time-limit", type=float, default=TIME_LIMIT, help="seconds, default: %(default)g"
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="also print the reply of each candidate"
    )
    parser.set_defaults(data=DATA)


def run(options: argparse.Namespace) -> int:
    """Print the answer as JSON; status 1 when there is none, or an error."""
    kind = QUERIES[options.query]
    client = Confd(
        KeyFile(options.key_file),
        options.address or candidate_addresses(options.data),
        port=options.port,
        time_limit=options.time_limit,
    )
    replies = client.query(
        kind.type,
        _query(options.query, kind, options.argument),
        all_replies=options.verbose or options.query == "vote",
    )
    if options.verbose:
        _print_replies(replies, client.candidates)
    if options.query == "vote":
        return _print_vote(this_node(options.data).name, replies, len(client.candidates))
    return _print_answer(newest(replies))


def _query(name: str, kind: _Kind, argument: str | None) -> Query:
    """The query's content; raises StewardError for a missing or superfluous argument."""
    if kind.argument and argument is None and not kind.argument.startswith("["):
        raise StewardError(f"the query {name} requires an argument: {kind.argument}")
    if not kind.argument and argument is not None:
        raise StewardError(f"the query {name} takes no argument, found {argument!r}")
    return MASTER_FIELDS if kind.type is QueryType.CLUSTER_MASTER else argument


def _print_replies(replies: Sequence[Reply], candidates: Sequence[str]) -> None:
    found = {reply.peer: reply for reply in replies}
    for candidate in candidates:
        reply = found.get(candidate)
        text = "no reply"
        if reply:
            status = reply.status.name.lower().replace("_", " ")
            text = f"{status}, serial {reply.serial}: {json.dumps(reply.answer)}"
        print(f"{candidate}: {text}", file=sys.stderr)


def _print_answer(reply: Reply) -> int:
    print(json.dumps(reply.answer))
    if reply.status is not ReplyStatus.OK:
        print(f"{reply.peer} answers with an error", file=sys.stderr)
        return EXIT_FAILURE
    return EXIT_OK


def _print_vote(own_name: str, replies: Sequence[Reply], candidates: int) -> int:
    result = vote(own_name, replies, candidates)
    print(f"{result.mastership.value}: {result.reason}")
    if result.mastership is Mastership.NOT_MASTER:
        return EXIT_NOT_MASTER
    return EXIT_OK if result.mastership is Mastership.MASTER else EXIT_FAILURE
