"""``gnt-steward explain``: the whole story, as text and as data."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from front import capture
from paths import CAPTURES

if TYPE_CHECKING:
    from front import Front

NAMES = sorted(file.name.removesuffix(".in.json") for file in CAPTURES.glob("*.in.json"))


def n_plus_one() -> Any:
    """A request that nothing but the N+1 reserve of node2 speaks against there."""
    message = capture("allocate-plain-with-spindles")
    request, node = message["request"], message["nodes"]["node2.lab"]
    request.update(group_name="default", memory=8000)
    request["disks"] = [{"size": 4096, "mode": "rw"}]
    node["total_memory"] -= 21504
    node["free_memory"] -= 21504
    for name in ("node1.lab", "node3.lab"):
        message["nodes"][name]["drained"] = True
    return message


def no_capacity() -> Any:
    """A request that fits on node6 alone, and could never leave it again."""
    message = capture("allocate-ext")
    message["request"]["group_name"] = "rack2"
    for name in ("node4.lab", "node5.lab"):
        message["nodes"][name].update(total_memory=2048, free_memory=512)
    return message


def table(text: str, heading: str) -> dict[str, list[str]]:
    """The rows of the first table that starts with a heading, by their first cell."""
    lines = text[text.index(f"\n{heading}") :].strip("\n").split("\n\n")[0].split("\n")
    width = len(lines[0]) - len(lines[0][len(heading) :].lstrip())
    return {line[:width].strip(): line[width:].split() for line in lines}


def test_successful(front: Front) -> None:
    done = front("explain", "-v", front.message(capture("allocate-drbd")))
    assert (done.status, done.err) == (0, "")
    text = done.out
    assert text.startswith("Request successful: Selected group: default, Group default (")
    assert "Instance new1.lab: drbd, 1024 MiB memory, 2 vcpus, 4224 MiB disk in 1 disk(s)" in text
    assert re.search(r"^Chosen: (node2.lab/node1.lab|node1.lab/node3.lab)$", text, re.MULTILINE)
    assert re.search(r"^Cluster score before: 0\.\d{8}$", text, re.MULTILINE)
    assert "\nGroup default (preferred): chosen\n" in text
    assert (
        "\nGroup rack2 (preferred): not chosen, default scores better (1.91 against 1.95)\n" in text
    )
    for node in capture("allocate-drbd")["nodes"]:
        assert re.search(rf"^{node} primary +fits$", text, re.MULTILINE)


def test_places_by_component(front: Front) -> None:
    """The components of every place add up to its score, the best place first."""
    done = front("explain", "-v", front.message(capture("allocate-drbd")))
    rows = table(done.out, "Best places")
    assert rows.pop("Best places") == ["#1", "#2", "#3", "#4", "#5"]
    primaries, secondaries = rows.pop("primary"), rows.pop("secondary")
    assert f"\nChosen: {primaries[0]}/{secondaries[0]}\n" in done.out
    assert rows.pop("capacity") == ["passes"] * 5
    scores = [float(cell) for cell in rows.pop("score")]
    assert scores == sorted(scores)
    assert {"disk_load_cv", "free_mem_cv", "reserved_mem_rtotal"} <= set(rows)
    for at, score in enumerate(scores):
        total = sum(float(cells[at]) for cells in rows.values())
        assert total == pytest.approx(score, abs=1e-7 * len(rows))


def test_refused_by_the_n_plus_one_reserve(front: Front) -> None:
    done = front("explain", "-v", front.message(n_plus_one()))
    assert done.status == 0
    assert done.out.startswith("Request failed: 0/3 nodes fit: 2 drained, 1 N+1")
    assert "\nChosen: none\n" in done.out
    reason = "needs 8000 MiB, 6144 MiB unallocated after the N+1 reserve of 2048 MiB"
    assert re.search(rf"^node2.lab primary N\+1 +{re.escape(reason)}$", done.out, re.MULTILINE)
    assert re.search(r"^node1.lab primary drained +the node is drained$", done.out, re.MULTILINE)


def test_refused_by_the_capacity_test(front: Front) -> None:
    done = front("explain", "-v", front.message(no_capacity()))
    assert "1 capacity (e.g. inst4.lab could no longer leave node6.lab if that" in done.out
    assert table(done.out, "Best places")["capacity"] == ["fails"]
    stuck = "inst4.lab could no longer leave node6.lab"
    assert f"\n#1 fails the capacity test: {stuck}\n" in done.out
    assert "needs 1024 MiB and 1 to spare, 512 MiB unallocated" in done.out
    assert re.search(r"^node6.lab primary fits$", done.out, re.MULTILINE)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"memory": 10**6}, "memory 1000000 MiB is above the maximum of 32768 MiB"),
        ({"memory": 31000}, "needs 31000 MiB and 1 to spare, 29696 MiB unallocated"),
        (
            {"disk_space_total": 2**21, "disks": [{"size": 1024}]},
            "needs 2097152 MiB of disk and 1 to spare, 1048576 MiB free",
        ),
        ({"vcpus": 100}, "vcpus 100 is above the maximum of 8"),
        ({"disk_template": "gluster"}, "disk template gluster is not among"),
    ],
    ids=["policy", "memory", "disk", "vcpus", "template"],
)
def test_reasons_carry_numbers_and_units(front: Front, change: dict[str, Any], reason: str) -> None:
    message = capture("allocate-plain-with-spindles")
    message["request"]["disks"][0].pop("spindles", None)
    message["request"].update(change)
    done = front("explain", "-v", front.message(message))
    assert done.out.startswith("Request failed: ")
    assert reason in done.out


def test_secondaries_are_judged_beside_their_primary(front: Front) -> None:
    message = capture("allocate-drbd")
    message["nodes"]["node3.lab"]["drained"] = True
    text = front("explain", "-v", front.message(message)).out
    assert re.search(r"^node3.lab secondary of \S+ drained the node is drained$", text, re.M)


@pytest.mark.parametrize("name", NAMES)
def test_json_says_what_the_text_says(front: Front, name: str) -> None:
    file = str(CAPTURES / f"{name}.in.json")
    text = front("explain", "-v", file).out
    printed = json.loads(front("explain", "--json", file).out)
    suggestions = printed.pop("suggestions", None)
    assert set(printed) == {"success", "info", "result", "explanations"}
    assert suggestions is not None or printed["success"]
    for suggestion in suggestions["found"] if suggestions else ():
        assert f"\n- {suggestion['text']}\n" in text
    word = "successful" if printed["success"] else "failed"
    assert text.startswith(f"Request {word}: {printed['info']}\n")
    assert printed["explanations"]
    for story in printed["explanations"]:
        assert f"\nInstance {story['instance']}: {story['wanted']}\n" in text
        assert f"\nChosen: {'/'.join(story['chosen']) or 'none'}\n" in text
        assert f"\nCluster score before: {story['score_before']:.8f}\n" in text
        for note in story["notes"]:
            assert (f"\nNote: {note}\n" in text) != (note in printed["info"])
        for group in story["groups"]:
            assert (
                f"\nGroup {group['name']} ({group['alloc_policy']}): {group['summary']}\n" in text
            )
            for verdict in group["nodes"]:
                words = [verdict["node"], verdict["role"], verdict["rule"] or "fits"]
                assert re.search(".*".join(map(re.escape, words)), text)
                assert verdict["reason"] in text
            for place in group["places"]:
                assert set(place["nodes"]) <= {verdict["node"] for verdict in group["nodes"]} | set(
                    story["chosen"]
                )
                assert f"{place['score']:.8f}" in text
                assert sum(place["components"].values()) == pytest.approx(place["score"])
                shown = {key for key, value in place["components"].items() if value}
                assert all(f"\n  {key} " in text for key in shown)


def test_chosen_is_the_result(front: Front) -> None:
    file = front.message(capture("allocate-drbd"))
    printed = json.loads(front("explain", "--json", file).out)
    assert printed["explanations"][0]["chosen"] == printed["result"]
    answer = json.loads(front.allocate(file).out)
    assert answer["result"] == printed["result"]
    assert answer["info"] == f"Request successful: {printed['info']}"


REFUSED_BATCH = str(CAPTURES / "multi-allocate-refused.in.json")


def test_batch(front: Front) -> None:
    """One story per instance, those without a place included."""
    printed = json.loads(
        front("explain", "--json", "--option=--partial-batches", REFUSED_BATCH).out
    )
    placed, failed = printed["result"]
    stories = {story["instance"]: story["chosen"] for story in printed["explanations"]}
    assert stories == {**dict(placed), **{name: [] for name in failed}}
    assert placed
    assert failed


def test_costs_of_plugins(front: Front) -> None:
    """The chosen place stands first, also where a cost made it the best."""
    front.plugin(
        "prefer",
        """
        from ganeti_steward.core import hookimpl
        from ganeti_steward.core.model.site_rules import PRIMARY, Cost
        @hookimpl
        def steward_weigh(cluster):
            return [Cost("node5.lab", PRIMARY, -3)]
        """,
    )
    front.configure('[plugins]\nload = ["prefer"]')
    printed = json.loads(front("explain", "--json", front.message(capture("allocate-ext"))).out)
    assert printed["result"] == ["node5.lab"]
    groups = {group["name"]: group for group in printed["explanations"][0]["groups"]}
    assert groups["rack2"]["places"][0]["nodes"] == ["node5.lab"]
    # Whose cost it is, and with which part.
    assert groups["rack2"]["places"][0]["components"]["site_costs:prefer"] == -3


def test_verdict_of_a_plugin(front: Front) -> None:
    front.plugin(
        "loud",
        """
        from ganeti_steward.core import hookimpl
        from ganeti_steward.core.model.site_rules import PRIMARY, Ban
        @hookimpl
        def steward_constrain(cluster):
            return [Ban("node5.lab", PRIMARY, "noise", "is too loud at night")]
        """,
    )
    front.configure('[plugins]\nload = ["loud"]')
    text = front("explain", "-v", front.message(capture("allocate-ext"))).out
    assert re.search(r"^node5.lab primary noise +is too loud at night$", text, re.MULTILINE)


def test_options_as_ganeti_passes_them(front: Front) -> None:
    file = front.message(capture("allocate-drbd"))
    done = front("explain", "--option=--restrict-allocation-to=node4.lab,node6.lab", file)
    assert re.search(r"^Request successful: \S+ on node[46].lab/node[46].lab,", done.out)
    assert re.search(r"restriction +not among the nodes allowed$", done.out, re.MULTILINE)


def test_several_options(front: Front) -> None:
    file = front.message(no_capacity())
    done = front("explain", "--option=--no-capacity-checks", "--option=--surely-unknown", file)
    assert "Request successful: inst4.lab on node6.lab, score 2.23917147 (" in done.out
    assert done.out.rstrip().endswith("(options ignored: --surely-unknown)")


def test_faulty_option(front: Front) -> None:
    done = front(
        "explain", "--option=--static-kvm-node-memory=much", str(CAPTURES / "allocate-ext.in.json")
    )
    assert done.status == 1
    assert "option --static-kvm-node-memory: a number of MiB is expected" in done.err


def test_standard_input(front: Front) -> None:
    message = json.dumps(capture("allocate-drbd"))
    done = front.run("explain", "-", stdin=message)
    assert done.status == 0
    assert done.out == front("explain", front.message(capture("allocate-drbd"))).out


def test_last_and_kept(front: Front) -> None:
    front.configure(keep=5)
    first = str(CAPTURES / "allocate-drbd.in.json")
    second = front.message(n_plus_one())
    assert front.allocate(first).status == 0
    assert front.allocate(second).status == 0
    older, newer = sorted(entry.name for entry in front.history.iterdir())
    for arguments, file in (
        (("--last",), second),
        (("--last", "1"), second),
        (("--last", "2"), first),
        (("--last", "previous"), first),
        (("--kept", newer), second),
        (("--kept", older), first),
    ):
        heading, _, rest = front("explain", *arguments).out.partition("\n")
        assert re.fullmatch(r"Kept request: allocate \S+, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", heading)
        assert rest == front("explain", file).out
    done = front("explain", "--last", "3")
    assert (done.status, done.out) == (1, "")
    assert done.err.endswith(f"history {front.history}: there is no request 3, 2 are kept\n")


def test_last_with_its_options(front: Front) -> None:
    """The options of the call then are used, and more can be tried."""
    front.configure(keep=5)
    file = front.message(no_capacity())
    front.allocate(file, "--no-capacity-checks")
    assert (
        "Request successful: inst4.lab on node6.lab, score 2.23917147 ("
        in front("explain", "--last").out
    )
    narrower = front("explain", "--last", "--option=--restrict-allocation-to=node4.lab")
    assert "\nChosen: none\n" in narrower.out


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--last"], "no request is kept there"),
        (["--kept", "1"], "no request is kept there"),
        (["/nonexistent/request"], "/nonexistent/request: No such file or directory"),
        (["/"], "/: Is a directory"),
    ],
)
def test_nothing_to_explain(front: Front, arguments: list[str], fault: str) -> None:
    done = front("explain", *arguments)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("gnt-steward explain: ")
    assert done.err.endswith(f"{fault}\n")


@pytest.mark.parametrize("name", ["..", "../history", "/etc", "."])
def test_kept_is_no_path(front: Front, name: str) -> None:
    front.configure(keep=5)
    front.allocate(str(CAPTURES / "allocate-drbd.in.json"))
    done = front("explain", "--kept", name)
    assert done.status == 1
    assert "no request is kept as" in done.err


@pytest.mark.parametrize("arguments", [[], ["--last", "1", "file"], ["file", "--kept", "1"]])
def test_one_request_at_a_time(front: Front, arguments: list[str]) -> None:
    done = front("explain", *arguments)
    assert (done.status, done.out) == (2, "")
    assert "usage: gnt-steward explain" in done.err


def test_bad_message(front: Front) -> None:
    message = capture("allocate-drbd")
    del message["nodes"]["node1.lab"]["total_memory"]
    message["request"]["memory"] = "much"
    done = front("explain", "-v", front.message(message))
    assert (done.status, done.out) == (1, "")
    assert re.search("node 'node1.lab': key 'total_memory':? is missing", done.err)
    assert "key 'memory': a whole number is expected, found the text 'much'" in done.err


def test_names_beyond_ascii(front: Front) -> None:
    message = capture("allocate-drbd")
    message["request"]["name"] = "größe.lab"
    file = front.message(message)
    assert "Instance größe.lab: drbd" in front.run("explain", file, LC_ALL="C.UTF-8").out
    assert front.run("explain", file, PYTHONIOENCODING="ascii").status == 0


def test_moves_are_printed_in_their_order(front: Front) -> None:
    """Of an evacuation the steps, and what speaks against each other node."""
    message = capture("node-evacuate-secondary-drbd")
    printed = json.loads(front("explain", "--json", front.message(message)).out)
    moved = [name for name, _, _ in printed["result"][0]]
    assert [story["instance"] for story in printed["explanations"]] == moved
    for story in printed["explanations"]:
        assert story["notes"][0] == "Steps: replace the secondary."
        (group,) = story["groups"]
        # Its own nodes are no targets; one is left in a group of three.
        assert [verdict["node"] for verdict in group["nodes"]] == ["node6.lab"]
        assert group["summary"] == "chosen"
    message["nodes"]["node6.lab"]["drained"] = True
    printed = json.loads(front("explain", "--json", front.message(message)).out)
    for story in printed["explanations"]:
        (group,) = story["groups"]
        assert group["summary"] == "0/1 nodes fit: 1 drained"
        assert [verdict["reason"] for verdict in group["nodes"]] == ["the node is drained"]


def test_change_of_group_explains_every_group(front: Front) -> None:
    message = capture("change-group-drbd")
    message["request"]["target_groups"] = []
    printed = json.loads(front("explain", "--json", front.message(message)).out)
    (story,) = printed["explanations"]
    assert story["notes"][0] == (
        "Steps: replace the secondary, then migrate to the secondary, then replace the secondary."
    )
    assert [group["summary"] for group in story["groups"]] == ["chosen"]
    assert story["groups"][0]["places"][0]["nodes"] == story["chosen"]
