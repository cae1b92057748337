"""The options that name the cluster: each command has those that work for it, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest
from command_parsers import parsers
from paths import CAPTURES, DATA

if TYPE_CHECKING:
    from pathlib import Path

    from front import Front

#: Command -> arguments with which it needs the cluster; NODE and GROUP stand for names in it.
ARGUMENTS: Final = {
    "aggregate add": "gold NODE",
    "aggregate check": "",
    "aggregate fix": "",
    "aggregate hosts": "gold",
    "aggregate list": "",
    "aggregate remove": "gold NODE",
    "aggregate show": "NODE",
    "balance": "",
    "capacity": "",
    "check": "",
    "exporter": "--once",
    "filter add": "",
    "filter apply": f"{DATA / 'rules.toml'}",
    "filter delete": "4f6d6c1c-0000-4000-8000-000000000001",
    "filter diff": "live live",
    "filter explain": "1",
    "filter info": "",
    "filter lint": "",
    "filter list": "",
    "filter recipe drain": "upgrade --submit",
    "filter recipe forbid": "upgrade --submit",
    "filter recipe limit": "upgrade 2 --submit",
    "filter recipe only": "upgrade --submit",
    "filter recipe remove": "upgrade",
    "filter recipe soft-drain": "upgrade --submit",
    "filter replace": "4f6d6c1c-0000-4000-8000-000000000001",
    "filter simulate": "live jobs.json",
    "group-evacuate": "GROUP",
    "incident ack": "5b0c9f7e",
    "incident cancel": "5b0c9f7e",
    "incident fence": "5b0c9f7e",
    "incident confirm": "5b0c9f7e",
    "incident list": "",
    "incident show": "5b0c9f7e",
    "leftovers": "",
    "maintenance bring-up": "",
    "maintenance cancel": "NODE",
    "maintenance done": "NODE",
    "maintenance list": "",
    "maintenance pause": "",
    "maintenance plan": "NODE",
    "maintenance resume": "",
    "maintenance roll": "--all",
    "maintenance run": "NODE",
    "maintenance show": "NODE",
    "maintenance shutdown": "NODE --yes",
    "maintenance wait": "NODE",
    "maintenance start": "NODE",
    "maintd pause": "work",
    "maintd plan": "",
    "maintd resume": "",
    "place": "-t diskless",
    "reserve create": "trial",
    "reserve extend": "trial NODE",
    "reserve list": "",
    "reserve release": "trial",
    "simulate": "--days 0.01",
    "volume-groups": "--update",
}

#: Option -> a cluster that cannot be reached.  Of RAPI the other options follow from the first.
UNREACHABLE: Final = {"--luxi-socket": "/nowhere/luxid", "--rapi": "127.0.0.1:1"}

#: Option -> a file, with a node and a node group in it.
FILES: Final = {
    "--file": (CAPTURES / "allocate-drbd.in.json", "node1.lab", "default"),
    "--text-data": (DATA / "balance" / "there-and-back.data", "node001.example.com", "group00"),
}

#: The daemon itself has luxid's socket only, and does not end where luxid is missing.
DAEMON: Final = "maintd"


def offered(options: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Each command with each of these options that it has."""
    for words, one in parsers():
        found = {name for action in one._actions for name in action.option_strings}
        name = " ".join(words)
        yield from ((name, option) for option in options if option in found and name != DAEMON)


def test_every_command_that_reads_a_cluster_is_here() -> None:
    assert dict(offered(("--luxi-socket",))).keys() == ARGUMENTS.keys()


@pytest.mark.parametrize(("command", "option"), [*offered(tuple(UNREACHABLE))])
def test_a_cluster_is_queried(front: Front, tmp_path: Path, command: str, option: str) -> None:
    where, key = UNREACHABLE[option], tmp_path / "hmac.key"
    key.write_bytes(b"k" * 32)
    front.configure(f'[maintd]\nkey-file = "{key}"')
    done = front(*command.split(), *ARGUMENTS[command].split(), option, where)
    assert done.status == (3 if command == "check" else 1)
    assert where in done.err


@pytest.mark.parametrize(("command", "option"), [*offered(tuple(FILES))])
def test_a_file_is_enough(front: Front, command: str, option: str) -> None:
    file, node, group = FILES[option]
    given = ARGUMENTS[command].replace("NODE", node).replace("GROUP", group).split()
    done = front(*command.split(), *given, option, str(file))
    assert f"gnt-steward {command.split(maxsplit=1)[0]}: " not in done.err
    assert done.out or done.err


#: How commands begin that write to the cluster, or read what no file has.
LIVE: Final = (
    "aggregate add",
    "aggregate remove",
    "filter",
    "incident",
    "leftovers",
    "maintd",
    "reserve create",
    "reserve extend",
    "reserve release",
)


def test_others_offer_no_file_and_no_rapi() -> None:
    for_files = {command for command, _ in offered(tuple(FILES))}
    assert not [one for one in for_files if one.startswith(LIVE)]
    by_rapi = {command for command, _ in offered(("--rapi",))}
    assert ARGUMENTS.keys() - by_rapi == {
        "incident confirm",
        "maintd plan",
        "maintenance bring-up",
        "maintenance roll",
        "maintenance run",
        "maintenance shutdown",
        "maintenance start",
        "volume-groups",
    }
