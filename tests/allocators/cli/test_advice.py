"""What ``explain`` and ``place`` say against a refusal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from front import capture
from refusals import refusal
from test_command_explain import n_plus_one, no_capacity

if TYPE_CHECKING:
    from front import Front

Message = dict[str, Any]


def crowded() -> Message:
    """A request for an instance on external storage for which one move makes room."""
    return refusal(31, "ext")


def place(message: Message) -> tuple[str, ...]:
    """The options for the instance that a message requests."""
    request = message["request"]
    return (
        *("place", "-t", request["disk_template"], "-B", f"memory={request['memory'] // 4 * 4}"),
        *("-c", str(request["vcpus"]), "-s", str(request["disks"][0]["size"]), "new.lab"),
    )


def test_explain_ends_with_what_would_help(front: Front) -> None:
    done = front("explain", front.message(n_plus_one()), "--effort", "60")
    assert done.status == 0
    *_, text = done.out.partition("\nThe request would succeed (each change was tried):\n")
    lines = text.splitlines()
    # Sizes as gnt-instance takes them: 6140 and not 6143 MiB leave the N+1 reserve alone.
    assert "- with 6140 MiB of memory instead of 8000 MiB (1860 MiB less)" in lines
    assert all(line.startswith("- ") for line in lines)
    assert "- with node1.lab no longer drained" in lines


def test_a_rule_that_would_have_to_be_dropped(front: Front) -> None:
    done = front("explain", front.message(no_capacity()), "--effort", "60")
    stuck = "inst4.lab could no longer leave node6.lab"
    assert f"\n- without the capacity test (--no-capacity-checks): {stuck}\n" in done.out


def test_no_suggestions_after_an_answer_or_without_effort(front: Front) -> None:
    for file, options in (
        (front.message(capture("allocate-drbd"), "good.json"), ()),
        (front.message(n_plus_one(), "bad.json"), ("--effort", "0")),
    ):
        done = front("explain", file, *options)
        assert "would succeed" not in done.out
        assert json.loads(front("explain", file, *options, "--json").out).get("suggestions") is None


def test_a_search_that_ends_early(front: Front) -> None:
    done = front("explain", front.message(n_plus_one()), "--effort", "1e-9")
    assert "\nNo change was found with which the request would succeed.\n" in done.out
    assert done.out.endswith("\nThe search ended after 1e-09 s of CPU; --effort allows more.\n")


@pytest.mark.parametrize("effort", ["-1", "x", "nan"])
def test_faulty_effort(front: Front, effort: str) -> None:
    done = front("explain", f"--effort={effort}", front.message(n_plus_one()))
    assert done.status == 2
    assert f"a number of seconds is expected, found '{effort}'" in done.err


def test_make_room(front: Front) -> None:
    message = crowded()
    file = front.message(message)
    options = (*place(message), "--file", file, "--effort", "60")
    refused = front(*options)
    assert refused.status == 1
    assert " moved from " in refused.out
    done = front(*options, "--make-room")
    assert (done.status, done.err) == (0, "")
    heading, command, last = done.out.splitlines()
    assert heading.startswith("# move 1 of 1: ")
    assert heading.endswith("copies nothing")
    assert command.startswith("gnt-instance migrate -f ")
    *_, node, name = command.split()
    assert last.startswith("# then new.lab fits on ")
    # The move, made by hand in what Ganeti would send then.
    instance = message["instances"][name]
    message["nodes"][instance["nodes"][0]]["free_memory"] += instance["memory"]
    message["nodes"][node]["free_memory"] -= instance["memory"]
    instance["nodes"] = [node]
    again = front(*place(message), "--file", front.message(message), "--make-room")
    assert again.out == f"# new.lab fits on {last.split()[-1]} without moves\n"


def test_make_room_prints_what_is_copied(front: Front) -> None:
    message = refusal(20, "drbd")
    done = front("explain", front.message(message), "--json", "--effort", "60")
    found = json.loads(done.out)["suggestions"]["found"]
    moves = [move for one in found for move in one["moves"]]
    options = (*place(message), "--file", front.message(message), "--make-room", "--effort", "60")
    printed = front(*options)
    if not moves:
        assert printed.status == 1
        assert "no moves of up to three instances were found that make room" in printed.err
        return
    for move in moves:
        assert {*move["commands"]} <= {*printed.out.splitlines()}
        gib = f"{move['copied'] / 1024:.1f} GiB" if move["copied"] else "nothing"
        assert f"{'/'.join(move['after'])}, copies {gib}\n" in printed.out


def test_no_room_can_be_made(front: Front) -> None:
    message = crowded()
    message["request"]["memory"] = 2**20 - 4
    done = front(*place(message), "--file", front.message(message), "--make-room")
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("no place: ")
    assert done.err.endswith("no moves of up to three instances were found that make room\n")


def test_why_not(front: Front) -> None:
    file = front.message(n_plus_one())
    done = front("explain", file, "--why-not", "node2", "--effort", "60")
    reason = "needs 8000 MiB, 6144 MiB unallocated after the N+1 reserve of 2048 MiB"
    *_, text = done.out.partition(" on node2.lab as primary: ")
    assert text.startswith(f"N+1: {reason}\nThe request would succeed (each change was tried):\n")
    assert "\n- with 6140 MiB of memory instead of 8000 MiB (1860 MiB less)\n" in text
    data = json.loads(front("explain", file, "--why-not", "node2", "--json", "--effort", "60").out)
    (one,) = data["why_not"]
    assert (one["node"], one["role"], one["rule"]) == ("node2.lab", "primary", "N+1")
    assert one["reason"] == reason
    unknown = front("explain", file, "--why-not", "nope")
    assert unknown.status == 1
    assert "no node is named 'nope'" in unknown.err


def test_why_not_beside_a_place_that_was_found(front: Front) -> None:
    done = front("explain", front.message(capture("allocate-drbd")), "--why-not", "node1")
    assert "\nnew1.lab on node1.lab as primary: " in done.out
    assert "\nnew1.lab on node1.lab as secondary: " in done.out


def test_suggestions_with_a_site_plugin(front: Front) -> None:
    """They are looked for in the child process in which the plugins run."""
    front.plugin(
        "quiet",
        """
        from ganeti_steward.core import hookimpl
        from ganeti_steward.core.model.site_rules import Ban

        @hookimpl
        def steward_constrain(cluster, instance):
            return [Ban(node.name, "primary", "closed", "is closed") for node in cluster.nodes]
        """,
    )
    front.configure('[plugins]\nload = ["quiet"]')
    done = front.run("explain", front.message(capture("allocate-drbd")))
    assert done.status == 0, done.err
    assert "\n- without the site rule 'closed'\n" in done.out


SCRIPT = """
import sys
from ganeti_steward.core.iallocator import main
main.run()
print("modules:", *[name for name in sys.modules if ".advice" in name], file=sys.stderr)
"""


def test_ganeti_never_waits_for_suggestions(front: Front) -> None:
    """A refused allocation does not even import them."""
    front.configure()
    command = [sys.executable, "-c", SCRIPT, front.message(n_plus_one())]
    environment = {"GNT_STEWARD_CONFIG": str(front.config_file), "PATH": os.environ["PATH"]}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert "Request failed" in done.stdout
    assert done.stderr == "modules:\n"
