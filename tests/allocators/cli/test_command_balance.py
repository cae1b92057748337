"""``gnt-steward balance``: the plan, and its commands."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import clusters
import pytest
from beside_hbal import everything, made
from fixed_plan import calls, install

from ganeti_steward.core.model.requests import Balance

if TYPE_CHECKING:
    from front import Front

Message = dict[str, Any]

#: Migration tags keep some instances from their secondaries.
TIED = (*everything(33, (4, 5)), "--migration-tags", "--per-node=3")


def cluster(*more: str) -> Message:
    return clusters.generate(
        "--nodes=8", "--groups=2", "--mix=drbd=1", "--seed=7", "--per-node=3", "--fill=.3", *more
    )


def first_two(message: Message) -> tuple[str, str]:
    """The instances the fixed plan moves."""
    one, other, *_ = sorted(message["instances"])
    return one, other


def test_plan(front: Front) -> None:
    message = cluster()
    install(front)
    done = front("balance", "--file", front.message(message))
    assert (done.status, done.err) == (0, "")
    first, second = first_two(message)
    a, b = message["instances"][first]["nodes"]
    sizes = [message["instances"][name]["disk_space_total"] / 1024 for name in (first, second)]
    lines = done.out.splitlines()
    assert lines[0] == "Group group00: score 10.50000000, no plan gets below 0.50000000"
    headings = ["#", "Instance", "From", "To", "How", "GiB", "Total", "Score", "Lowers"]
    assert lines[1].split() == headings
    last = ["8.00000000", "-"]
    assert lines[2].split() == ["1", first, f"{a}/{b}", f"{b}/{a}", "migrate", "0.0", "0.0", *last]
    rows = [line.split() for line in lines[3:5]]
    assert [row[:2] for row in rows] == [["2", first], ["3", second]]
    assert [row[4:] for row in rows] == [
        ["replace", f"{sizes[0]:.1f}", f"{sizes[0]:.1f}", "5.50000000", "cpu_load_cv"],
        ["replace", f"{sizes[1]:.1f}", f"{sum(sizes):.1f}", "3.00000000", "cpu_load_cv"],
    ]
    assert rows[0][2] == f"{b}/{a}"
    copied = f"{sum(sizes):.1f} GiB"
    way = "75.0 % of the way to the bound"
    assert lines[5] == f"Score 10.50000000 -> 3.00000000 ({way}), 3 moves, {copied}"
    assert lines[6:] == [
        "",
        "Group group01: score 1.25000000, no plan gets below 1.25000000",
        "Balanced: no allowed move lowers the score.",
        "Note: small",
        "",
        f"3 moves, {copied} to be copied, {sets(front, message)} job sets",
    ]


def sets(front: Front, message: Message) -> int:
    found: int = len(plan(front, message)["job_sets"])
    assert found > 1  # the first two moves are of one instance
    return found


def plan(front: Front, message: Message, *options: str) -> Any:
    done = front("balance", "--json", *options, "--file", front.message(message))
    assert (done.status, done.err) == (0, "")
    return json.loads(done.out)


def test_json(front: Front) -> None:
    message = cluster()
    install(front)
    data = plan(front, message)
    first, second = first_two(message)
    assert [move["instance"] for move in data["groups"][0]["moves"]] == [first, first, second]
    assert [group["way"] for group in data["groups"]] == [0.75, None]
    moves = [
        {key: value for key, value in move.items() if key not in ("score", "lowers")}
        for move in data["groups"][0]["moves"]
    ]
    # The steps are derived from the jobs, and are those of the allocator.
    assert data["steps"] == moves
    assert data["moves"] == 3
    assert data["copied"] == sum(move["copied"] for move in moves) > 0
    names = [job[0]["instance_name"] for jobs in data["job_sets"] for job in jobs]
    assert names == [first, first, second]


def test_an_allocator_that_explains_nothing(front: Front) -> None:
    message = cluster()
    install(front, explains=False)
    done = front("balance", "--file", front.message(message))
    assert done.status == 0
    lines = done.out.splitlines()
    assert lines[0].split() == ["#", "Instance", "From", "To", "How", "GiB", "Total"]
    assert [line.split()[1] for line in lines[1:4]] == [first_two(message)[at] for at in (0, 0, 1)]
    assert lines[-1].startswith("3 moves, ")
    assert plan(front, message)["groups"] == []
    none = front("balance", "-l", "0", "--file", front.message(message))
    assert (none.status, none.out) == (0, "No moves: as always\n")


@pytest.mark.parametrize("explains", [True, False])
def test_table_for_scripts(front: Front, *, explains: bool) -> None:
    message = cluster()
    install(front, explains=explains)
    done = front("balance", "--separator=|", "--no-headers", "--file", front.message(message))
    rows = [line.split("|") for line in done.out.splitlines()]
    assert [row[1] for row in rows] == ["1", "2", "3"]
    assert {row[0] for row in rows} == ({"group00"} if explains else {""})
    assert [bool(row[8]) for row in rows] == [explains] * 3
    headed = front("balance", "--separator=|", "--file", front.message(message))
    assert headed.out == f"Group|#|Instance|From|To|How|GiB|Total|Score|Lowers\n{done.out}"


def test_limit_reached(front: Front) -> None:
    install(front)
    done = front("balance", "-l", "2", "--file", front.message(cluster()))
    assert "Balanced" not in done.out
    text = "No moves left for this group: -l 2 was used up by group group00.\n"
    assert done.out.count(text) == 1
    none = front("balance", "-l", "0", "--file", front.message(cluster()))
    assert none.out.count("No moves: -l 0 allows none.\n") == 2


def test_commands(front: Front, tmp_path: Path) -> None:
    message = cluster()
    install(front)
    printed = front("balance", "-C", "--file", front.message(message)).out
    first, second = first_two(message)
    commands = [line for line in printed.splitlines() if not line.startswith("#")]
    assert commands[0].startswith("gnt-instance migrate -f ")
    assert [line.split()[-1] for line in commands] == [first, first, second]
    file = tmp_path / "plan.sh"
    done = front("balance", f"-C{file}", "--file", front.message(message))
    assert done.out.startswith("Group group00: ")
    assert file.read_text() == f"#!/bin/sh\nset -e\n{printed}"
    # As a script it runs these commands, and stops at the first that fails.
    program = tmp_path / "gnt-instance"
    program.write_text('#!/bin/sh\necho "gnt-instance $*"\ntest "$1" != replace-disks\n')
    program.chmod(0o755)
    ran = subprocess.run(
        ["sh", file],
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )
    assert (ran.stdout.splitlines(), ran.returncode) == (commands[:2], 1)


def test_options_become_a_request(front: Front) -> None:
    message = cluster()
    install(front)
    first, second = first_two(message)
    uuids = {one["name"]: uuid for uuid, one in message["nodegroups"].items()}
    node = sorted(message["nodes"])[3]
    file = front.message(message)
    assert front("balance", "--file", file).status == 0
    options = (
        *("-l", "2", "-G", "group01", "--group", uuids["group00"], "-E", "-g", "0.5", "-O", node),
        *("--no-disk-moves", "--no-instance-moves", "--restricted-migration"),
        *(f"--select-instances={first},{second}", f"--exclude-instances={second}"),
        *("--avoid-disk-moves=3", "--option=--ignore-soft-errors", "--min-gain-limit=0.3"),
        *("--min-gain-per-gib=0.001", "--max-copy=12.5"),
    )
    assert front("balance", *options, "--file", file).status == 0
    (usual, plain, _), (request, changed, arguments) = calls(front)
    assert usual == Balance()
    assert request == Balance(
        max_moves=2,
        groups=(uuids["group00"], uuids["group01"]),
        evacuate=True,
        disk_moves=False,
        instance_moves=False,
        restricted_migration=True,
        select=frozenset({first, second}),
        exclude=frozenset({second}),
        min_gain=0.5,
        min_gain_limit=0.3,
        min_gain_per_gib=0.001,
        max_copy=12.5,
        disk_factor=3.0,
    )
    assert arguments.ignore_soft_errors is True
    at = plain.node_index[node]
    assert [one.offline for one in changed.nodes] == [number == at for number in range(8)]
    # Nothing else differs.
    assert changed.nodes[at] == plain.nodes[at]._replace(offline=True)
    assert changed.nodes[:at] == plain.nodes[:at]
    assert (changed.instances, changed.groups) == (plain.instances, plain.groups)


def test_names_without_a_domain(front: Front) -> None:
    text = json.dumps(cluster())
    for name in sorted(cluster()["nodes"]):
        text = text.replace(f'"{name}"', f'"{name}.example.com"')
    install(front)
    node = sorted(cluster()["nodes"])[0]
    assert front("balance", "-O", node, "--file", front.message(json.loads(text))).status == 0
    ((_, changed, _),) = calls(front)
    assert changed.nodes[0].offline
    assert changed.nodes[0].name == f"{node}.example.com"


def test_unknown_names_are_reported_at_once(front: Front) -> None:
    install(front)
    options = ("-O", "n1", "-G", "g1", "--select-instances=i1,i2", "--exclude-instances=i3")
    done = front("balance", *options, "--file", front.message(cluster()))
    assert (done.status, done.out) == (1, "")
    assert done.err == (
        "gnt-steward balance: no node is named 'n1'; no node group is named 'g1' (known: group00, "
        "group01); no instance is named 'i1'; no instance is named 'i2'; no instance is named "
        "'i3'\n"
    )
    assert calls(front) == []


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("-l", "-1"), "expected"),
        (("-l", "few"), "-l/--max-length: a number is expected, found 'few'"),
        (("-g", "nan"), "-g/--min-gain: a number that is not below 0 is expected, found 'nan'"),
        (("--avoid-disk-moves=0.5",), "a number that is not below 1 is expected, found '0.5'"),
    ],
)
def test_unusable_command_line(front: Front, options: tuple[str, ...], fault: str) -> None:
    done = front("balance", *options, "--file", front.message(cluster()))
    assert (done.status, done.out) == (2, "")
    assert fault in done.err


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("-X",), "-X runs jobs on a live cluster, not on the file "),
        (("-X", "--json"), "--json excludes -X, and -C without a file"),
        (("-C", "--json"), "--json excludes -X, and -C without a file"),
        (("-C/nosuch/plan",), "/nosuch/plan: No such file or directory"),
    ],
)
def test_faults(front: Front, options: tuple[str, ...], fault: str) -> None:
    install(front)
    done = front("balance", *options, "--file", front.message(cluster()))
    assert done.status == 1
    assert done.err.startswith(f"gnt-steward balance: {fault}")


def test_refusal(front: Front) -> None:
    install(front, refuses="not today")
    done = front("balance", "--file", front.message(cluster()))
    assert (done.status, done.out, done.err) == (1, "", "gnt-steward balance: not today\n")


def test_explained(front: Front) -> None:
    """``explain`` prints the same about a balance request as ``balance``."""
    message = cluster()
    install(front)
    groups = front("balance", "--file", front.message(message)).out.rpartition("\n\n")[0]
    done = front("explain", front.message(message | {"request": {"type": "balance"}}))
    assert done.out == f"Request successful: as always\n\n{groups}\n"


@pytest.mark.parametrize("option", [(), ("--no-disk-moves",), ("-l", "3"), ("-G", "group01")])
def test_the_real_allocator(front: Front, option: tuple[str, ...]) -> None:
    """Scores fall, each group by itself, and the jobs are those of the table."""
    message = cluster("--offline=1")
    data = plan(front, message, *option)
    assert data["moves"] > 0
    before = {name: one["nodes"] for name, one in message["instances"].items()}
    moves = [move for group in data["groups"] for move in group["moves"]]
    for move, step in zip(moves, data["steps"], strict=True):
        assert step == {key: value for key, value in move.items() if key not in ("score", "lowers")}
        assert before[move["instance"]] == move["before"]
        before[move["instance"]] = move["after"]
    for group in data["groups"]:
        last = group["moves"][-1]["score"] if group["moves"] else group["score_before"]
        assert last == pytest.approx(group["score_after"], abs=1e-9)
        assert group["bound"] <= group["score_after"] <= group["score_before"]
    if option == ("--no-disk-moves",):
        assert data["copied"] == 0
    if option == ("-l", "3"):
        assert data["moves"] <= 3
    if option == ("-G", "group01"):
        assert [group["group"] for group in data["groups"]] == ["group01"]


def test_costs_of_plugins_count_as_gain(front: Front) -> None:
    """A move that lowers only what site rules charge is made, though the score rises."""
    front.plugin(
        "costs",
        """
        from ganeti_steward.core import hookimpl
        from ganeti_steward.core.model.site_rules import ROLES, Cost
        @hookimpl
        def steward_weigh(cluster, instance):
            return [Cost(instance.nodes[0], role, 5.0) for role in ROLES]
        """,
    )
    front.configure('[plugins]\nload = ["costs"]')
    message = clusters.generate(
        "--nodes=4", "--mix=drbd=1", "--seed=1", "--per-node=1", "--fill=.1", "--request=none"
    )
    name = min(message["instances"])
    primary = message["instances"][name]["nodes"][0]
    options = (f"--select-instances={name}", "--json", "--file", front.message(message))
    (group,) = json.loads(front("balance", *options).out)["groups"]
    (move,) = group["moves"]
    assert primary not in move["after"]
    assert group["score_after"] > group["score_before"]


def test_what_the_capacity_test_costs(front: Front, tmp_path: Path) -> None:
    """A note says so, and the plan without the test reaches the score that it names."""
    file = tmp_path / "cluster.data"
    file.write_text(made([*TIED]))
    done = front("balance", "--text-data", str(file))
    (tested,) = re.findall(r"-> ([\d.]+)", done.out)
    text = r"without it \(--no-capacity-checks\) the score would be ([\d.]+) lower"
    (lower,) = re.findall(text, done.out)
    free = front("balance", "--no-capacity-checks", "--text-data", str(file))
    (reached,) = re.findall(r"-> ([\d.]+)", free.out)
    assert float(tested) - float(reached) == pytest.approx(float(lower), rel=0.06)
    assert float(lower) > 0
    assert "capacity test" not in free.out
