"""Memory errors as EDAC counts them."""

from __future__ import annotations

from pathlib import Path

import pytest
from collected import collect, faults, fine, recorded, survives, unknown

from ganeti_steward.core.model.finding import Finding, NotApplicable, Unknown
from ganeti_steward.diagnose.testing import RecordedMachine

MC = "/sys/devices/system/edac/mc"


def test_healthy() -> None:
    results = collect("edac", recorded("edac", "healthy"))
    assert results == [Finding("edac:mc0", "Ok"), Finding("edac:mc1", "Ok")]


def test_broken() -> None:
    results = collect("edac", recorded("edac", "broken"))
    assert faults(results) == {
        "edac:mc0": [
            "many corrected errors: dimm2 CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
            "uncorrected errors: dimm2 CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
            "burst of corrected errors: dimm4 CPU_SrcID#0_MC#0_Chan#2_DIMM#0",
        ],
        # 2400 in the first hour; counted as those of a day.
        "edac:mc1": ["many corrected errors: dimm2 CPU_SrcID#1_MC#0_Chan#1_DIMM#0"],
        # A driver that knows the controller only.
        "edac:mc2": ["uncorrected errors"],
    }
    assert {one.status for one in results if isinstance(one, Finding)} == {"live-repair", "suspect"}
    # 900 a day are too near to 1000 to decide.
    assert unknown(results) == {
        "edac:mc0": "corrected errors too near to the limit to decide: "
        "dimm4 CPU_SrcID#0_MC#0_Chan#2_DIMM#0"
    }


def test_counters_do_not_show() -> None:
    more = recorded(
        "edac",
        "broken",
        files={
            f"{MC}/mc0/ue_count": "77\n",
            f"{MC}/mc0/dimm2/dimm_ue_count": "77\n",
            f"{MC}/mc0/dimm2/dimm_ce_count": "999999\n",
            f"{MC}/mc0/seconds_since_reset": "864300\n",
        },
    )
    assert collect("edac", more) == collect("edac", recorded("edac", "broken"))


def test_settings() -> None:
    results = collect(
        "edac",
        recorded("edac", "broken"),
        corrected_status="Ok",
        uncorrected_status="evacuate",
        corrected_per_day=100000.0,
    )
    assert fine(results) == ["edac:mc1"]
    assert [one.status for one in results if isinstance(one, Finding)] == [
        "evacuate",
        "Ok",
        "evacuate",
    ]
    # The limit is 0: where there is no error at all, nothing is found.
    results = collect("edac", recorded("edac", "healthy"), corrected_per_day=0.0)
    assert faults(results) == {
        "edac:mc0": ["many corrected errors: dimm2 CPU_SrcID#0_MC#0_Chan#1_DIMM#0"],
        "edac:mc1": ["many corrected errors: dimm4 CPU_SrcID#1_MC#0_Chan#2_DIMM#0"],
    }


def test_errors_of_no_known_module() -> None:
    results = collect("edac", recorded("edac", "healthy", files={f"{MC}/mc1/ue_count": "1\n"}))
    assert faults(results) == {"edac:mc1": ["uncorrected errors"]}


def test_many_errors_of_no_known_module() -> None:
    """As where the firmware reports errors and does not say where they were."""
    results = collect("edac", recorded("edac", "unplaced"))
    assert faults(results) == {"edac:mc0": ["many corrected errors"]}
    fewer = {f"{MC}/mc0/ce_count": "12012\n"}
    results = collect("edac", recorded("edac", "unplaced", files=fewer))
    assert faults(results) == {"edac:mc0": ["burst of corrected errors"]}
    fewer = {f"{MC}/mc0/ce_count": "12\n"}
    assert fine(collect("edac", recorded("edac", "unplaced", files=fewer))) == ["edac:mc0"]


def test_nothing_counts(tmp_path: Path) -> None:
    (one,) = collect("edac", RecordedMachine(tmp_path))
    assert isinstance(one, NotApplicable)
    (one,) = collect("edac", RecordedMachine(tmp_path, files={f"{MC}/uevent": ""}))
    assert isinstance(one, NotApplicable)


def test_not_allowed_to_look() -> None:
    (one,) = collect("edac", recorded("edac", "healthy", refused={MC: "EACCES"}))
    assert isinstance(one, Unknown)
    assert one.source == "edac"


@pytest.mark.parametrize("name", ["ue_count", "ce_count", "seconds_since_reset", "dimm2"])
@pytest.mark.parametrize("text", ["", "many\n", "-1\n", "\u0663\n", None])
def test_what_cannot_be_read_is_not_fine(name: str, text: str | None) -> None:
    path = f"{MC}/mc0/{name}" + ("/dimm_ce_count" if name == "dimm2" else "")
    results = collect("edac", recorded("edac", "healthy", files={path: text}))
    assert set(unknown(results)) == {"edac:mc0"}
    assert fine(results) == ["edac:mc1"]


@pytest.mark.parametrize("case", ["healthy", "broken"])
def test_damaged_input(case: str) -> None:
    survives("edac", case)


def after(days: float, errors: int, kept: dict[str, bytes], boot: str = "b1") -> RecordedMachine:
    """The healthy machine so long after its start, with so many errors of one module."""
    machine = recorded(
        "edac",
        "healthy",
        files={
            "/proc/sys/kernel/random/boot_id": f"{boot}\n",
            "/proc/uptime": f"{days * 86400:.2f} 1.00\n",
            f"{MC}/mc0/seconds_since_reset": f"{days * 86400:.0f}\n",
            f"{MC}/mc0/dimm2/dimm_ce_count": f"{errors}\n",
        },
    )
    machine.kept = kept
    return machine


MANY = {"edac:mc0": ["many corrected errors: dimm2 CPU_SrcID#0_MC#0_Chan#1_DIMM#0"]}
BURST = {"edac:mc0": ["burst of corrected errors: dimm2 CPU_SrcID#0_MC#0_Chan#1_DIMM#0"]}


def test_many_errors_after_a_year_of_quiet() -> None:
    kept: dict[str, bytes] = {}
    for hour in range(48):
        assert not faults(collect("edac", after(365 + hour / 24, 3, kept)))
    # 5000 a day: after five hours there were a thousand in the last day.
    seen = [
        faults(collect("edac", after(367 + hour / 24, 3 + hour * 5000 // 24, kept)))
        for hour in range(12)
    ]
    assert seen == [{}, *[BURST] * 4, *[MANY] * 7]
    # A node that is diagnosed once a day.
    kept = {}
    assert not faults(collect("edac", after(365, 3, kept)))
    assert faults(collect("edac", after(366, 5003, kept))) == MANY
    # And it is over when no more come.
    assert not faults(collect("edac", after(367.1, 5003, kept)))
    assert len(kept["edac"]) < 10000


def test_a_long_pause_between_runs() -> None:
    kept: dict[str, bytes] = {}
    collect("edac", after(365, 3, kept))
    assert faults(collect("edac", after(375, 5003, kept))) == BURST
    assert faults(collect("edac", after(385, 25003, kept))) == MANY


@pytest.mark.parametrize("spoiled", [b"", b"{", b"[]", b'{"boot": "b1", "samples": [[1]]}'])
def test_without_earlier_counts_the_average_counts(spoiled: bytes) -> None:
    assert not faults(collect("edac", after(365, 5003, {"edac": spoiled})))
    assert faults(collect("edac", after(5, 5003, {"edac": spoiled}))) == MANY
    kept: dict[str, bytes] = {}
    collect("edac", after(365, 3, kept))
    # The node was started again.
    assert not faults(collect("edac", after(366, 5003, kept, boot="b2")))
