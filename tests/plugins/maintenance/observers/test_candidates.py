"""Each master candidate is compared with the running daemon; not known is not different."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import confd_servers
from fake_agents import diagnose_report, reports
from running import Site, site, wait_for
from worlds import NOW, node, uuid_of, world

from ganeti_steward.core.config.parse import parse_config
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.ganeti.hmac_key import NoKey
from ganeti_steward.plugins.daemon_parts import DaemonParts, daemon_parts, reported_parts
from ganeti_steward.plugins.maintenance.daemon import candidates as module
from ganeti_steward.plugins.maintenance.daemon.candidates import Candidates
from ganeti_steward.plugins.maintenance.edges.poll import Poll, polled
from ganeti_steward.plugins.maintenance.edges.status import Candidate

if TYPE_CHECKING:
    import pytest

KEY: Final = b"a key of the cluster\n"
ACT: Final = parse_config("steward.toml", b'[maintd]\nmode = "act"')
WORLD: Final = world(
    [
        node("n1", master=True, master_candidate=True),
        node("n2", master_candidate=True),
        node("n3", master_candidate=True),
        node("n4", master_candidate=False),
    ]
)
LOG: Final = "ganeti_steward.plugins.maintenance.daemon.candidates"


def poll(parts: Mapping[str, DaemonParts]) -> Poll:
    return Poll(daemons={uuid_of(name): one for name, one in parts.items()})


def states(found: tuple[Candidate, ...]) -> dict[str, str]:
    return {one.name: one.state for one in found}


def test_states() -> None:
    """A node that is no candidate is not compared."""
    same, other = daemon_parts(ACT, KEY), daemon_parts(Config(), KEY)
    compare = Candidates(lambda: ACT, lambda: KEY)
    found = compare(WORLD, poll({"n1": same, "n2": other, "n4": other}))
    assert found == (
        Candidate(uuid_of("n1"), "n1", "same"),
        Candidate(uuid_of("n2"), "n2", "differs", ("[maintd]",)),
        Candidate(uuid_of("n3"), "n3", "not-known", why="no report of its agent says it now"),
    )
    (held,) = compare.problems
    assert (held.subject, held.brake) == ("n2", "candidate")
    assert "what differs: [maintd] (" in held.sentence


def test_it_is_logged_once_until_it_is_the_same_again(caplog: pytest.LogCaptureFixture) -> None:
    same, other = daemon_parts(ACT, KEY), daemon_parts(Config(), KEY)
    third = daemon_parts(parse_config("steward.toml", b"[weigh]\nx = 2"), KEY)
    compare = Candidates(lambda: ACT, lambda: KEY)
    with caplog.at_level(logging.INFO, LOG):
        for seen in (same, other, other, None, other, third, same, same):
            compare(WORLD, poll({"n2": seen} if seen else {}))
            assert len(compare.problems) == (seen in (other, third))
    assert [(one.levelname, one.message.split(" (")[0]) for one in caplog.records] == [
        (
            "WARNING",
            "a daemon that began on n2 now would act in another way than this one; what differs: "
            "[maintd]",
        ),
        (
            "WARNING",
            "a daemon that began on n2 now would act in another way than this one; what differs: "
            "[maintd], [weigh]",
        ),
        ("INFO", "a daemon on n2 would act as this one again"),
    ]


def test_a_configuration_that_is_read_again_is_compared_at_once() -> None:
    used = [Config()]
    compare = Candidates(lambda: used[0], lambda: KEY)
    there = poll({"n2": daemon_parts(ACT, KEY)})
    assert states(compare(WORLD, there))["n2"] == "differs"
    used[0] = ACT
    assert states(compare(WORLD, there))["n2"] == "same"


def test_a_renewed_key_makes_it_not_known_until_the_next_report() -> None:
    keys = [KEY]
    compare = Candidates(lambda: ACT, lambda: keys[0])
    there = poll({"n2": daemon_parts(ACT, KEY)})
    assert states(compare(WORLD, there))["n2"] == "same"
    keys[0] = b"the next key of the cluster\n"
    found = {one.name: one for one in compare(WORLD, there)}["n2"]
    assert (found.state, found.why) == ("not-known", "its last report is made with another key")
    assert compare.problems == ()
    assert states(compare(WORLD, poll({"n2": daemon_parts(ACT, keys[0])})))["n2"] == "same"


def test_without_a_key_nothing_is_known() -> None:
    def key() -> bytes:
        raise NoKey("there is none")

    compare = Candidates(lambda: ACT, key)
    found = compare(WORLD, poll({"n2": daemon_parts(ACT, KEY)}))
    assert {*states(found).values()} == {"not-known"}


def test_files_are_read_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with each round: a round may come every second."""
    read: list[int] = []

    def counting(config: Config, key: bytes) -> DaemonParts:
        read.append(1)
        return daemon_parts(config, key)

    monkeypatch.setattr(module, "daemon_parts", counting)
    compare = Candidates(lambda: ACT, lambda: KEY)
    for seconds in (0, 1, 299, 300, 301, 599, 600, -100):
        compare(WORLD._replace(now=NOW + seconds * 10**9), poll({}))
    assert len(read) == 4


def test_only_a_report_that_is_accepted_says_it() -> None:
    """The parts come with the observation, and go with it."""
    parts = daemon_parts(ACT, KEY)
    report = {"data": {"status": "Ok"}, "timestamp": NOW, "daemon": parts._asdict()}
    assert polled(report, NOW).daemon == parts
    assert polled(report | {"data": None}, NOW).daemon is None
    assert polled(report | {"data": {"status": "x"}}, NOW).daemon is None
    assert polled({**report, "daemon": {}}, NOW).daemon is None


def known(cluster: Site, number: int) -> dict[str, tuple[str, list[str]]]:
    """Candidate -> how it compares; empty until so many are known."""
    found = {
        one["node-name"]: (one["configuration"], one["differs"])
        for one in cluster.get("/1/daemon")["candidates"]
        if one["configuration"] != "not-known"
    }
    return found if len(found) == number else {}


def test_the_daemon_says_it_everywhere(tmp_path: Path) -> None:
    """In the status, on the page, in a metric and in the log, from the reports of the agents."""
    with site(tmp_path) as cluster:
        master, *others = cluster.names
        for name in cluster.names:
            cluster.stand_in.ganeti.node(name)["master_candidate"] = name != others[-1]
        there = tmp_path / "other.toml"
        there.write_text('[maintd]\nmode = "observe"\nwebhook = "https://example.org/Hunter2"')
        for name, file in ((master, cluster.config), (others[0], there)):
            row = cluster.stand_in.ganeti.node(name)
            content = diagnose_report(name, time.time_ns()) | {
                "daemon": reported_parts(str(file), lambda: confd_servers.KEY)
            }
            cluster.agents.behaviours[row["pip"]] = reports(content, confd_servers.KEY)
        with cluster.daemon():
            cluster.begun()
            found = wait_for(lambda: known(cluster, 2), cluster.log.read_text)
            metrics, page = (cluster.raw(path).decode() for path in ("/metrics", "/ui"))
            everything = json.dumps(cluster.get("/1/daemon"))
    assert found == {master: ("same", []), others[0]: ("differs", ["[maintd]"])}
    assert 'steward_maintd_candidates{configuration="differs"} 1.0' in metrics
    assert 'steward_maintd_candidates{configuration="not-known"} 1.0' in metrics
    assert "candidate holds 1" in page
    line = f"a daemon that began on {others[0]} now would act in another way than this one"
    assert cluster.log.read_text().count(line) == 1
    assert "Hunter2" not in everything + page + metrics + cluster.log.read_text()
