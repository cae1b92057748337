"""Programs as members of a chain: the real hail, and others that misbehave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ask import HAIL, hail, need_hail
from clusters import cluster
from programs import HANGING, ended_at_last, is_running, notes, program, wait_until

from ganeti_steward.core.config.load import load_config
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.iallocator.dispatch import dispatch, fair_share
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.answer import Answer
from ganeti_steward.core.model.options import Options

if TYPE_CHECKING:
    from sites import Capture, Message, Site

#: On these clusters hail finds no place for a drbd instance, because of the dead node.
REFUSED_BY_HAIL = (1, 9)

#: Request type -> a recorded request that hail answers.
ANSWERED = {
    "allocate": "allocate-drbd",
    "multi-allocate": "multi-allocate-two",
    "relocate": "relocate-drbd",
    "allocate-secondary": "allocate-secondary-plain-to-drbd",
    "node-evacuate": "node-evacuate-secondary-drbd",
    "change-group": "change-group-drbd",
}


def chain(kind: str, *names: str, limit: float = 600) -> str:
    return f"[allocators]\ntime-limit = {limit}\n{kind} = {json.dumps(names)}\n"


def command(path: str) -> str:
    return f"command:{path}"


def member(site: Site, source: str, name: str = "member", *then: str, limit: float = 600) -> str:
    """Put a script before others into the chain of allocations; its path."""
    path = program(site.path, name, source)
    site.configure(more=chain("allocate", command(path), *then, limit=limit))
    return path


@pytest.mark.parametrize("kind", ANSWERED)
def test_hail_answers(site: Site, capture: Capture, kind: str) -> None:
    message = capture(ANSWERED[kind])
    site.configure(more=chain(kind, command(need_hail()), "balanced"))
    answer = hail(message, site.path)
    assert answer["success"] is True
    # hail has printed it itself, and it is not printed twice.
    assert answer["info"].startswith("Request successful: ")
    assert site.run(message) == answer


@pytest.mark.parametrize("seed", REFUSED_BY_HAIL)
def test_hail_refuses_and_balanced_answers(site: Site, seed: int) -> None:
    message = cluster(seed, "allocate-pair", nodes=6)
    reason = hail(message, site.path)["info"]
    assert reason.startswith("Request failed: ")
    site.configure()
    balanced = site.run(message)
    assert balanced["success"] is True
    site.configure(more=chain("allocate", command(HAIL), "balanced"))
    assert site.run(message) == balanced
    site.configure(more=chain("allocate", command(HAIL)))
    assert site.run(message) == {"success": False, "info": reason, "result": []}


def test_the_log_names_the_allocator_that_gave_no_full_answer(site: Site) -> None:
    """A refusal and a fault; nothing where the first one answers."""
    site.log = str(site.path / "steward.log")
    passed_over = f"allocator=command:{need_hail()} gave no full answer, the next one is called: "
    for seed, more, reason in ((1, "", "Group group00 (pref"), (0, " --frob", "ended with exit")):
        site.configure(more=chain("allocate", command(HAIL + more), "balanced"))
        site.run(cluster(seed, "allocate-pair", nodes=6))
        log = Path(site.log).read_text()
        assert passed_over.replace(" gave", f"{more} gave") in log
        assert reason in log
    Path(site.log).unlink()
    site.configure(more=chain("allocate", command(HAIL), "balanced"))
    site.run(cluster(0, "allocate-pair", nodes=6))
    assert "gave no full answer" not in Path(site.log).read_text()


def test_both_refuse(site: Site, capture: Capture) -> None:
    message = capture("allocate-refused-memory")
    site.configure(more=chain("allocate", command(need_hail()), "balanced"))
    info = site.refused(message)
    assert info.startswith(f"command:{HAIL}: Group rack2 (preferred): No valid allocation")
    assert "; balanced: group default: 0/3 nodes fit: " in info


def test_options_are_passed(site: Site, capture: Capture) -> None:
    """Those of hail go on to hail; one that hail would stumble over does not."""
    message = capture("allocate-drbd")
    site.configure(more=chain("allocate", command(need_hail())))
    free = site.place(message)
    others = sorted(set(message["nodes"]) - set(free))
    options = ["--no-capacity-checks", f"--restrict-allocation-to={','.join(others)}"]
    outcome = site.ask(message, *options, "--frob=7", "-v")
    assert isinstance(outcome, Answer)
    assert set(outcome.result) <= set(others)
    assert outcome.info.endswith(" (options ignored: --frob=7)")


def test_options_of_its_own(site: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    site.configure(
        more=chain(
            "allocate", f"command:{need_hail()} --restrict-allocation-to=node5.lab,node6.lab"
        )
    )
    assert set(site.place(message)) == {"node5.lab", "node6.lab"}
    site.configure(more=chain("allocate", f"command:{HAIL} --frob"))
    info = site.refused(message)
    assert info.startswith(f"command:{HAIL} --frob: ended with exit status 2: ")


def test_request_type_that_hail_does_not_know(site: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    message["request"] = {"type": "balance"}
    site.configure(more=chain("balance", command(need_hail())))
    info = site.refused(message)
    assert info.startswith(f"command:{HAIL}: ended with exit status 1: ")
    assert "Invalid request type 'balance'" in info


def test_what_a_program_is_given(site: Site, capture: Capture) -> None:
    """The message as it came, byte for byte, and gone afterwards; then the options."""
    path = member(
        site,
        """
        cp "$1" NOTES
        stat -c %a "$1" >> NOTES
        echo "$@" >> NOTES
        exec HAIL "$1"
        """.replace("HAIL", need_hail()),
    )
    # An escape and an unknown key would not survive being read and written again.
    message = capture("allocate-drbd") | {"frob": "\u00e9"}
    options = ["--no-capacity-checks", "--ignore-soft-errors", "--static-kvm-node-memory=5", "-v"]
    assert site.run(message, *options, "--frob")["success"] is True
    sent = (site.path / "message.json").read_text()
    given = notes(path)
    assert given.startswith(sent)
    mode, file, *arguments = given.removeprefix(sent).split()
    assert (mode, arguments) == ("600", options[:3])
    assert "steward-iallocator." in file
    assert not Path(file).exists()


FAULTS = {
    "status": ("echo 'bad luck' >&2; echo more >&2; exit 3", "ended with exit status 3: bad luck"),
    "silent": ("exit 1", "ended with exit status 1: no message"),
    "signal": ("kill -SEGV $$", "ended with signal 11: no message"),
    "status with an answer": (
        """echo '{"success":true,"info":"","result":["node1.lab"]}'; exit 1""",
        "ended with exit status 1: no message",
    ),
    "control characters": (
        r"printf '\033[1mloud\033[0m\n' >&2; exit 1",
        r"ended with exit status 1: \x1b[1mloud\x1b[0m",
    ),
    "nothing": ("true", "gave no answer"),
    "garbage": ("echo hello", "gave 'hello\\n', which is not JSON: "),
    "binary": ("head -c 1000 /dev/zero", "which is not JSON: "),
    "answer and more": ("""echo '{"success":false}'; echo bye""", "which is not JSON: "),
    "list": ("echo '[]'", "gave a list, not an object"),
    "no success": ("""echo '{"info":"","result":[]}'""", "gave an answer without 'success'"),
    "no info": ("""echo '{"success":true,"result":[]}'""", "gave an answer without 'info'"),
    "no result": ("""echo '{"success":true,"info":""}'""", "gave an answer without 'result'"),
    "unknown node": (
        """echo '{"success":true,"info":"","result":["nosuch"]}'""",
        "gave ['nosuch'], which is not an answer to this request on this cluster",
    ),
    "too few": (
        """echo '{"success":true,"info":"","result":["node1.lab"]}'""",
        "gave ['node1.lab'], which is not an answer to this request on this cluster",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_faults(site: Site, capture: Capture, case: str) -> None:
    """Each names the program and the fault, and the next member is called."""
    source, fault = FAULTS[case]
    message = capture("allocate-drbd")
    site.configure()
    balanced = site.place(message)
    path = member(site, source)
    info = site.refused(message)
    assert info.startswith(f"command:{path}: ")
    assert fault in info
    assert info.isprintable()
    member(site, source, "member", "balanced")
    assert site.place(message) == balanced


def test_flood(site: Site, capture: Capture) -> None:
    path = member(site, "exec cat /dev/zero", "floods", "balanced")
    assert site.run(capture("allocate-drbd"))["success"] is True
    site.configure(more=chain("allocate", command(path)))
    info = site.refused(capture("allocate-drbd"))
    assert info == f"command:{path}: killed, it printed more than 33554432 bytes"


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("command:", "names no program"),
        ("command:'/bin/true", "cannot be read: No closing quotation"),
        ("command:bin/true", "'bin/true' is not an absolute path"),
        ("command:/nonexistent/true", "/nonexistent cannot be opened: No such file or directory"),
        ("command:/etc/passwd", "/etc/passwd is not executable"),
    ],
)
def test_unusable_programs(site: Site, capture: Capture, name: str, fault: str) -> None:
    site.configure(more=chain("allocate", name))
    assert site.refused(capture("allocate-drbd")) == f"{name}: {fault}"


def test_interpreter_that_is_missing(site: Site, capture: Capture) -> None:
    path = program(site.path, "lost", "", shell="/nonexistent/shell")
    site.configure(more=chain("allocate", command(path)))
    info = site.refused(capture("allocate-drbd"))
    fault = "/nonexistent cannot be opened: No such file or directory"
    assert info == f"command:{path}: the interpreter of {path}: {fault}"


def test_hanging_member(site: Site, capture: Capture) -> None:
    """It resists, and so does its child; the real program goes on without them."""
    site.configure()
    balanced = site.run(capture("allocate-drbd"))
    path = member(site, HANGING, "hangs", "balanced", limit=1)
    with ended_at_last(path):
        assert site.run(capture("allocate-drbd")) == balanced
        pids = [int(line) for line in notes(path).split()]
        assert len(pids) == 2
        wait_until(lambda: not any(map(is_running, pids)), "the end of the group")
    site.configure(more=chain("allocate", command(path), limit=1))
    with ended_at_last(path):
        answer = site.run(capture("allocate-drbd"))
    assert answer["info"] == f"Request failed: command:{path}: killed after 1 s"


def test_answer_of_one_whose_child_stays(site: Site, capture: Capture) -> None:
    path = member(
        site,
        """
        setsid sh -c 'echo $$ > NOTES; exec sleep 3600' &
        while ! [ -s NOTES ]; do sleep 0.01; done
        echo '{"success": 1, "info": "Request successful: mine",'
        echo ' "nodes": ["node1.lab", "node2.lab"]}'
        """,
    )
    with ended_at_last(path):
        answer = site.run(capture("allocate-drbd"))
        assert not is_running(int(notes(path)))
    # What counts as true for Ganeti, and its old name of the result.
    info = "Request successful: mine"
    assert answer == {"success": True, "info": info, "result": ["node1.lab", "node2.lab"]}


def batch(site: Site, capture: Capture, failed: Any) -> Message:
    result = [[["m1.lab", ["node1.lab"]]], failed]
    text = json.dumps({"success": True, "info": "1 failed", "result": result})
    path = program(site.path, "batch", f"echo '{text}'")
    partial = "partial-batches = true\n"
    site.configure(more=chain("multi-allocate", command(path)) + partial)
    return site.run(capture("multi-allocate-two"))


@pytest.mark.parametrize("failed", [[["m2.lab", "no room"]], ["m2.lab"]], ids=["pairs", "names"])
def test_failed_instances_of_a_batch(site: Site, capture: Capture, failed: Any) -> None:
    """hail names them with a reason, which Ganeti does not take."""
    answer = batch(site, capture, failed)
    assert answer["result"] == [[["m1.lab", ["node1.lab"]]], ["m2.lab"]]
    reasons = "; m2.lab: no room" if failed != ["m2.lab"] else ""
    assert answer["info"] == f"Request successful: 1 failed{reasons}"


@pytest.mark.parametrize("failed", [7, [7], [[]], [["m2.lab"]], [["zz", "x"]], {}, None])
def test_batches_that_are_none(site: Site, capture: Capture, failed: Any) -> None:
    assert batch(site, capture, failed)["success"] is False


def test_failed_instances_of_a_named_group(site: Site, capture: Capture) -> None:
    """The pairs of the real hail."""
    message = capture("multi-allocate-two")
    message["request"]["group_name"] = "rack2"
    message["request"]["instances"][1]["memory"] = 10**6
    name = message["request"]["instances"][1]["name"]
    site.configure(more=chain("multi-allocate", command(need_hail())))
    answer = hail(message, site.path)
    ((failed, _),) = answer["result"][1]
    assert failed == name
    refused = site.run(message)
    assert (refused["success"], refused["result"]) == (False, [])
    assert "1 of 2 instances has no place, so none is placed (--partial-batches" in refused["info"]
    site.configure(more=chain("multi-allocate", command(need_hail())) + "partial-batches = true\n")
    assert site.run(message)["result"] == [answer["result"][0], [name]]


def evacuation(site: Site, name: str, moved: list[str], failed: list[str]) -> str:
    """A program that evacuates some instances and fails to move others."""
    job = {"OP_ID": "OP_INSTANCE_MIGRATE"}
    result = [
        [[one, "default", ["node1.lab", "node2.lab"]] for one in moved],
        [[one, f"{name} cannot"] for one in failed],
        [[job | {"instance_name": one}] for one in moved],
    ]
    text = json.dumps({"success": True, "info": name, "result": result})
    return command(program(site.path, name, f"echo '{text}'"))


def test_partial_evacuation(site: Site, capture: Capture) -> None:
    """Ganeti moves nothing when one fails, so the others are called; the best one counts."""
    message = capture("node-evacuate-all-drbd")
    one, two, three = message["request"]["instances"]
    none = evacuation(site, "none", [], [one, two, three])
    some = evacuation(site, "some", [one, two], [three])
    less = evacuation(site, "less", [one], [two, three])
    full = evacuation(site, "full", [one, two, three], [])
    broken = command(program(site.path, "broken", "exit 1"))
    for members, best in (
        ((none, less, some, full), "full"),
        ((none, some, less), "some"),
        ((less, none, broken), "less"),
    ):
        site.configure(more=chain("node-evacuate", *members))
        assert site.ask(message).info == best


def test_a_request_without_a_message(site: Site, capture: Capture) -> None:
    """A request made from a live cluster has no message to pass on; plugins run as usual."""
    cluster, request = read_message(json.dumps(capture("allocate-drbd")).encode())
    site.configure(more=chain("allocate", command(need_hail()), "balanced"))
    with_hail = load_config(str(site.config_file))
    outcome = dispatch(request, cluster, with_hail, Options(), explain=False)
    assert outcome == dispatch(request, cluster, Config(), Options(), explain=False)
    site.configure(more=chain("allocate", command(HAIL)))
    outcome = dispatch(
        request, cluster, load_config(str(site.config_file)), Options(), explain=False
    )
    fault = "needs a message from Ganeti, and here is none"
    assert outcome.info == f"command:{HAIL}: {fault}"


def test_fair_share() -> None:
    """No member can take the time of those behind it, and all end before Ganeti gives up."""
    assert fair_share(600, 890, 1) == 600
    assert fair_share(600, 890, 2) == 445
    assert fair_share(10, 890, 2) == 10
    left, members = 890.0, 5
    for behind in range(members, 0, -1):
        share = fair_share(600, left, behind)
        assert share >= 890 / members
        left -= share
    assert left >= 0
    # Something is left even for those who come too late.
    assert fair_share(600, -5, 2) > 0
