"""The agent's reports over real HTTP, by the real command."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, running
from ganeti_signing import ganeti
from programs import wait_until
from prometheus_client.parser import text_string_to_metric_families
from repair_requests import KEY

from ganeti_steward.core.builtins import MAINTENANCE
from ganeti_steward.core.config.load import load_config
from ganeti_steward.core.ganeti.signing import verify
from ganeti_steward.core.ganeti.this_node import this_node
from ganeti_steward.plugins.daemon_parts import DaemonParts, daemon_parts, read_parts

SALT = "a-fresh_salt-0123"
REPORT = "/1/report/node/diagnose"


@pytest.fixture
def agent(agent: Agent) -> Agent:
    """It has a fresh report and the key."""
    agent.renew_key(KEY)
    agent.write_report()
    return agent


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/", [1]), ("/1", None), ("/1/list/collectors", [["diagnose", "node", 1]])],
)
def test_the_paths_of_the_monitoring_daemon(agent: Agent, path: str, expected: object) -> None:
    assert agent.get(path) == expected
    assert agent.get(f"{path}?anything=1") == expected


def test_the_report(agent: Agent) -> None:
    report = agent.write_report(data={"status": "evacuate", "details": ["ä", 1.5]})
    assert agent.get(REPORT) == report | {"purpose": "report"}
    assert agent.get("/1/report/all") == [report | {"purpose": "report"}]


def test_the_report_signed(agent: Agent) -> None:
    report = agent.write_report()
    raw = agent.ask("GET", f"{REPORT}?salt={SALT}").body
    assert json.loads(verify(KEY, raw, SALT)) == report | {"purpose": "report"}
    assert json.loads(raw).keys() == {"msg", "salt", "hmac"}
    raw = agent.ask("GET", f"/1/report/all?salt={SALT}").body
    assert json.loads(verify(KEY, raw, SALT)) == [report | {"purpose": "report"}]


@pytest.mark.parametrize("path", ["/", REPORT, f"{REPORT}?salt={SALT}", "/metrics", "/nowhere"])
def test_a_web_page_that_leads_its_name_here(agent: Agent, path: str) -> None:
    answer = agent.ask("GET", path, headers={"Host": f"evil.example.net:{agent.port}"})
    assert answer.status == 421
    for name in (this_node().name, "localhost", agent.address):
        assert agent.ask("GET", path, headers={"Host": name}).status in (200, 404)


@pytest.mark.parametrize("path", ["/1/repair", "/1/repair/nonce", "/1/repair/state"])
def test_no_repair_for_such_a_page(agent: Agent, path: str) -> None:
    assert agent.ask("POST", path, b"x", headers={"Host": "evil.example.net"}).status == 421


def test_ganeti_takes_the_signed_report(agent: Agent) -> None:
    """Its own code from the Debian package, with the whole key and only with that."""
    report = agent.write_report(data={"status": "live-repair", "details": ["ä", None]})
    raw = agent.ask("GET", f"{REPORT}?salt={SALT}").body.decode()
    good, bad = ganeti(["load", KEY.decode(), raw], ["load", KEY.decode().strip(), raw])
    assert good == [report | {"purpose": "report"}, SALT]
    assert bad == "Invalid Signature"


def test_the_metrics(agent: Agent) -> None:
    finding = {"status": "live-repair", "source": "raid"}
    unknown = [{"source": "smart", "reason": "asleep"}]
    data = {"status": "evacuate", "details": [finding, finding, {"status": "evacuate"}]}
    report = agent.write_report(data=data, unknown=unknown)
    assert metrics(agent) == {
        "report_timestamp_seconds": report["timestamp"] / 10**9,
        "report_valid": 1,
        "status Ok": 0,
        "status suspect": 0,
        "status live-repair": 0,
        "status evacuate": 1,
        "status evacuate-failover": 0,
        "findings suspect": 0,
        "findings live-repair": 2,
        "findings evacuate": 1,
        "findings evacuate-failover": 0,
        "sources_without_result unknown": 1,
        "sources_without_result not_applicable": 0,
    }
    agent.write_report(data=None)
    found = metrics(agent)
    assert not any(found[name] for name in found if name.startswith(("status", "report_valid")))
    assert agent.ask("HEAD", "/metrics").headers["Content-Type"].startswith("text/plain")


def metrics(agent: Agent) -> dict[str, float]:
    """Name and labels of each sample -> its value."""
    text = agent.ask("GET", "/metrics").body.decode()
    families = list(text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families)
    assert all(family.type == "gauge" and family.documentation for family in families)
    return {
        " ".join([one.name.removeprefix("steward_agent_"), *one.labels.values()]): one.value
        for family in families
        for one in family.samples
    }


@pytest.mark.parametrize("path", ["/", "/1", REPORT, f"{REPORT}?salt={SALT}", "/1/report/all"])
def test_head(agent: Agent, path: str) -> None:
    whole, head = agent.ask("GET", path), agent.ask("HEAD", path)
    assert (head.status, head.body) == (200, b"")
    assert int(head.headers["Content-Length"]) == len(whole.body) > 0
    assert head.headers["Content-Type"] == whole.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    "path", ["/2", "/1/", "/1/report", "/1/report/node", "/1/report/default/diagnose", "/%00"]
)
def test_unknown_paths(agent: Agent, path: str) -> None:
    answer = agent.ask("GET", path)
    assert (answer.status, answer.body) == (404, b"no such path\n")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", "/", "GET, HEAD"),
        ("PUT", REPORT, "GET, HEAD"),
        ("GET", "/1/repair", "POST"),
        ("HEAD", "/1/repair/nonce", "POST"),
        ("DELETE", "/1/repair", "POST"),
    ],
)
def test_wrong_methods(agent: Agent, method: str, path: str, allow: str) -> None:
    answer = agent.ask(method, path)
    assert (answer.status, answer.headers["Allow"]) == (405, allow)


@pytest.mark.parametrize(
    "query",
    [
        "salt=",
        "salt",
        "salt=1234567",
        f"salt={'x' * 65}",
        "salt=nonce.12345678901234567890",
        "salt=12345678%0A",
        'salt=12345678{"a":1',
        f"salt={SALT}&salt={SALT}",
        f"salt={SALT}&salt=",
    ],
)
def test_bad_salts(agent: Agent, query: str) -> None:
    """Above all, no caller can have a report signed with a nonce."""
    answer = agent.ask("GET", f"{REPORT}?{query.replace('{', '%7B').replace(chr(34), '%22')}")
    assert answer.status == 400
    assert b"hmac" not in answer.body


def test_no_key(agent: Agent) -> None:
    agent.key_file.unlink()
    for _ in range(20):
        answer = agent.ask("GET", f"{REPORT}?salt={SALT}")
    assert agent.log.count("a report could not be signed") == 1, "requests cannot fill the log"
    assert (answer.status, answer.body) == (503, b"this node has no key to sign with\n")
    assert agent.get(REPORT)["data"] == {"status": "Ok"}
    agent.renew_key(b"another0123456789\n")
    verify(b"another0123456789\n", agent.ask("GET", f"{REPORT}?salt={SALT}").body, SALT)


def unknown(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["source"], one["reason"]) for one in report["unknown"]]


def test_a_report_that_is_too_old(agent: Agent) -> None:
    """It says neither that the node is fine nor that it is not."""
    own = {"source": "smart", "reason": "smartctl hangs"}
    taken = time.time_ns() - 901 * 10**9
    agent.write_report(timestamp=taken, unknown=[own])
    for report in (agent.get(REPORT), *agent.get("/1/report/all")):
        assert (report["data"], report["timestamp"]) == (None, taken)
        assert unknown(report) == [
            ("smart", "smartctl hangs"),
            ("diagnose", "the last report is more than 900 s old"),
        ]
    agent.write_report(timestamp=time.time_ns() - 800 * 10**9)
    assert agent.get(REPORT)["data"] == {"status": "Ok"}


def test_a_report_from_the_future(agent: Agent) -> None:
    agent.write_report(timestamp=time.time_ns() + 3600 * 10**9)
    report = agent.get(REPORT)
    assert report["data"] is None
    assert unknown(report) == [("diagnose", "the last report is from the future")]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"name": "diagnose"',
        b"\xff",
        b"[]",
        b"null",
        b"{}",
        b"[" * 100_000,
        b'{"name": "diagnose", "unknown": [], "timestamp": "now"}',
        b'{"name": "diagnose", "timestamp": 1}',
    ],
)
def test_a_torn_report(agent: Agent, content: bytes) -> None:
    """The one before does not describe the node any more, least of all as Ok."""
    before = agent.write_report()
    assert agent.get(REPORT)["data"] == {"status": "Ok"}
    agent.report_file.write_bytes(content)
    for _ in range(2):
        report = agent.get(REPORT)
        assert (report["data"], report["timestamp"]) == (None, before["timestamp"])
        assert unknown(report)[-1][1].startswith("the last report cannot be used: it ")
    assert "cannot be used: it " in agent.log.splitlines()[-1]
    agent.write_report()
    assert agent.get(REPORT)["data"] == {"status": "Ok"}


@pytest.mark.parametrize("kind", ["writable", "another's", "fifo"])
def test_a_report_anybody_can_have_left(agent: Agent, kind: str) -> None:
    """The agent would sign it."""
    before = agent.get(REPORT)
    if kind == "another's" and os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    # No request comes while it exists: so only the final state is seen.
    agent.write_report(data={"status": "evacuate"})
    if kind == "writable":
        agent.report_file.chmod(0o666)
    elif kind == "another's":
        os.chown(agent.report_file, 65534, -1)
    else:
        agent.report_file.unlink()
        os.mkfifo(agent.report_file)
    assert agent.get(REPORT) == before
    agent.report_file.unlink()


def test_the_report_of_another_node(agent: Agent) -> None:
    """As from its disk or its backup; the last one of this node stays."""
    before = agent.get(REPORT)
    agent.write_report(node="node2.example.com", data={"status": "evacuate"})
    assert agent.get(REPORT) == before
    assert "cannot be used: it is about another node" in agent.log
    # A node that cannot know its uuid any more is known by its name.
    agent.write_report(node="a-uuid", node_name=this_node().name, data={"status": "evacuate"})
    assert agent.get(REPORT)["data"] == {"status": "evacuate"}


def test_a_report_that_is_gone(agent: Agent) -> None:
    before = agent.get(REPORT)
    agent.report_file.unlink()
    assert agent.get(REPORT) == before


def test_no_report_yet(tmp_path: Path) -> None:
    with running(tmp_path) as agent:
        report = agent.get(REPORT)
        assert (report["data"], report["timestamp"]) == (None, 0)
        assert unknown(report) == [("diagnose", "no report was made yet")]
        (in_all,) = json.loads(
            verify(KEY, agent.ask("GET", f"/1/report/all?salt={SALT}").body, SALT)
        )
        assert in_all == report
        (tmp_path / "diagnose" / "report.json").mkdir()
        assert agent.get(REPORT) == report


def test_it_diagnoses_by_itself(tmp_path: Path) -> None:
    with running(tmp_path, settings="interval = 0.1") as agent:
        wait_until(lambda: agent.get(REPORT)["data"] == {"status": "Ok"}, "a report")
        first = agent.get(REPORT)["timestamp"]
        wait_until(lambda: agent.get(REPORT)["timestamp"] > first, "another report")
        assert agent.get(REPORT)["node"] == this_node().identity
        assert json.loads(agent.report_file.read_bytes())["data"] == {"status": "Ok"}


def test_on_a_disk_that_takes_no_more_writing(tmp_path: Path) -> None:
    """The report comes to the agent also where it cannot be left in a file."""
    with running(tmp_path, settings="interval = 0.1", directory="/proc/nowhere") as agent:
        wait_until(lambda: agent.get(REPORT)["data"] == {"status": "Ok"}, "a report")
        (_, reason) = unknown(agent.get(REPORT))[0]
        assert reason.startswith("nothing is kept from run to run")


def test_a_configuration_that_breaks(tmp_path: Path) -> None:
    """The one of the start is good enough to go on with."""
    with running(tmp_path, settings="interval = 0.1") as agent:
        wait_until(lambda: agent.get(REPORT)["data"], "a report")
        (tmp_path / "steward.toml").write_text("broken")
        complaint = "the diagnosis goes on with the configuration of its start: "
        wait_until(lambda: complaint in agent.log, "a complaint")
        before = agent.get(REPORT)
        assert before["data"] == {"status": "Ok"}
        wait_until(lambda: agent.get(REPORT)["timestamp"] > before["timestamp"], "a report")
        assert agent.get(REPORT)["data"] == before["data"]


def test_how_a_maintenance_daemon_here_would_act(tmp_path: Path) -> None:
    """As the file and the key of this moment say, without a restart and without their content."""

    def reported() -> DaemonParts | None:
        return read_parts(agent.get(REPORT)["daemon"])

    def expected(key: bytes) -> DaemonParts:
        return daemon_parts(load_config(str(file), MAINTENANCE), key)

    file, other = tmp_path / "steward.toml", b"the key after it was renewed\n"
    with running(tmp_path, settings="interval = 0.1") as agent:
        wait_until(lambda: agent.get(REPORT).get("daemon"), "a report")
        first = reported()
        assert first == expected(KEY)
        text = file.read_text()
        file.write_text(f'{text}\n[maintd]\nwebhook = "https://example.org/Hunter2"')
        wait_until(lambda: reported() != first, "another report")
        assert reported() == expected(KEY)
        assert "Hunter2" not in json.dumps(agent.get(REPORT))
        agent.renew_key(other)
        wait_until(lambda: reported() == expected(other), "a report with the new key")
        file.write_text(f'{text}\n[maintd]\nmode = "never"')
        wait_until(lambda: (found := reported()) and found.digests is None, "a report of a fault")
        agent.key_file.unlink()
        wait_until(lambda: agent.get(REPORT)["daemon"] == {}, "a report without a key")
