"""The commands of the how-tos, typed on a cluster as the pages have them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

import pytest
from paths import DOCS
from thorough import often

from ..cluster import until
from .faults.breaking import power_program, without_power
from .faults.findings import says
from .faults.watched import Runs
from .maintained_lab import MaintainedLab
from .planned.rolling import states

#: What the pages name -> what the lab has.
NAMES: Final = {
    ".example.com": ".lab",
    "node7": "node6",
    " rack1 ": " default ",
    "vg=ssd": "vg=labvg",
    "INSTANCE": "web1.lab",
}
#: What a page needs that is there on a real cluster.
Instances = tuple[tuple[str, str, str], ...]


ADDED: Final = (
    "gnt-instance add -I steward -t diskless -o noop -B memory=512 --no-name-check --no-ip-check"
)


class Page(NamedTuple):
    """A how-to, and what it takes for granted."""

    name: str
    commands: int
    """how many of the page are typed, at least"""
    instances: Instances = ()
    before: tuple[str, ...] = ()
    """typed first"""
    left_out: Mapping[str, str] = {}
    """beginning of a command -> why it is not typed here"""


PAGES: Final = (
    Page(
        "common-tasks",
        20,
        (("dns1.lab", "diskless", "node1.lab"), ("dns2.lab", "diskless", "node1.lab")),
        ("gnt-node add-tags node1.lab rack:a",),
    ),
    Page("find-out-why", 5, before=tuple(f"{ADDED} web{at}.lab" for at in (1, 2))),
    Page(
        "reserve-hosts",
        6,
        left_out={"gnt-instance add -I": "the page leaves out what else it needs"},
    ),
    Page("balance-in-rounds", 2),
    Page(
        "shut-everything-down",
        4,
        tuple((f"{name}.lab", "diskless", "node2.lab") for name in ("web1", "db1", "dns1")),
        left_out={
            "gnt-steward maintenance shutdown --all --order order: --timeout": "ends the machine",
            "gnt-steward maintenance shutdown --all --order order:\n": "tests/lab has it",
            "gnt-steward maintenance bring-up": "nothing was shut down",
        },
    ),
    Page(
        "repair-nodes",
        4,
        left_out={
            "gnt-steward incident ack": "no incident is there",
            "gnt-node modify": "no node is offline",
        },
    ),
)
#: Beginning of a command -> its exit statuses here, where 1 is for what it has found.
FOUND: Final = {"gnt-steward check": (0, 1), "gnt-steward maintenance plan --all": (0, 1)}


def commands(name: str) -> list[str]:
    """The indented commands of a page, without what stands beside them."""
    text = (DOCS / "how-to" / f"{name}.md").read_text()
    lines = re.findall(r"^ {4,8}(gnt-\S+ .*)$", text, re.MULTILINE)
    return [re.split(r" {2,}", line)[0] for line in lines]


def here(line: str, names: Mapping[str, str] = NAMES) -> str:
    """A command with the names of the lab."""
    for name, own in names.items():
        line = line.replace(name, own)
    return line


def typed(lab: MaintainedLab, line: str, **names: str) -> str:
    """What a command prints on the master, which must succeed; ``names``: further ones."""
    program, _, rest = here(here(line, names)).partition(" ")
    program = str(lab.programs / program) if program == "gnt-steward" else program
    # No one confirms it: there is no terminal.
    rest = rest.replace("--offline no", "--offline no -f")
    text = f"set -f; {program} {rest} 2>&1; echo status $?"
    printed = lab.on(lab.master, "sh", "-c", text)
    output, _, status = printed.rpartition("status ")
    expected = next((found for begin, found in FOUND.items() if line.startswith(begin)), (0,))
    assert int(status) in expected, f"{line}\n{printed}"
    return output


@contextmanager
def clean_tags(lab: MaintainedLab) -> Iterator[None]:
    """Tags of the cluster and of groups that the block sets are removed at its end."""

    def found() -> set[tuple[str, str, str]]:
        rows = lab.luxi.rows("group", ("name", "tags"))
        groups = {("group", row["name"], tag) for row in rows for tag in row["tags"]}
        return groups | {("cluster", "", tag) for tag in lab.luxi.info()["tags"]}

    before = found()
    try:
        yield
    finally:
        for kind, name, tag in sorted(found() - before):
            lab.on(lab.master, f"gnt-{kind}", "remove-tags", *([name] if name else []), tag)


@pytest.mark.parametrize("page", PAGES[: often(2, len(PAGES))], ids=lambda page: page.name)
def test_each_command_of_a_how_to(maintained: MaintainedLab, page: Page) -> None:
    lab, number = maintained, 0
    if page.instances:
        lab.place(*page.instances)
    with clean_tags(lab), lab.daemon(mode="observe"):
        until(lambda: lab.steward("maintd", "status").returncode == 0)
        for line in (*page.before, *commands(page.name)):
            if not any(f"{line}\n".startswith(begin) for begin in page.left_out):
                typed(lab, line)
                number += 1
    assert number >= page.commands + len(page.before)


DEAD: Final = "node2.lab"
#: What the cells of the page's table have that a person does.
CELLS: Final = r"`(gnt-node add-tags NODE [^`]+)`"


def test_a_dead_node_by_the_page(maintained: MaintainedLab, runs: Runs) -> None:
    """From the first look to the node that is taken back, each command as the page has it."""
    lab, page = maintained, DOCS / "how-to" / "when-a-node-is-dead.md"
    listed, planned, shown, *priorities, oob, power, back, ack = commands(page.stem)
    (off,) = re.findall(CELLS, page.read_text())
    names = [line.split()[2].replace(".example.com", ".lab") for line in priorities]
    lab.place(*((name, "ext", DEAD) for name in names))
    for line in priorities:
        typed(lab, line)
    with power_program(lab) as folder:
        oob = oob.replace("/usr/local/sbin/oob", str(folder / "oob"))
        assert typed(lab, oob) == ""
        assert "powered" in typed(lab, power)
    with lab.daemon("dead-after = 5\n"):
        with without_power(lab, DEAD):
            says(lab, "3 instances are down with it", "power status")
            assert DEAD in typed(lab, listed)
            uuid = lab.incident(DEAD).uuid
            words = {"NODE": DEAD, "UUID": uuid}
            assert off.replace("NODE", DEAD).replace("UUID", uuid) in typed(lab, planned)
            typed(lab, off, **words)
            first, last, never = names
            until(lambda: [] not in (runs.now(first), runs.now(last)))
            until(lambda: not lab.incident(DEAD).active)
            assert runs.now(never) == []
            assert never in typed(lab, shown, **words)
        for line in (back, ack):
            typed(lab, line, **words)
        until(lambda: lab.node(DEAD, "offline", "tags") == [False, []])


@pytest.mark.thorough
def test_a_roll_by_the_page(maintained: MaintainedLab) -> None:
    """All nodes but the master are rebooted by the page's commands, without `ssh`."""
    lab, rebooted = maintained, set[str]()
    lines = commands("reboot-all-nodes")
    (done,) = (line for line in lines if line.startswith("gnt-steward maintenance done "))
    lab.place(("web1.lab", "drbd", "node2.lab:node3.lab"), ("db1.lab", "plain", "node4.lab"))
    before = lab.running("node2.lab"), lab.running("node4.lab")
    with lab.daemon():
        for line in lines[: 1 + lines.index(next(one for one in lines if " roll " in one))]:
            typed(lab, line)

        def over() -> bool:
            found = states(lab)
            for node in (one for one, state in found.items() if state == "ready"):
                if node not in rebooted:
                    rebooted.add(node)
                    lab.power_off(node)
                    lab.power_on(node)
                    typed(lab, done, node3=node)
            return rebooted == {*lab.nodes[1:]} and not {*found.values()} - {"done"}

        until(over, 900)
    assert (lab.running("node2.lab"), lab.running("node4.lab")) == before
