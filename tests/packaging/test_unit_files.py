"""What the units permit, as systemd counts it, and that each exception has its reason."""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from asserting import some
from installed import need
from packaging_tools import UNITS
from paths import ROOT

SYSTEMD: Final = ROOT / "contrib" / "systemd"

#: Service -> the largest exposure that is allowed, in tenths.  The two exceptions look at disks,
#: links, mounts and the kernel's log as they are, and run the site's commands; the security page
#: has the reasons.
LARGEST: Final = {"maintd": 30, "exporter": 30, "agent": 57, "diagnose": 56}

#: What systemd counts -> how a unit gives the reason for not limiting it.
ALIKE: Final = {
    "User=/DynamicUser=": "User=",
    "RootDirectory=/RootImage=": "",
    "RestrictAddressFamilies=~AF_(INET|INET6)": "RestrictAddressFamilies=",
    "RestrictAddressFamilies=~AF_NETLINK": "NETLINK",
    "RestrictAddressFamilies=~AF_UNIX": "",
    "CapabilityBoundingSet=~CAP_(DAC_*|FOWNER|IPC_OWNER)": "DAC_OVERRIDE",
    # It follows from the user and the network.
    "PrivateUsers=": "User=",
    # What ProtectClock= itself adds.
    "DeviceAllow=": "",
}


@cache
def exposure(name: str) -> tuple[int, tuple[str, ...]]:
    """Tenths, and what is not limited."""
    program, unit = need("systemd-analyze", "systemd"), str(SYSTEMD / f"gnt-steward-{name}.service")
    found: list[dict[str, Any]] = json.loads(_run(program, "--json=short", unit).stdout)
    open_ = tuple(one["name"] for one in found if one["set"] is False)
    done = _run(program, f"--threshold={LARGEST[name]}", unit)
    (text,) = re.findall(r"exposure level for \S+: (\d+\.\d)", done.stdout)
    assert (done.returncode == 0) == (float(text) * 10 <= LARGEST[name]), done.stdout
    return round(float(text) * 10), open_


def _run(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, "security", "--offline=yes", "--no-pager", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_every_service_has_a_limit() -> None:
    services = {unit for unit in UNITS if unit.endswith(".service")}
    assert services == {f"gnt-steward-{name}.service" for name in LARGEST}


@pytest.mark.parametrize("name", LARGEST)
def test_the_exposure(name: str) -> None:
    tenths, _ = exposure(name)
    assert tenths <= LARGEST[name]


@pytest.mark.parametrize("name", ["maintd", "exporter"])
def test_what_is_not_limited_has_a_reason(name: str) -> None:
    text = (SYSTEMD / f"gnt-steward-{name}.service").read_text()
    reasons = " ".join(line for line in text.splitlines() if line.startswith("#"))
    for setting in some(exposure(name)[1]):
        assert ALIKE.get(setting, setting) in reasons, setting


@pytest.mark.parametrize("name", LARGEST)
def test_a_denied_call_ends_nothing(name: str) -> None:
    text = (SYSTEMD / f"gnt-steward-{name}.service").read_text()
    assert "\nSystemCallFilter=" in text
    assert "\nSystemCallErrorNumber=EPERM\n" in text


def test_a_purge_leaves_no_lock() -> None:
    text = (ROOT / "debian" / "ganeti-steward.postrm").read_text()
    assert all(place in text for place in ("/run/ganeti-steward", "/var/lib/ganeti-steward"))


def test_the_security_page_names_every_exposure() -> None:
    """As the systemd counts that the page names; a newer one finds no more."""
    page = (Path(ROOT) / "docs" / "explanation" / "security.md").read_text()
    (version,) = re.findall(r"`systemd-analyze security` of systemd (\d+)", page)
    same = f"systemd {version} " in _run(need("systemd-analyze", "systemd"), "--version").stdout
    for name in some(LARGEST):
        (shown,) = re.findall(rf"^\| `gnt-steward-{name}\.service` \| (\d\.\d) \|", page, re.M)
        tenths, limit = exposure(name)[0], round(float(shown) * 10)
        assert tenths == limit if same else tenths <= limit
