"""Sources as programs of their own: what they may report, and what becomes of the rest."""

from __future__ import annotations

import os
from typing import Any

import isolated_sources as sources
import pytest
from isolating import FINE, LIMIT, results, unknown

from ganeti_steward.core.model.finding import Finding, NotApplicable, Unknown
from ganeti_steward.diagnose.sources.isolated import Source, run


def test_results() -> None:
    everything = [
        FINE,
        Finding("smart:sda", "live-repair", "swap", {"b": [1, 2.5, None, True], "a": "\u00e9\n"}),
        Finding("smart:nvme0n1:temperature", "evacuate-failover"),
        Unknown("smart:sdb", "does not answer"),
        NotApplicable("smart", "no disk"),
    ]
    assert results(sources.returns, everything) == everything
    assert results(sources.returns, iter(everything)) == everything
    assert results(sources.returns, ()) == []
    assert results(sources.returns, None) == []


def test_tuples_become_lists() -> None:
    found = results(sources.returns, [Finding("smart", "Ok", "", ("a", ("b",)))])
    assert found == [Finding("smart", "Ok", "", ["a", ["b"]])]


def test_the_same_thing_twice() -> None:
    assert results(sources.returns, [FINE, FINE]) == [FINE]


def test_another_process() -> None:
    """A session of its own, nothing of the caller's standard streams."""

    (found,) = results(sources.process_ids)
    assert isinstance(found, Finding)
    pid, session, group, given = found.details
    assert pid == session == group != os.getpid()
    assert given == ""


def test_nothing_of_it_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    assert results(sources.prints) == [FINE]
    assert capfd.readouterr() == ("", "")


def test_standard_error_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert results(sources.complains) == [FINE]
    assert [record.getMessage() for record in caplog.records] == [
        "smart: one\\x1b",
        "smart: two",
        "smart: three",
    ]


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (5, "returned 5, which is not a result of a source"),
        (None, "returned None, which is not a result of a source"),
        ("Ok", "returned 'Ok', which is not a result of a source"),
        (("smart", "Ok"), "returned ['smart', 'Ok'], which is not a result of a source"),
        (Finding("lvm", "Ok"), "reports for 'lvm', not for itself"),
        (Finding("smarty", "Ok"), "reports for 'smarty', not for itself"),
        (Finding("", "Ok"), "reports for '', not for itself"),
        (Unknown("lvm:smart", "no"), "reports for 'lvm:smart', not for itself"),
        (NotApplicable("*", "no"), "reports for '*', not for itself"),
        (Finding(None, "Ok"), "reports for None, not for itself"),  # type: ignore[arg-type]
        (
            Finding("smart", "ok"),
            "gives 'smart' the status 'ok' (known: Ok, suspect, live-repair, "
            "evacuate, evacuate-failover)",
        ),
        (
            Finding("smart", 3),  # type: ignore[arg-type]
            "gives 'smart' the status 3 (known: Ok, suspect, live-repair, "
            "evacuate, evacuate-failover)",
        ),
        (
            Finding("smart", "live-repair", "/bin/sh"),
            "requests '/bin/sh' for 'smart', which is not a command name",
        ),
        (
            Finding("smart", "live-repair", None),  # type: ignore[arg-type]
            "requests None for 'smart', which is not a command name",
        ),
        (Unknown("smart:a", 5), "gives 5 as a reason about 'smart:a', not a text"),  # type: ignore[arg-type]
        (
            Unknown("smart:a", b"no"),  # type: ignore[arg-type]
            "reports about 'smart:a' what is not JSON: TypeError: "
            "Object of type bytes is not JSON serializable",
        ),
        (
            Finding("smart", "Ok", "", {1, 2}),
            "reports about 'smart' what is not JSON: TypeError: "
            "Object of type set is not JSON serializable",
        ),
        (
            Finding("smart", "Ok", "", {("a", "b"): 1}),
            "reports about 'smart' what is not JSON: TypeError: "
            "keys must be str, int, float, bool or None, not tuple",
        ),
        (
            Finding("smart", "Ok", "", [float("nan")]),
            "reports about 'smart' what is not good JSON: NaN is not JSON",
        ),
        (
            Finding("smart", "Ok", "", 2**64),
            "reports about 'smart' what is not good JSON: "
            "the number 18446744073709551616 does not fit into 64 bits",
        ),
        (
            Finding("smart", "Ok", "", {1: "a", "1": "b"}),
            "reports about 'smart' what is not good JSON: the key '1' is there twice",
        ),
        (
            Finding("smart", "Ok", "", "\ud800"),
            "reports about 'smart' what is not good JSON: a text holds half of a surrogate pair",
        ),
    ],
)
def test_what_may_not_be_reported(bad: Any, fault: str) -> None:
    """It does not spoil the rest."""
    other = Finding("smart:sda", "evacuate")
    assert results(sources.returns, [FINE, bad, other]) == [FINE, unknown(fault), other]


def test_details_without_end() -> None:
    ring: list[Any] = []
    ring.append(ring)
    assert results(sources.returns, [Finding("smart", "Ok", "", ring)]) == [
        unknown("reports about 'smart' what is not JSON: ValueError: Circular reference detected")
    ]
    (found,) = results(sources.deep_details)
    assert isinstance(found, Unknown)
    assert found.reason.startswith("reports about 'smart' what is not JSON: RecursionError: ")


def test_no_list() -> None:
    assert results(sources.returns, 5) == [
        unknown("failed: TypeError: 'int' object is not iterable")
    ]


def test_huge_output() -> None:
    *known, last = run(Source("smart", sources.endless_results, LIMIT, output_limit=10**5))
    assert last == unknown("killed, it printed more than 100000 bytes")
    assert known[0] == FINE
    assert all(isinstance(one, Finding) for one in known)
