"""Polling node agents: what counts, what does not, and that a dead node delays no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import agents
import psutil
import pytest
from asserting import some
from fake_agents import Behaviour, diagnose_report, fake_agents, reports, sends
from programs import wait_until
from repair_requests import KEY

from ganeti_steward.allocators.loads.agent_loads import NodeLoad
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.ganeti.this_node import this_node
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.answers import RejectedAnswer
from ganeti_steward.plugins.maintenance.edges.client import AgentClient, MachineGone, NotConnected
from ganeti_steward.plugins.maintenance.edges.poll import (
    Poll,
    Poller,
    Target,
    agent_reports,
    is_news,
)
from ganeti_steward.plugins.model.world import Observation, Reboot, Refused, Reported, Silent

NOW: Final = 1_767_787_200 * 10**9
SECOND: Final = 10**9

#: What a poll of one node gives.
Fetched = Mapping[str, Any] | Exception


def target(number: int) -> Target:
    return Target(f"uuid-{number}", f"node{number}.lab", f"127.0.1.{number}")


def report(number: int, status: str = "Ok", at: int = NOW, **more: Any) -> dict[str, Any]:
    return diagnose_report(f"uuid-{number}", at, status=status, **more)


class Fake:
    """A poller whose nodes report what a test wants, with a clock it sets."""

    def __init__(self, *numbers: int, **more: Any) -> None:
        self.now, self.woken = NOW, 0
        self.found: dict[str, Fetched] = {target(n).uuid: report(n) for n in numbers}
        self.poller = Poller(
            self._fetch, 3600, self._wake, targets=map(target, numbers), clock=self._clock, **more
        )

    def _clock(self) -> int:
        return self.now

    def _wake(self) -> None:
        self.woken += 1

    def _fetch(self, one: Target) -> Mapping[str, Any]:
        found = self.found[one.uuid]
        if isinstance(found, Exception):
            raise found
        return found

    def poll(self, **changed: Fetched) -> Mapping[str, Observation]:
        """Poll ten seconds after the last time; ``changed``: uuid with ``_`` -> what it reports."""
        self.found |= {uuid.replace("_", "-"): one for uuid, one in changed.items()}
        self.now += 10 * SECOND
        self.poller.poll()
        return self.poller.latest.observations


def test_reports() -> None:
    fake = Fake(1, 2)
    repair = report(2, "live-repair", NOW - 5, command="reboot-disk", details={"b": 1, "a": []})
    found = fake.poll(uuid_2=repair)
    original = b'{"command":"reboot-disk","details":{"a":[],"b":1},"status":"live-repair"}'
    assert found == {
        "uuid-1": Reported(b'{"status":"Ok"}', "Ok", "", NOW),
        "uuid-2": Reported(original, "live-repair", "reboot-disk", NOW - 5),
    }


@pytest.mark.parametrize("command", [None, 7, "", "../sh", ["reboot"], "a b"])
def test_a_command_that_is_none(command: object) -> None:
    (found,) = Fake(1).poll(uuid_1=report(1, "live-repair", command=command)).values()
    assert isinstance(found, Reported)
    assert found.command == ""


def test_the_boot_id() -> None:
    """Another one is news; an older agent reports none, and what cannot be one does not count."""
    seen = []
    for boot in ("b1", "b2", 7, "x" * 65):
        (found,) = Fake(1).poll(uuid_1=report(1) | {"boot_id": boot}).values()
        assert isinstance(found, Reported)
        seen.append(found)
    assert [one.boot for one in seen] == ["b1", "b2", "", ""]
    assert is_news(seen[0], seen[1])
    assert not is_news(seen[2], seen[3])


def test_the_peers_of_drbd() -> None:
    """What is not a list of addresses is as if it was not reported."""
    given = (["192.0.2.2", "192.0.2.1", "::1"], [], None, "192.0.2.1", ["node2"], [7.5], [[]])
    seen = []
    for peers in given:
        (found,) = Fake(1).poll(uuid_1=report(1) | {"drbd_peers": peers}).values()
        assert isinstance(found, Reported)
        seen.append(found.linked)
    assert seen == [("192.0.2.1", "192.0.2.2", "::1"), (), None, None, None, None, None]


def test_the_load() -> None:
    """What cannot be how busy a node was is as if it was not reported."""
    good = {"seconds": 900, "cpu": 0.5, "cpus": 8, "memory": 0.25, "disk": None, "pressure": {}}
    wrong: tuple[dict[str, Any], ...] = (
        *({"seconds": 0}, {"cpus": None}, {"cpus": 0}, {"cpu": 1.5}, {"memory": -0.1}),
        *({"cpu": "0.5"}, {"disk": []}, {"seconds": 10**6}, {"cpu": True}, {"cpu": float("nan")}),
    )
    given: tuple[Any, ...] = (good, None, [], {}, *(good | one for one in wrong))
    seen = []
    for load in given:
        (found,) = Fake(1).poll(uuid_1=report(1) | {"load": load}).values()
        assert isinstance(found, Reported)
        seen.append(found.load)
    at = report(1)["timestamp"]
    assert seen == [NodeLoad(at, 900, 8, 0.5, 0.25, None), *[None] * (len(given) - 1)]


def test_the_volume_groups() -> None:
    """What cannot be the groups of a node is as if it was not reported."""
    good = {"xenvg": [953860, 412036], "a.b+c_d-1": [4, 0]}
    given: tuple[Any, ...] = (
        *(good, {}, None, [], {"xenvg": [1]}, {"xenvg": [1, -1]}, {"xenvg": [1.5, 1]}),
        *({"xenvg": [2**41, 1]}, {"xenvg": None}, {"": [1, 1]}, {"-x": [1, 1]}, {"a b": [1, 1]}),
        *({"x" * 128: [1, 1]}, {f"vg{number}": [1, 1] for number in range(1025)}),
    )
    seen = []
    for groups in given:
        (found,) = Fake(1).poll(uuid_1=report(1) | {"volume_groups": groups}).values()
        assert isinstance(found, Reported)
        seen.append(found.volume_groups)
    read = {"xenvg": (953860, 412036), "a.b+c_d-1": (4, 0)}
    assert seen == [read, {}, *[None] * (len(given) - 2)]
    # Room that has changed is no news of the node.
    first, second = (Reported(b"{}", "Ok", "", NOW, volume_groups=one) for one in (read, {}))
    assert not is_news(first, second)


WHOLE: Final[dict[str, Any]] = {
    "qemu": "7.2.22",
    "machines": {"pc": "pc-i440fx-7.2", "pc-i440fx-7.2": ""},
    "cpu": "CPU",
    "flags": ["avx", "fpu"],
    "running": {"web.lab": {"machine": "pc", "host_cpu": False}},
}


@pytest.mark.parametrize(
    ("given", "known"),
    [
        (WHOLE, ["qemu", "machines", "cpu", "flags", "running"]),
        # That of a newer agent.
        (WHOLE | {"more": 7}, ["qemu", "machines", "cpu", "flags", "running"]),
        (WHOLE | {"qemu": None, "machines": None}, ["cpu", "flags", "running"]),
        ({}, []),
        *((odd, None) for odd in (None, [], "7.2", {"qemu": 7})),
        *((WHOLE | {"qemu": odd}, None) for odd in ("", "7", "7.2\n", "7.2.22.1", "٧.2")),
        *((WHOLE | {"flags": odd}, None) for odd in (["a b"], ["\x1b[1m"], ["x"] * 1025, [7])),
        (WHOLE | {"machines": {"x" * 65: ""}}, None),
        (WHOLE | {"machines": {"pc": "\n"}}, None),
        (WHOLE | {"running": {"web.lab": {"machine": "", "host_cpu": False}}}, None),
        (WHOLE | {"running": {"web.lab": {"machine": "pc"}}}, None),
    ],
)
def test_a_hypervisor(given: object, known: list[str] | None) -> None:
    """What has not the form of the section is as if it was not reported."""
    (found,) = Fake(1).poll(uuid_1=report(1) | {"hypervisor": given}).values()
    assert isinstance(found, Reported)
    if found.hypervisor is None:
        assert known is None
    else:
        members = found.hypervisor._asdict().items()
        assert [name for name, one in members if one is not None] == known


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({"required": [], "booted": 5}, Reboot((), 5)),
        ({"required": ["a", "b\n" * 400], "booted": None}, Reboot(("a", "b b"), None)),
        ({"required": None, "booted": 5}, Reboot(None, 5)),
        *((odd, Reboot(None, None)) for odd in (None, [], {"required": "x", "booted": 5})),
        ({"required": [1], "booted": 5}, Reboot(None, None)),
    ],
)
def test_a_reboot_that_is_required(given: object, seen: Reboot) -> None:
    """What has not the form of the section is as if it was not reported."""
    (found,) = Fake(1).poll(uuid_1=report(1) | {"reboot": given}).values()
    assert isinstance(found, Reported)
    assert found.reboot.booted == seen.booted
    texts = [text[:3] for text in found.reboot.required or ()]
    assert (texts, found.reboot.required is None) == (
        [*(seen.required or ())],
        seen.required is None,
    )


def test_how_far_its_clock_is_ahead(key: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the poll has seen it, whatever the report says."""
    monkeypatch.setattr(AgentClient, "report", lambda *_: report(1) | {"clock_ahead": 7})
    fetch = agent_reports(Maintd(), key)
    assert fetch(Target("uuid-1", "n1", "192.0.2.1"))["clock_ahead"] is None
    (found,) = Fake(1).poll(uuid_1=report(1) | {"clock_ahead": -40}).values()
    assert isinstance(found, Reported)
    assert found.ahead == -40


def test_a_machine_that_does_not_answer_is_gone() -> None:
    fake = Fake(1)
    (found,) = fake.poll(uuid_1=MachineGone("timed out")).values()
    assert found == Silent(NOW + 10 * SECOND, "timed out", gone=True)
    (found,) = fake.poll(uuid_1=NotConnected("connection refused")).values()
    assert found == Silent(NOW + 10 * SECOND, "connection refused", gone=False)


def test_silence_lasts_since_it_began() -> None:
    fake = Fake(1)
    fake.poll(uuid_1=StewardError("no route"))
    (found,) = fake.poll(uuid_1=StewardError("refused")).values()
    assert found == Silent(NOW + 10 * SECOND, "refused")
    (found,) = fake.poll(uuid_1=RejectedAnswer("old", "901 s old")).values()
    assert found == Refused(NOW + 30 * SECOND, "901 s old")
    (found,) = fake.poll(uuid_1=RejectedAnswer("node", "another node")).values()
    assert found == Refused(NOW + 30 * SECOND, "another node")
    (found,) = fake.poll(uuid_1=report(1)).values()
    assert isinstance(found, Reported)
    (found,) = fake.poll(uuid_1=StewardError("no route")).values()
    assert found == Silent(NOW + 60 * SECOND, "no route")


def test_no_data_is_silence() -> None:
    unknown = [{"source": "md", "reason": "no mdadm"}, {"source": "diagnose", "reason": "old"}, 7]
    content = report(1) | {"data": None, "unknown": unknown}
    (found,) = Fake(1).poll(uuid_1=content).values()
    assert found == Silent(NOW + 10 * SECOND, "the agent has no data (md: no mdadm; diagnose: old)")
    (found,) = Fake(1).poll(uuid_1=content | {"unknown": "all"}).values()
    assert found == Silent(NOW + 10 * SECOND, "the agent has no data")
    del content["data"], content["unknown"]
    (found,) = Fake(1).poll(uuid_1=content).values()
    assert found == Silent(NOW + 10 * SECOND, "the agent has no data")


def nested(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("changed", "reason", "why"),
    [
        ({"status": "evacuated"}, "status", "unknown status: the text 'evacuated'"),
        ({"status": "ok"}, "status", "unknown status: the text 'ok'"),
        ({"details": float("inf")}, "form", "cannot be used: Out of range float"),
        ({"details": nested(100)}, "form", "nested more than 72 deep"),
        ({"details": "x" * 2**16}, "size", "bytes, more than 65536"),
    ],
)
def test_an_object_that_counts_for_nothing(changed: dict[str, Any], reason: str, why: str) -> None:
    fake = Fake(1)
    content = report(1)
    (found,) = fake.poll(uuid_1=content | {"data": content["data"] | changed}).values()
    assert isinstance(found, Refused)
    assert why in found.why
    assert fake.poller.latest.refused == {reason: 1}


def test_a_failure_inside_is_silence() -> None:
    (found,) = Fake(1).poll(uuid_1=ValueError("oops")).values()
    assert found == Silent(NOW + 10 * SECOND, "the poll failed: oops")


def test_what_another_node_sends_is_one_short_line() -> None:
    (found,) = Fake(1).poll(uuid_1=RejectedAnswer("form", "x\n" * 5000)).values()
    assert isinstance(found, Refused)
    assert len(found.why) == 500
    assert "\n" not in found.why


def test_the_loop_is_woken_by_news_only() -> None:
    fake = Fake(1, 2)
    steps: list[tuple[dict[str, Fetched], bool]] = [
        ({}, True),
        ({}, False),
        ({"uuid_1": report(1, at=NOW + 5)}, False),
        ({"uuid_1": report(1, "evacuate")}, True),
        ({"uuid_1": report(1, "evacuate", details=1)}, True),
        ({"uuid_1": StewardError("gone")}, True),
        ({"uuid_1": StewardError("still gone")}, False),
        ({"uuid_1": RejectedAnswer("old", "old")}, True),
        ({"uuid_1": RejectedAnswer("node", "another")}, False),
    ]
    for changed, news in some(steps):
        before = fake.woken
        fake.poll(**changed)
        assert (fake.woken > before) == news, changed


def test_refusals_are_counted() -> None:
    fake = Fake(1, 2, 3)
    old, other = RejectedAnswer("old", "old"), RejectedAnswer("node", "another")
    fake.poll(uuid_1=old, uuid_2=old, uuid_3=other)
    fake.poll(uuid_3=StewardError("gone"))
    assert fake.poller.latest.refused == {"old": 4, "node": 1}
    assert (fake.poller.latest.polls, fake.poller.latest.ended) == (2, NOW + 20 * SECOND)


def test_nodes_come_and_go() -> None:
    fake = Fake(1, 2)
    fake.poll()
    fake.poller.set_targets([target(2), target(3)])
    assert set(fake.poll(uuid_3=report(3))) == {"uuid-2", "uuid-3"}
    fake.poller.set_targets([])
    assert fake.poll() == {}


def test_published_values_never_change() -> None:
    fake = Fake(1)
    before = fake.poll()
    seen = dict(before)
    fake.poll(uuid_1=StewardError("gone"))
    assert before == seen
    with pytest.raises(TypeError):
        before["uuid-1"] = Silent(0, "")  # type: ignore[index]


def test_an_earlier_poller_is_continued() -> None:
    known = Poll({"uuid-1": Silent(5, "gone")}, {"old": 3}, 7)
    fake = Fake(1, known=known)
    (found,) = fake.poll(uuid_1=StewardError("no route")).values()
    assert found == Silent(5, "no route")
    assert (fake.poller.latest.refused, fake.poller.latest.polls) == ({"old": 3}, 8)


def test_without_any_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a system allows no more threads the nodes are polled one after another."""
    fake = Fake(1, 2, 3)

    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    assert len(fake.poll()) == 3


def test_new_nodes_are_polled_at_once() -> None:
    fake = Fake(1)
    fake.found["uuid-2"] = report(2)
    with running(fake.poller):
        wait_until(lambda: fake.poller.latest.polls == 1, "the first poll")
        fake.poller.set_targets([target(1), target(2)])
        wait_until(lambda: "uuid-2" in fake.poller.latest.observations, "the poll of the new one")


@contextmanager
def running(poller: Poller) -> Iterator[None]:
    poller.start()
    try:
        yield
    finally:
        begun = time.monotonic()
        poller.stop()
        assert time.monotonic() - begun < 60


def real_poller(
    path: Path, port: int, numbers: range, limit: float, wake: Callable[[], None]
) -> Poller:
    """A poller of fake agents, with the real client."""
    (path / "hmac.key").write_bytes(KEY)
    settings = Maintd(agent_port=port, poll_time_limit=limit)
    fetch = agent_reports(settings, KeyFile(str(path / "hmac.key")), lambda: NOW)
    return Poller(fetch, 3600, wake, targets=map(target, numbers), clock=lambda: NOW)


def test_adversaries(tmp_path: Path) -> None:
    """Nothing that is not signed, fresh and of this very node counts; each kind is counted."""
    made: dict[int, tuple[Behaviour, str]] = {
        1: (reports(report(1, "evacuate"), key=b"another key\n"), "signature"),
        2: (reports(report(2, "evacuate"), salt="the-salt-of-yesterday"), "salt"),
        3: (reports(report(4, "evacuate")), "node"),
        4: (reports(report(4, "evacuate", NOW + 3600 * SECOND)), "future"),
        5: (reports(report(5, "evacuate", NOW - 901 * SECOND)), "old"),
        6: (sends(b"rubbish"), "form"),
        7: (reports(report(7, "reboot")), "status"),
        8: (reports(report(8, "evacuate") | {"purpose": "repaired"}), "purpose"),
        9: (sends(b"x" * (2**20 + 1)), "size"),
    }
    healthy = {target(10).address: reports(report(10))}
    with fake_agents(healthy | {target(n).address: one for n, (one, _) in made.items()}) as agents:
        poller = real_poller(tmp_path, agents.port, range(1, 11), 30, lambda: None)
        poller.poll()
    found = dict(poller.latest.observations)
    assert found.pop("uuid-10") == Reported(b'{"status":"Ok"}', "Ok", "", NOW)
    assert all(isinstance(one, Refused) for one in found.values()), found
    assert poller.latest.refused == {reason: 1 for _, reason in made.values()}


def test_dead_nodes_delay_no_other(tmp_path: Path) -> None:
    """Of 200 agents 20 accept and never answer: less than the limits of ten."""
    limit, dead = 2.0, range(1, 201, 10)
    behaviours = {
        target(n).address: sends(None) if n in dead else reports(report(n)) for n in range(1, 201)
    }
    woken = threading.Event()
    with fake_agents(behaviours) as agents:
        poller = real_poller(tmp_path, agents.port, range(1, 201), limit, woken.set)
        memory = psutil.Process().memory_info().rss
        begun = time.monotonic()
        poller.poll()
        elapsed = time.monotonic() - begun
    found = poller.latest.observations
    assert elapsed < 10 * limit
    assert 0 < poller.latest.seconds <= elapsed
    silent = {uuid for uuid, one in found.items() if isinstance(one, Silent)}
    assert silent == {f"uuid-{n}" for n in dead}
    assert sum(isinstance(one, Reported) for one in found.values()) == 180
    assert woken.is_set()
    assert psutil.Process().memory_info().rss - memory < 30 * 2**20


def test_results_are_published_before_the_last_one(tmp_path: Path) -> None:
    """And stopping does not wait for agents that do not answer."""
    behaviours = {target(1).address: sends(None), target(2).address: reports(report(2))}
    with fake_agents(behaviours) as agents:
        poller = real_poller(tmp_path, agents.port, range(1, 3), 60, lambda: None)
        with running(poller):
            wait_until(lambda: "uuid-2" in poller.latest.observations, "the report of the other")
            assert poller.latest.polls == 0


def test_the_real_agent(tmp_path: Path) -> None:
    """Silent without a report, then as it reports, then silent when it has ended."""
    node = this_node()
    with agents.running(tmp_path) as agent:
        key = KeyFile(str(agent.key_file))
        settings = Maintd(agent_port=agent.port)
        target = Target("u1", node.name, agent.address)
        poller = Poller(agent_reports(settings, key), 3600, lambda: None, targets=[target])
        poller.poll()
        (silent,) = poller.latest.observations.values()
        assert isinstance(silent, Silent)
        assert "no report was made yet" in silent.why
        report = agent.write_report(
            node=node.name, data={"status": "evacuate", "details": {"b": [1.5, "ä"], "a": None}}
        )
        poller.poll()
        (found,) = poller.latest.observations.values()
        original = b'{"details":{"a":null,"b":[1.5,"\\u00e4"]},"status":"evacuate"}'
        assert isinstance(found, Reported)
        # The same clock; the answer may take a while.
        assert found.ahead is not None
        assert found.ahead <= 0
        assert found == Reported(original, "evacuate", "", report["timestamp"], ahead=found.ahead)
    poller.poll()
    (gone,) = poller.latest.observations.values()
    assert isinstance(gone, Silent)
    assert "Connection refused" in gone.why
