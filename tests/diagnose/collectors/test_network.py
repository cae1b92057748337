"""Links of interfaces and bonds, as sysfs reports them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from collected import collect, faults, fine, recorded, survives, unknown

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.model.finding import Finding, NotApplicable, Unknown
from ganeti_steward.diagnose.testing import RecordedMachine

NET = "/sys/class/net"


def test_healthy() -> None:
    # Neither what belongs to instances, nor what is down, nor virtual functions.
    refused = {f"{NET}/bonding_masters/flags": "ENOTDIR"}
    assert collect("network", recorded("network", "healthy", refused=refused)) == [
        Finding("network:bond0", "Ok"),
        Finding("network:eno1", "Ok"),
        Finding("network:eno2", "Ok"),
        Finding("network:eno3", "Ok"),
    ]


def test_what_belongs_to_instances() -> None:
    """Xen's end of their interfaces, and an adapter's port to a virtual function, have devices."""
    machine = recorded("network", "instances")
    assert collect("network", machine) == [Finding("network:eno1", "Ok")]
    # In an instance itself, what Xen gives it is its hardware.
    links = machine.recorded["links"] | {f"{NET}/vif7.0/device/subsystem": "../../bus/xen"}
    results = collect("network", recorded("network", "instances", links=links))
    assert faults(results) == {"network:vif7.0": ["no link"]}


def test_broken() -> None:
    results = collect("network", recorded("network", "broken"))
    assert faults(results) == {
        "network:bond1": ["no link"],
        "network:bond2": ["fewer than 1 ports", "no link"],
        "network:eno2": ["no link"],
        "network:eno3": ["no link"],
        "network:eno5": ["half duplex"],
        # Its switch port is in another group than the others'.
        "network:ens1": ["not in the aggregator its bond uses"],
        "network:ens2": ["no link"],
    }
    assert fine(results) == ["network:bond0", "network:eno1"]
    assert unknown(results) == {}
    assert {one.status for one in results if isinstance(one, Finding)} == {"Ok", "live-repair"}


def test_settings() -> None:
    broken = recorded("network", "broken")
    results = collect(
        "network", broken, ignore=["bond*", "ens?"], no_link_status="Ok", least_speed=1000.0
    )
    assert faults(results) == {"network:eno5": ["half duplex", "too slow"]}
    results = collect("network", broken, ignore=["e*"], least_ports=3, bond_status="evacuate")
    assert [one for one in results if isinstance(one, Finding) and one.status == "evacuate"] == [
        Finding("network:bond1", "evacuate", "", {"faults": ["fewer than 3 ports"]}),
        Finding("network:bond2", "evacuate", "", {"faults": ["fewer than 3 ports"]}),
    ]


def test_speeds() -> None:
    healthy = recorded("network", "healthy")
    results = collect("network", healthy, least_speed=10000.0, speeds=["eno3=1000", "eno*=25000"])
    assert faults(results) == {"network:eno1": ["too slow"], "network:eno2": ["too slow"]}
    # An unknown speed is not enough.
    for odd in ("-1\n", "4294967295\n"):
        machine = recorded("network", "healthy", files={f"{NET}/eno3/speed": odd})
        results = collect("network", machine, least_speed=1000.0)
        assert set(unknown(results)) == {"network:eno3"}
        assert unknown(collect("network", machine)) == {}
    with pytest.raises(StewardError) as error:
        collect("network", healthy, speeds=["eno1", "eno2=fast", "=1", "eno3=0", "a=inf", "a=nan"])
    assert str(error.value) == (
        "collector.network.speeds: 'eno1', 'eno2=fast', '=1', 'a=inf', 'a=nan' "
        "are not of the form PATTERN=NUMBER"
    )


def test_required() -> None:
    results = collect("network", recorded("network", "healthy"), required=["eno3", "eno4", "eth9"])
    assert faults(results) == {"network:eno4": ["down"], "network:eth9": ["missing"]}


@pytest.mark.parametrize("state", ["going down", "going back"])
def test_a_link_that_is_changing_is_unknown(state: str) -> None:
    files = {f"{NET}/eno1/bonding_slave/mii_status": f"{state}\n"}
    results = collect("network", recorded("network", "healthy", files=files))
    assert set(unknown(results)) == {"network:eno1"}


def test_a_port_that_is_down_is_missed_by_its_bond() -> None:
    files = {
        f"{NET}/eno1/flags": "0x1802\n",
        f"{NET}/eno1/bonding_slave/mii_status": "down\n",
    }
    refused = {f"{NET}/eno1/carrier": "EINVAL"}
    machine = recorded("network", "healthy", files=files, refused=refused)
    assert faults(collect("network", machine)) == {"network:eno1": ["no link"]}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("eno1/flags", "up\n"),
        ("eno1/carrier", ""),
        ("eno1/carrier", "7\n"),
        ("eno1/speed", "fast\n"),
        ("eno1/bonding_slave/mii_status", "fine\n"),
        ("eno1/bonding_slave/ad_aggregator_id", "N/A\n"),
    ],
)
def test_another_form_is_unknown(path: str, text: str) -> None:
    results = collect("network", recorded("network", "healthy", files={f"{NET}/{path}": text}))
    assert set(unknown(results)) == {"network:eno1"}
    assert fine(results) == ["network:bond0", "network:eno2", "network:eno3"]


@pytest.mark.parametrize("name", ["carrier", "flags"])
def test_what_is_refused_is_unknown(name: str) -> None:
    refused = {f"{NET}/eno3/{name}": "EIO"}
    results = collect("network", recorded("network", "healthy", refused=refused), required=["eno3"])
    assert set(unknown(results)) == {"network:eno3"}


def test_a_driver_that_reports_no_speed() -> None:
    refused = {f"{NET}/eno3/speed": "EOPNOTSUPP", f"{NET}/eno3/duplex": "EINVAL"}
    results = collect("network", recorded("network", "healthy", refused=refused))
    assert "network:eno3" in fine(results)


def test_an_interface_that_is_gone_meanwhile() -> None:
    files: dict[str, Any] = {f"{NET}/vif-web1/flags": None}
    results = collect("network", recorded("network", "healthy", files=files))
    assert len(fine(results)) == len(results) == 4


def test_no_hardware(tmp_path: Path) -> None:
    (one,) = collect("network", RecordedMachine(tmp_path, files={f"{NET}/lo/flags": "0x9\n"}))
    assert isinstance(one, NotApplicable)
    (one,) = collect("network", RecordedMachine(tmp_path))
    assert isinstance(one, Unknown)


@pytest.mark.parametrize("case", ["healthy", "broken", "instances"])
def test_damaged_input(case: str) -> None:
    survives("network", case, required=["eno1", "eth9"], least_speed=1000.0)


def later(hours: float, kept: dict[str, bytes], **counters: str | None) -> RecordedMachine:
    """The healthy machine so long after its start, with such counters of eno3."""
    files = {
        "/proc/sys/kernel/random/boot_id": "b1\n",
        "/proc/uptime": f"{hours * 3600:.2f} 1.00\n",
        f"{NET}/eno3/carrier_changes": "400\n",
        f"{NET}/eno3/statistics/rx_crc_errors": "90000\n",
    }
    for name, text in counters.items():
        where = name if name == "carrier_changes" else f"statistics/{name}"
        files[f"{NET}/eno3/{where}"] = text or "x\n"
    refused = {f"{NET}/bonding_masters/flags": "ENOTDIR"}
    machine = recorded("network", "healthy", files=files, refused=refused)
    machine.kept = kept
    return machine


@pytest.mark.parametrize(
    ("counter", "quiet", "many", "text"),
    [
        ("carrier_changes", "404\n", "405\n", "link flaps"),
        ("carrier_changes", "404\n", "421\n", "link comes and goes"),
        ("rx_crc_errors", "91000\n", "91001\n", "CRC errors"),
    ],
)
def test_counters_of_a_day(counter: str, quiet: str, many: str, text: str) -> None:
    kept: dict[str, bytes] = {}
    # What came before the first run may be years old.
    assert not faults(collect("network", later(5000, kept)))
    assert not faults(collect("network", later(5002, kept, **{counter: quiet})))
    bad = later(5004, kept, **{counter: many})
    assert faults(collect("network", bad)) == {"network:eno3": [text]}
    assert not faults(collect("network", bad, unstable_status="Ok"))
    soft = collect("network", bad, suspect_status="Ok", suspect_changes_per_day=0)
    assert bool(faults(soft)) == (text != "link flaps")
    (status,) = (one.status for one in collect("network", bad) if faults([one]))
    assert status == ("suspect" if text == "link flaps" else "live-repair")
    # No more of them in the next day.
    assert not faults(collect("network", later(5030, kept, **{counter: many})))


def test_counters_that_cannot_be_read() -> None:
    results = collect("network", later(5000, {}, carrier_changes=None))
    assert set(unknown(results)) == {"network:eno3"}


def test_an_interface_without_a_least_speed() -> None:
    healthy = recorded("network", "healthy")
    slow = faults(collect("network", healthy, least_speed=10**6))
    assert "network:eno3" in slow
    others = faults(collect("network", healthy, least_speed=10**6, speeds=["eno3=0"]))
    assert others == {name: fault for name, fault in slow.items() if name != "network:eno3"}
