"""``gnt-steward filter apply``, and ``diff`` before it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from queued import Queued
from standin import StandIn

if TYPE_CHECKING:
    import clusters
    from ruled import Call, Ruled

BUNNY = """
[[rule]]
name = "bunny"
priority = 5
action = "ACCEPT"
predicates = [["reason", ["=", "reason", "pink bunny"]]]
"""
STOP = """
[[rule]]
name = "stop"
priority = 6
action = "REJECT"
comment = "new kernel"
predicates = '[["opcode", ["!=", "OP_ID", "OP_TAGS_SET"]]]'
"""
LIMIT = """
[[rule]]
name = "limit"
priority = 7
action = "RATE_LIMIT 3"
"""


@pytest.fixture
def cluster(nodes: clusters.Message) -> Queued:
    return Queued(StandIn(nodes))


def written(path: Path, *rules: str, name: str = "rules.toml") -> str:
    (path / name).write_text('owner = "team"\n' + "".join(rules))
    return str(path / name)


def names(text: str) -> list[tuple[str, str]]:
    """What is done, and with which rule."""
    lines = [line.partition(": ") for line in text.splitlines()]
    return [(done, rest.split(" (")[0]) for done, _, rest in lines]


def test_apply_twice(call: Call, cluster: Ruled, tmp_path: Path) -> None:
    file = written(tmp_path, STOP, BUNNY)
    done = call("apply", file)
    assert (done.status, done.err) == (0, "")
    assert names(done.out) == [("written", "bunny"), ("written", "stop")]
    assert [rule["priority"] for rule in cluster.rules] == [5, 6]
    assert cluster.rules[1]["reason_trail"][0][:2] == ["gnt:user", "new kernel"]
    assert call("apply", file).out == "nothing to do\n"
    assert "file team:bunny" in call("list").out


def test_a_change_and_prune(call: Call, cluster: Ruled, tmp_path: Path) -> None:
    cluster.put("aaaaaaaa-0000-4000-8000-000000000000")
    call("apply", written(tmp_path, STOP, BUNNY))
    file = written(tmp_path, STOP.replace("new kernel", "newer"), LIMIT)
    words = [("written", "stop"), ("written", "limit"), ("deleted", "stop")]
    shown = call("apply", file, "--dry-run")
    assert names(shown.out) == [(f"would be {word}", name) for word, name in words]
    assert names(call("apply", file).out) == words
    assert len(cluster.rules) == 4
    assert names(call("apply", file, "--prune").out) == [("deleted", "bunny")]
    assert len(cluster.rules) == 3


def test_killed_and_run_again(call: Call, cluster: Ruled, tmp_path: Path) -> None:
    file = written(tmp_path, BUNNY, STOP, LIMIT)
    cluster.left["ReplaceFilter"] = 1
    done = call("apply", file)
    assert (done.status, names(done.out)) == (1, [("written", "bunny")])
    assert "no more changes" in done.err
    assert "the same command goes on from here" in done.err
    del cluster.left["ReplaceFilter"]
    assert names(call("apply", file).out) == [("written", "stop"), ("written", "limit")]


def test_lint_finds_errors_before(call: Call, cluster: Ruled, tmp_path: Path) -> None:
    file = written(tmp_path, BUNNY.replace('["=", "reason"', '["=~", "reason"'))
    done = call("apply", file)
    assert (done.status, cluster.rules) == (1, [])
    assert "rule 'bunny'" in done.err or 'rule "bunny"' in done.err
    assert "--force" in done.err
    assert call("apply", file, "--force").status == 0
    assert len(cluster.rules) == 1


def test_json(call: Call, cluster: Ruled, tmp_path: Path) -> None:
    rule = {"name": "a", "action": ["RATE_LIMIT", 2]}
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"owner": "team", "rule": [rule]}))
    (change,) = json.loads(call("apply", str(path), "--json").out)
    assert (change["change"], change["name"], change["action"]) == ("written", "a", rule["action"])
    assert cluster.rules[0]["uuid"] == change["uuid"]
    assert json.loads(call("apply", str(path), "--json").out) == []


FAULTS: list[tuple[str, str]] = [
    ("x = 1", "there is no key"),
    ("[[rule]]\nname = 'a'\ncolour = 1", "there is no key"),
    ("[[rule]]\nname = ''", "rule 1: name: words"),
    ("[[rule]]\nname = 'a'\n[[rule]]\nname = 'a'", "another rule has this name"),
    (
        "[[rule]]\nname = 'a'\npriority = 'x'",
        "rule 'a': priority: a whole number from 0 is expected, found the text 'x'",
    ),
    ("[[rule]]\nname = 'a'\npriority = -1", "a whole number from 0"),
    ("[[rule]]\nname = 'a'\npriority = 1.5", "a whole number from 0"),
    ("[[rule]]\nname = 'a'\naction = 'WAIT'", "'WAIT'"),
    ("[[rule]]\nname = 'a'\naction = 3", "rule 'a': action: ACCEPT, "),
    ("[[rule]]\nname = 'a'\npredicates = [['opcode', ['=', 'OP_ID', 1.5]]]", "predicates[0][1][2]"),
    (
        "[[rule]]\nname = 'a'\npredicates = [['opcode', 2020-01-01]]",
        "rule 'a': predicates[0][1]: an expression is null or a list",
    ),
    ("[[rule]]\nname = 'a'\ncomment = 'ä'", "not ASCII"),
    ("rule = 3", "a list of rules is expected"),
    ("[[rule]", "this is not TOML"),
]


@pytest.mark.parametrize(("text", "fault"), FAULTS)
def test_faults(call: Call, cluster: Ruled, tmp_path: Path, text: str, fault: str) -> None:
    done = call("apply", written(tmp_path, text))
    assert (done.status, cluster.rules) == (1, [])
    assert fault in done.err.replace('"WAIT"', "'WAIT'")
    assert "rules.toml: " in done.err


@pytest.mark.parametrize("content", ["[]", '{"rule": []}', '"x"', '{"owner": "a:b"}'])
def test_an_owner_is_needed(call: Call, tmp_path: Path, content: str) -> None:
    (tmp_path / "rules.json").write_text(content)
    done = call("apply", str(tmp_path / "rules.json"))
    assert done.status == 1
    assert "owner" in done.err


def test_diff_before(call: Call, cluster: Queued, tmp_path: Path) -> None:
    """The rules of others stay, and new rules have the newest job's number as watermark."""
    cluster.put("aaaaaaaa-0000-4000-8000-000000000000", priority=50)
    cluster.job(5, "OP_TEST_DELAY")
    cluster.job(6, "OP_TAGS_SET")
    assert call("diff", "live", written(tmp_path, BUNNY)).out == ""
    done = call("diff", "live", written(tmp_path, STOP), "--json")
    (row,) = json.loads(done.out)
    assert (row["job"], row["before"], row["after"]) == (5, "waits: paused", "canceled")
    new = STOP.replace('[["opcode"', '[["jobid", [">", "id", "watermark"]], ["opcode"')
    assert call("diff", "live", written(tmp_path, new)).out == ""
    call("apply", written(tmp_path, LIMIT))
    assert call("diff", "live", written(tmp_path)).out == ""
    assert call("diff", "live", written(tmp_path), "--prune").out != ""


def test_diff_of_a_drain_before_it_is_created(call: Call, cluster: Queued, tmp_path: Path) -> None:
    """What is queued already is not canceled."""
    cluster.job(5, "OP_TEST_DELAY")
    file = tmp_path / "drain.json"
    file.write_text(call("recipe", "drain", "bunny", "--json").out)
    assert call("diff", "live", str(file)).out == ""
    shown = call("explain", "5", "--rules", str(file)).out
    assert "it starts in the next pass" in shown
    file.write_text(call("recipe", "forbid", "bunny", "--opcode", "OP_TEST_DELAY", "--json").out)
    assert "canceled" in call("diff", "live", str(file)).out


def test_wait(call: Call, cluster: Queued, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the jobs have ended that the rules hold or cancel."""
    for number, name in ((5, "OP_TEST_DELAY"), (6, "OP_TAGS_SET")):
        cluster.job(number, name, "running")
    rows: dict[int, dict[str, Any]] = cluster.standin.queue.rows
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        rows[5]["status"] = "success"

    monkeypatch.setattr("ganeti_steward.plugins.filters.cli.apply.time.sleep", sleep)
    done = call("apply", written(tmp_path, STOP), "--wait")
    assert done.status == 0
    assert "waiting for the end of 1 jobs: 5" in done.err
    assert len(slept) == 1
