"""Shadows: real processes that compare after the answer, and never touch it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ask import HAIL, need_hail
from clusters import cluster
from programs import HANGING, ended_at_last, is_running, notes, program, wait_until

from ganeti_steward.plugins.shadow.report import comparisons

if TYPE_CHECKING:
    from sites import Capture, Message, Site

#: Request type -> a recorded request that hail and balanced answer.
ANSWERED = {
    "allocate": "allocate-drbd",
    "multi-allocate": "multi-allocate-two",
    "relocate": "relocate-drbd",
    "allocate-secondary": "allocate-secondary-plain-to-drbd",
}

LINE = re.compile(
    r"INFO compared=(?P<shadow>\S+|'.*?') request=(?P<request>\S+) name=(?P<name>\S+) "
    r"same=(?P<same>yes|tie|no) answered=(?P<answered>\S+) shadow=(?P<answer>\S+) "
    r"score=(?P<score>\S+) ms=[0-9]+(?: info=(?P<info>.*))?$"
)

Fields = dict[str, str | None]


@pytest.fixture(autouse=True)
def log(site: Site) -> Path:
    file = site.path / "steward.log"
    site.log = str(file)
    return file


def configure(site: Site, kind: str, *names: str, limit: float = 60, more: str = "") -> None:
    text = f"[shadow]\ntime-limit = {limit}\n{kind} = {json.dumps(names)}\n"
    site.configure(*[name for name in names if name.isidentifier()], more=text + more)


def lines(site: Site) -> list[Fields]:
    """The comparisons logged so far."""
    found = [line for line in Path(site.log).read_text().splitlines() if " compared=" in line]
    # The report understands each of them.
    assert len(list(comparisons(found))) == len(found)
    return [_fields(line) for line in found]


def _fields(line: str) -> Fields:
    match = LINE.search(line)
    assert match, line
    return match.groupdict()


def compared(site: Site, message: Message, number: int = 1) -> list[Fields]:
    """Answer a request with the real program; the comparisons that follow."""
    before = len(lines(site)) if Path(site.log).exists() else 0
    site.run(message)
    wait_until(lambda: len(lines(site)) >= before + number, "a comparison")
    return lines(site)[before:]


@pytest.mark.parametrize("kind", ANSWERED)
def test_hail_as_shadow(site: Site, capture: Capture, kind: str) -> None:
    message = capture(ANSWERED[kind])
    site.configure()
    balanced = site.run(message)
    configure(site, kind, f"command:{need_hail()}")
    assert site.run(message) == balanced
    wait_until(lambda: lines(site), "a comparison")
    (line,) = lines(site)
    assert (line["shadow"], line["request"]) == (f"command:{HAIL}", kind)
    assert line["answer"] not in ("failed", "refused")
    answered, shadow = map(float, str(line["score"]).split("/"))
    assert answered <= shadow + 1e-8


def test_the_line(site: Site, capture: Capture) -> None:
    """The scores are those that hail and balanced give for their own places."""
    configure(site, "allocate", f"command:{need_hail()}")
    message = capture("allocate-drbd")
    (line,) = compared(site, message)
    answer = json.loads(
        next(one for one in Path(site.log).read_text().splitlines() if " answer=" in one)
        .partition(" answer=")[2]
        .removesuffix("...")
    )
    place = "/".join(answer["result"])
    assert (line["name"], line["answered"]) == ("new1.lab", place)
    mine = re.search(rf"score: ([0-9.]+), [^:]*? for node\(s\) {place}", answer["info"])
    assert mine is not None
    assert str(line["score"]).split("/")[0] == mine[1]
    assert line["same"] == ("yes" if line["answer"] == line["answered"] else "no")


def test_a_shadow_that_refuses(site: Site) -> None:
    message = cluster(1, "allocate-pair", nodes=6)
    configure(site, "allocate", f"command:{need_hail()}")
    (line,) = compared(site, message)
    assert (line["same"], line["answer"]) == ("no", "refused")
    assert str(line["score"]).endswith("/-")
    assert str(line["info"]).startswith("Group group00 (preferred): No valid allocation")


def test_a_tie(site: Site, capture: Capture) -> None:
    """Nodes of the same size without any instance: each of them is as good as another."""
    message = capture("allocate-drbd")
    own = {"primary_ip", "secondary_ip", "group"}
    (_, first), *others = message["nodes"].items()
    for _, node in others:
        node.update({key: value for key, value in first.items() if key not in own})
    message["instances"] = {}
    body = "return Answer(['node3.lab', 'node4.lab'], 'mine')"
    site.plugin("other", f"@hookimpl\ndef steward_allocate():\n    {body}\n")
    site.configure("other")
    configure(site, "allocate", "other")
    (line,) = compared(site, message)
    assert (line["same"], line["answer"]) == ("tie", "node3.lab/node4.lab")


def test_both_refuse(site: Site, capture: Capture) -> None:
    configure(site, "allocate", f"command:{need_hail()}")
    (line,) = compared(site, capture("allocate-refused-memory"))
    assert (line["same"], line["answered"], line["answer"]) == ("yes", "refused", "refused")
    assert line["score"] == "-/-"


def test_balanced_behind_hail(site: Site, capture: Capture) -> None:
    """How an installation can watch Steward before it trusts it."""
    more = f"[allocators]\nallocate = ['command:{need_hail()}']\n"
    configure(site, "allocate", "balanced", more=more)
    (line,) = compared(site, capture("allocate-drbd"))
    assert (line["shadow"], line["same"]) == ("balanced", "yes")


def test_several_in_order(site: Site, capture: Capture) -> None:
    site.plugin(
        "other",
        """
        @hookimpl
        def steward_allocate():
            print("noise")
            os.write(1, b"noise")
            os.write(2, b"noise")
            return Answer(["node1.lab", "node2.lab"], "mine")
        """,
    )
    site.plugin("silent", "@hookimpl\ndef steward_allocate():\n    return None\n")
    names = ["other", "silent", "balanced", "command:/nonexistent/program -x"]
    configure(site, "allocate", *names)
    found = compared(site, capture("allocate-drbd"), len(names))
    assert [line["shadow"] for line in found] == [*names[:3], f"'{names[3]}'"]
    outcomes = [(line["same"], line["answer"]) for line in found]
    assert outcomes[1:] == [("no", "not-mine"), ("yes", found[0]["answered"]), ("no", "failed")]
    assert outcomes[0][1] == "node1.lab/node2.lab"
    fault = (
        "command:/nonexistent/program -x: /nonexistent cannot be opened: No such file or directory"
    )
    assert [line["info"] for line in found] == [None, "-", None, fault]


def test_plugins_that_fail(site: Site, capture: Capture) -> None:
    """Crashing ones, one that hangs, one that is not there."""
    site.plugin("crash", "@hookimpl\ndef steward_allocate():\n    raise ValueError('no rack')\n")
    site.plugin("hang", "@hookimpl\ndef steward_allocate():\n    time.sleep(3600)\n")
    configure(site, "allocate", "crash", "hang", limit=0.5)
    found = compared(site, capture("allocate-drbd"), 2)
    assert [line["answer"] for line in found] == ["failed", "failed"]
    assert found[0]["info"] == "plugin crash: failed: ValueError: no rack"
    assert found[1]["info"] == "plugin hang: took longer than its 0.5 s and was stopped"


def test_a_shadow_that_dies(site: Site, capture: Capture) -> None:
    """It is reported, and the next one is compared."""
    site.plugin("dies", "@hookimpl\ndef steward_allocate():\n    os.kill(os.getpid(), 9)\n")
    configure(site, "allocate", "dies", "balanced")
    found = compared(site, capture("allocate-drbd"), 2)
    assert [line["shadow"] for line in found] == ["dies", "balanced"]
    assert (found[0]["answer"], found[0]["info"]) == (
        "failed",
        "plugin dies: its process was ended by SIGKILL",
    )
    assert found[1]["same"] == "yes"


def ancestors(pid: int) -> Iterator[int]:
    """The parent of a process, the parent of that, and so on, without the first of all."""
    while (pid := int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])) > 1:
        yield pid


def test_a_hanging_shadow(site: Site, capture: Capture) -> None:
    """No process waits for it, and later ones do not pile up behind it."""
    path = program(site.path, "hangs", HANGING)
    configure(site, "allocate", f"command:{path}", limit=3000)
    message = capture("allocate-drbd")
    with ended_at_last(path):
        # The program ends, and so do the pipes to it: else this would wait.
        assert site.run(message)["success"] is True
        wait_until(lambda: len(notes(path).split()) == 2, "the start of the shadow")
        (pid, _) = (int(line) for line in notes(path).split())
        assert is_running(pid)
        worker, supervisor, asking, *_ = ancestors(pid)
        for process in (worker, supervisor, asking):
            assert os.getsid(process) not in (os.getsid(0), os.getsid(pid))
            assert os.getpriority(os.PRIO_PROCESS, process) == 19
        for process in (supervisor, asking):
            standard = {os.readlink(f"/proc/{process}/fd/{number}") for number in range(3)}
            assert standard == {"/dev/null"}
        assert site.run(message)["success"] is True
        busy = "INFO shadows are not called, they are busy: name=new1.lab"
        wait_until(lambda: busy in Path(site.log).read_text(), "the word on the second")
        assert lines(site) == []
    wait_until(lambda: lines(site), "the end of the comparison")
    (line,) = lines(site)
    assert (line["answer"], line["info"]) == (
        "failed",
        f"command:{path}: ended with signal 9: no message",
    )
