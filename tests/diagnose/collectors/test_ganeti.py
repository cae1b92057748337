"""Ganeti's own health, judged on recorded nodes: the master, a candidate, and a plain node."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from collected import collect, faults, fine, made, recorded, unknown

from ganeti_steward.core.errors import BadSettings
from ganeti_steward.core.model.finding import Finding, NotApplicable, Unknown
from ganeti_steward.diagnose.collectors.ganeti import Collector
from ganeti_steward.diagnose.testing import RecordedMachine

DATA: Final = "/var/lib/ganeti"
RUN: Final = "/var/run/ganeti"
#: The clock of the recorded machines, and the group whose watcher did not run on the broken one.
NOW: Final = 1_702_000_000
DEFAULT: Final = "600f61dd-55d3-4965-8e7c-9bcee5d5a562"
RACK2: Final = "761da3a2-261c-4bec-b93e-45df36ec130a"

CERTIFICATES: Final = ("client.pem", "rapi.pem", "server.pem", "spice-ca.pem", "spice.pem")


def parts(*names: str) -> list[str]:
    return [f"ganeti:{name}" for name in names]


def test_healthy() -> None:
    """The master; a pause of its watcher is over."""
    results = collect("ganeti", recorded("ganeti", "healthy"))
    daemons = ("confd", "luxid", "noded", "rapi", "wconfd")
    assert results == [
        Finding(source, "Ok")
        for source in parts(*daemons, *CERTIFICATES, "watcher", "queue", "nodes", "ssconf", "kvm")
    ]


def test_other_roles() -> None:
    """Each is checked for what runs there; the plain node is not vm_capable and needs no KVM."""
    results = collect("ganeti", recorded("ganeti", "healthy-candidate"))
    assert results == [Finding(one, "Ok") for one in parts("confd", "noded", "ssconf", "kvm")]
    results = collect("ganeti", recorded("ganeti", "healthy-node"))
    assert results == [Finding(one, "Ok") for one in parts("noded")]


def test_broken() -> None:
    results = collect("ganeti", recorded("ganeti", "broken"))
    assert faults(results) == {
        # Its number belongs to another process now.
        "ganeti:confd": ["ganeti-confd does not run"],
        # Stopped: no pid file.
        "ganeti:noded": ["ganeti-noded does not run"],
        # A zombie.
        "ganeti:rapi": ["ganeti-rapi does not run"],
        # Killed: the pid file is left.
        "ganeti:wconfd": ["ganeti-wconfd does not run"],
        "ganeti:client.pem": ["the certificate ends on 2023-01-01 00:00 UTC"],
        "ganeti:server.pem": ["the certificate ends on 2024-01-03 12:00 UTC"],
        "ganeti:watcher": [
            "the watcher has not completed a run for group default since 2023-12-07 23:45 UTC"
        ],
        "ganeti:queue": ["the job queue has been drained since 2023-12-07 00:46 UTC"],
        "ganeti:nodes": ["node2.example.org has been drained for 14 days, and nothing was changed"],
        "ganeti:ssconf": [
            "ssconf_master_candidates differs from the configuration",
            "ssconf_node_list differs from the configuration",
        ],
        "ganeti:kvm": ["there is no /dev/kvm"],
    }
    assert fine(results) == parts("luxid", "rapi.pem", "spice-ca.pem", "spice.pem")
    statuses = {one.source: one.status for one in results if isinstance(one, Finding)}
    assert {*statuses.values()} == {"Ok", "suspect", "live-repair"}
    assert statuses["ganeti:nodes"] == "suspect"
    assert not unknown(results)


def test_no_node_of_a_cluster(tmp_path: Any) -> None:
    expected = [NotApplicable("ganeti", "this machine is not a node of a Ganeti cluster")]
    assert collect("ganeti", RecordedMachine(tmp_path)) == expected
    # Ganeti is installed, and what a cluster that was destroyed has left is there.
    left = RecordedMachine(tmp_path, files={f"{DATA}/server.pem": "", f"{DATA}/queue/drain": ""})
    assert collect("ganeti", left) == expected


def test_offline() -> None:
    host = {"/proc/sys/kernel/hostname": "node4.example.org\n"}
    results = collect("ganeti", recorded("ganeti", "broken", files=host))
    assert results == [NotApplicable("ganeti", "the node is offline")]


def test_a_host_that_is_not_in_the_list() -> None:
    host = {"/proc/sys/kernel/hostname": "node9.example.invalid\n"}
    (result,) = collect("ganeti", recorded("ganeti", "healthy", files=host))
    reason = "Ganeti's list of nodes does not hold this host, node9.example.invalid"
    assert result == Unknown("ganeti", reason)


ALL: Final = "ganeti"


@pytest.mark.parametrize(
    ("path", "source", "others"),
    [
        (DATA, ALL, False),
        *(
            (f"{DATA}/ssconf_{name}", ALL, False)
            for name in ("node_list", "offline_nodes", "master_node")
        ),
        (f"{DATA}/ssconf_hypervisor_list", ALL, True),
        (f"{DATA}/ssconf_node_vm_capable", ALL, True),
        (f"{DATA}/ssconf_nodegroups", "ganeti:watcher", True),
        (f"{DATA}/watcher.pause", "ganeti:watcher", True),
        (f"{DATA}/watcher.{RACK2}.data", "ganeti:watcher", True),
        (f"{DATA}/queue", "ganeti:queue", True),
        (f"{RUN}/ganeti-noded.pid", "ganeti:noded", True),
        ("/proc/1177/stat", "ganeti:noded", True),
        ("/dev", "ganeti:kvm", True),
    ],
)
@pytest.mark.parametrize("error", ["EIO", "EACCES"])
def test_what_cannot_be_read_is_unknown(path: str, source: str, others: bool, error: str) -> None:
    results = collect("ganeti", recorded("ganeti", "healthy", refused={path: error}))
    ((found, reason),) = unknown(results).items()
    assert found == source
    assert path in reason
    assert not faults(results)
    assert source not in fine(results)
    assert bool(fine(results)) == others


def test_a_role_that_cannot_be_read() -> None:
    """A node that may be a candidate; the master is one anyway."""
    file = {f"{DATA}/ssconf_master_candidates": "EIO"}
    (result,) = collect("ganeti", recorded("ganeti", "healthy-candidate", refused=file))
    assert isinstance(result, Unknown)
    master = unknown(collect("ganeti", recorded("ganeti", "healthy", refused=file)))
    assert list(master) == ["ganeti:ssconf"]


@pytest.mark.parametrize(
    ("path", "text", "source"),
    [
        (f"{RUN}/ganeti-noded.pid", "", "noded"),
        (f"{RUN}/ganeti-noded.pid", "self", "noded"),
        ("/proc/1177/stat", "1177 ganeti-noded", "noded"),
        (f"{DATA}/watcher.pause", "tomorrow", "watcher"),
        ("/proc/stat", "cpu 1\n", "watcher"),
    ],
)
def test_another_form_is_unknown(path: str, text: str, source: str) -> None:
    results = collect("ganeti", recorded("ganeti", "healthy", files={path: text}))
    assert f"ganeti:{source}" in unknown(results)
    assert not faults(results)


def certified(**ended: Any) -> RecordedMachine:
    """The master; how openssl ends for its server.pem."""
    machine = recorded("ganeti", "healthy")
    line = f"openssl x509 -noout -enddate -in {DATA}/server.pem"
    commands = machine.recorded["commands"]
    machine.recorded["commands"] = {**commands, line: ended}
    return machine


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        ({"status": 1, "errors": "unable to load"}, "openssl ended with status 1"),
        ({"fault": "killed after 60 s"}, "openssl was stopped: killed after 60 s"),
        ({"output": ""}, "openssl did not print the end of the certificate"),
        ({"output": "notAfter=soon"}, "openssl did not print the end of the certificate"),
        (
            {"output": "notAfter=Nov 29 23:42:53 2031"},
            "openssl did not print the end of the certificate",
        ),
        ({"output": "notAfter=Foo 29 23:42:53 2031 GMT"}, "time data 'Foo 29 23:42:53 2031 GMT'"),
    ],
)
def test_a_certificate_that_is_not_understood(ended: dict[str, Any], reason: str) -> None:
    results = collect("ganeti", certified(**ended))
    ((source, found),) = unknown(results).items()
    assert source == "ganeti:server.pem"
    assert found.startswith(reason)
    assert not faults(results)


def test_no_openssl() -> None:
    machine = recorded("ganeti", "healthy", commands={})
    results = collect("ganeti", machine)
    reason = "openssl cannot be run: No such file or directory"
    assert unknown(results) == dict.fromkeys(parts(*CERTIFICATES), reason)
    assert not set(parts(*CERTIFICATES)) & set(fine(results))


def test_a_certificate_that_does_not_exist() -> None:
    """Not every node has one for SPICE."""
    machine = recorded("ganeti", "healthy", files={f"{DATA}/spice.pem": None})
    results = collect("ganeti", machine)
    assert "ganeti:spice.pem" not in fine(results)
    assert not unknown(results)


@pytest.mark.parametrize(
    ("end", "days", "found"),
    [
        # 30 days after 2023-12-08 01:46:40.
        ("Jan  7 01:46:39 2024 GMT", 30, True),
        ("Jan  7 01:46:40 2024 GMT", 30, False),
        ("Dec  8 01:46:39 2023 GMT", 0, True),
        ("Dec  8 01:46:40 2023 GMT", 0, False),
        ("Jan  7 01:46:39 2024 GMT", 29, False),
    ],
)
def test_certificate_days(end: str, days: int, found: bool) -> None:
    machine = certified(output=f"notAfter={end}\n")
    results = collect("ganeti", machine, certificate_days=days)
    assert faults(results).keys() == ({"ganeti:server.pem"} if found else set())


def watched(pause: int | None, luxid: float | None, default: float | None) -> RecordedMachine:
    """The master; seconds from now to a pause's end, since luxid's start and the watcher's run."""
    machine = recorded("ganeti", "healthy")
    if pause is None:
        del machine.recorded["files"][f"{DATA}/watcher.pause"]
    else:
        machine.recorded["files"][f"{DATA}/watcher.pause"] = f"{NOW + pause}"
    for path, ago in {
        f"{RUN}/ganeti-luxid.pid": luxid,
        f"{DATA}/watcher.{DEFAULT}.data": default,
    }.items():
        del machine.recorded["modified"][path]
        if ago is not None:
            machine.recorded["modified"][path] = NOW - ago
    return machine


RUN_MISSING: Final = "the watcher has not completed a run for group default"
HOURS: Final = 3600.0


@pytest.mark.parametrize(
    ("pause", "luxid", "default", "fault"),
    [
        (None, 90 * HOURS, 1 * HOURS, ""),
        (None, 90 * HOURS, 1 * HOURS + 1, f"{RUN_MISSING} since 2023-12-08 00:46 UTC"),
        # It had no chance yet: the node has just become the master, or a pause has just ended.
        (None, 1 * HOURS, 900 * HOURS, ""),
        (None, 2 * HOURS, 900 * HOURS, f"{RUN_MISSING} since 2023-12-07 23:46 UTC"),
        (None, 1 * HOURS, None, ""),
        (None, 2 * HOURS, None, f"{RUN_MISSING} since 2023-12-07 23:46 UTC"),
        (-3600, 90 * HOURS, 24 * HOURS, ""),
        (-7200, 90 * HOURS, 24 * HOURS, f"{RUN_MISSING} since 2023-12-07 23:46 UTC"),
        (None, None, None, RUN_MISSING),
        # Paused, it does not run.
        (0, 90 * HOURS, 24 * HOURS, "the watcher is paused until 2023-12-08 01:46 UTC"),
        (3600, 90 * HOURS, 0, "the watcher is paused until 2023-12-08 02:46 UTC"),
        (10**15, 90 * HOURS, 0, "the watcher is paused until 9999-12-31 23:59 UTC"),
    ],
)
def test_the_watcher(
    pause: int | None, luxid: float | None, default: float | None, fault: str
) -> None:
    results = collect("ganeti", watched(pause, luxid, default))
    assert faults(results) == ({"ganeti:watcher": [fault]} if fault else {})
    assert not unknown(results)


def test_watcher_minutes() -> None:
    machine = watched(None, 90 * HOURS, 2 * HOURS)
    assert faults(collect("ganeti", machine, watcher_minutes=119))
    assert not faults(collect("ganeti", machine, watcher_minutes=120))
    assert not faults(collect("ganeti", machine, watcher_minutes=0))
    assert faults(collect("ganeti", watched(60, 0, 0), watcher_minutes=0))


def test_the_daemons_that_run() -> None:
    """A site without the monitoring daemon and without the remote API is not warned."""
    stopped: dict[str, Any] = {f"{RUN}/ganeti-{name}.pid": None for name in ("mond", "rapi")}
    machine = recorded("ganeti", "healthy", files=stopped)
    assert faults(collect("ganeti", machine)).keys() == set(parts("rapi"))
    both = faults(collect("ganeti", machine, every_node=["noded", "mond"]))
    assert both.keys() == set(parts("mond", "rapi"))
    results = collect("ganeti", machine, master=["wconfd", "luxid"])
    assert not faults(results)
    assert not set(parts("mond", "rapi")) & set(fine(results))
    results = collect("ganeti", machine, every_node=[], candidates=["kvmd"], master=[])
    assert faults(results) == {"ganeti:kvmd": ["ganeti-kvmd does not run"]}
    plain = recorded("ganeti", "healthy-node")
    assert not faults(collect("ganeti", plain, candidates=["kvmd"], master=["metad"]))


@pytest.mark.parametrize("key", ["every-node", "candidates", "master"])
def test_a_daemon_that_ganeti_does_not_have(key: str) -> None:
    with pytest.raises(BadSettings, match=f"{key}: nodded is not one of noded, confd, wconfd, "):
        made(Collector(), "ganeti", {key: ["nodded"]})


def test_kvm() -> None:
    """Only where the cluster uses it, and the node takes instances."""
    gone: dict[str, Any] = {"/dev/kvm": None}
    assert faults(collect("ganeti", recorded("ganeti", "healthy-candidate", files=gone)))
    xen = gone | {f"{DATA}/ssconf_hypervisor_list": "fake\nxen-hvm\n"}
    results = collect("ganeti", recorded("ganeti", "healthy-candidate", files=xen))
    assert not faults(results)
    assert "ganeti:kvm" not in fine(results)


STATUSES: Final = {
    "daemon_status": parts("confd", "noded", "rapi", "wconfd"),
    "certificate_status": parts("client.pem", "server.pem"),
    "watcher_status": parts("watcher"),
    "drained_status": parts("queue"),
    "drained_node_status": parts("nodes"),
    "ssconf_status": parts("ssconf"),
    "kvm_status": parts("kvm"),
}


@pytest.mark.parametrize("key", STATUSES)
def test_a_status_for_each_kind(key: str) -> None:
    machine = recorded("ganeti", "broken")
    everything = set(faults(collect("ganeti", machine)))
    assert everything == set().union(*STATUSES.values())
    ignored = collect("ganeti", machine, **{key: "Ok"})
    assert set(faults(ignored)) == everything - set(STATUSES[key])
    results = collect("ganeti", machine, **{key: "evacuate"}, repair="look")
    for one in results:
        assert isinstance(one, Finding)
        if one.status != "Ok":
            assert (one.status == "evacuate") == (one.source in STATUSES[key])
            assert one.command == ("look" if one.status == "live-repair" else "")


def test_the_status_of_a_pause() -> None:
    machine = watched(60, 0, 900 * HOURS)
    assert collect("ganeti", machine, paused_status="Ok")[-5] == Finding("ganeti:watcher", "Ok")
    (one,) = (
        one
        for one in collect("ganeti", machine, paused_status="evacuate", watcher_status="Ok")
        if isinstance(one, Finding) and one.status != "Ok"
    )
    assert (one.source, one.status) == ("ganeti:watcher", "evacuate")


def configured(**changed: Any) -> RecordedMachine:
    """The healthy master; ``changed``: members of node2 in the configuration."""
    file = f"{DATA}/config.data"
    machine = recorded("ganeti", "healthy")
    content = json.loads(machine.read(file))
    content["nodes"]["u2"] |= changed
    machine.recorded["files"][file] = json.dumps(content)
    return machine


@pytest.mark.parametrize(
    ("mtime", "days", "found"),
    [
        (NOW - 15 * 86400, 14, True),
        (float(NOW - 15 * 86400), 14, True),
        (NOW - 13 * 86400, 14, False),
        (NOW - 13 * 86400, 12, True),
        (0, 0, False),
        # A clock that was set back.
        (NOW + 86400, 14, False),
    ],
)
def test_a_node_that_was_drained_long_ago(mtime: float, days: float, found: bool) -> None:
    results = collect("ganeti", configured(drained=True, mtime=mtime), drained_days=days)
    text = f"node2.example.org has been drained for {days:g} days, and nothing was changed"
    assert faults(results) == ({"ganeti:nodes": [text]} if found else {})


def test_files_that_differ_from_the_configuration() -> None:
    """Whatever of them: a node too many, one that is offline, another candidate."""
    for changed, name in (
        ({"name": "other.example.org"}, "node_list"),
        ({"offline": True}, "offline_nodes"),
        ({"master_candidate": False}, "master_candidates"),
    ):
        found = faults(collect("ganeti", configured(**changed)))
        assert f"ssconf_{name} differs from the configuration" in found["ganeti:ssconf"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"nodes": []}', '{"nodes": {"u": {}}}', '{"nodes": {"u": 1}}']
)
def test_a_configuration_of_another_form(text: str) -> None:
    machine = recorded("ganeti", "healthy")
    machine.recorded["files"][f"{DATA}/config.data"] = text
    results = collect("ganeti", machine)
    assert {*unknown(results)} == {*parts("nodes", "ssconf")}
    assert not faults(results)
