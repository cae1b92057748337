"""Sources in a process of their own: none hangs, crashes or spoils its caller."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from isolating import FINE, LIMIT, said, unknown

from ganeti_steward.core.model.finding import CheckResult, Finding, NotApplicable, Unknown
from ganeti_steward.diagnose.sources.isolated import run


def test_what_is_said() -> None:
    everything = [
        FINE,
        Finding("smart:sda", "live-repair", "swap", {"b": [1, 2.5, None, True], "a": "\u00e9\n"}),
        Finding("smart:nvme0n1:temperature", "evacuate-failover"),
        Unknown("smart:sdb", "does not answer"),
        NotApplicable("smart", "no disk"),
    ]
    assert said(lambda: everything) == everything
    assert said(lambda: iter(everything)) == everything
    assert said(lambda: ()) == []
    assert said(lambda: None) == []


def test_tuples_become_lists() -> None:
    found = said(lambda: [Finding("smart", "Ok", "", ("a", ("b",)))])
    assert found == [Finding("smart", "Ok", "", ["a", ["b"]])]


def test_the_same_thing_twice() -> None:
    assert said(lambda: [FINE, FINE]) == [FINE]


def test_another_process() -> None:
    """A session of its own, nothing of the caller's standard streams."""

    def source() -> list[CheckResult]:
        print("out")
        os.write(1, b"out")
        given = sys.stdin.read()
        return [Finding("smart", "Ok", "", [os.getpid(), os.getsid(0), os.getpgid(0), given])]

    (found,) = said(source)
    assert isinstance(found, Finding)
    pid, session, group, given = found.details
    assert pid == session == group != os.getpid()
    assert given == ""


def test_nothing_of_it_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    def source() -> list[CheckResult]:
        print("out")
        print("err", file=sys.stderr)
        os.write(1, b"out")
        subprocess.run(["/bin/echo", "out"], check=True)
        return [FINE]

    assert said(source) == [FINE]
    assert capfd.readouterr() == ("", "")


def test_what_it_complains_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def source() -> list[CheckResult]:
        print("one\033", file=sys.stderr)
        os.write(2, b"two\n")
        logging.getLogger("ganeti_steward.plugin").warning("three")
        return [FINE]

    assert said(source) == [FINE]
    assert [record.getMessage() for record in caplog.records] == [
        "smart: one\\x1b",
        "smart: two",
        "smart: three",
    ]


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (5, "gave 5, which is nothing a source can say"),
        (None, "gave None, which is nothing a source can say"),
        ("Ok", "gave 'Ok', which is nothing a source can say"),
        (("smart", "Ok"), "gave ('smart', 'Ok'), which is nothing a source can say"),
        (Finding("lvm", "Ok"), "speaks for 'lvm', not for itself"),
        (Finding("smarty", "Ok"), "speaks for 'smarty', not for itself"),
        (Finding("", "Ok"), "speaks for '', not for itself"),
        (Unknown("lvm:smart", "no"), "speaks for 'lvm:smart', not for itself"),
        (NotApplicable("*", "no"), "speaks for '*', not for itself"),
        (Finding(None, "Ok"), "speaks for None, not for itself"),  # type: ignore[arg-type]
        (
            Finding("smart", "ok"),
            "gives 'smart' the status 'ok' (known: Ok, live-repair, evacuate, evacuate-failover)",
        ),
        (
            Finding("smart", 3),  # type: ignore[arg-type]
            "gives 'smart' the status 3 (known: Ok, live-repair, evacuate, evacuate-failover)",
        ),
        (
            Finding("smart", "live-repair", "/bin/sh"),
            "asks for '/bin/sh' for 'smart', which is no name of a command",
        ),
        (
            Finding("smart", "live-repair", None),  # type: ignore[arg-type]
            "asks for None for 'smart', which is no name of a command",
        ),
        (Unknown("smart:a", b"no"), "gives b'no' as a reason about 'smart:a', not a text"),  # type: ignore[arg-type]
        (
            Finding("smart", "Ok", "", {1, 2}),
            "says about 'smart' what is not JSON: TypeError: "
            "Object of type set is not JSON serializable",
        ),
        (
            Finding("smart", "Ok", "", {("a", "b"): 1}),
            "says about 'smart' what is not JSON: TypeError: "
            "keys must be str, int, float, bool or None, not tuple",
        ),
        (
            Finding("smart", "Ok", "", [float("nan")]),
            "says about 'smart' what is not good JSON: NaN is not JSON",
        ),
        (
            Finding("smart", "Ok", "", 2**64),
            "says about 'smart' what is not good JSON: "
            "the number 18446744073709551616 does not fit into 64 bits",
        ),
        (
            Finding("smart", "Ok", "", {1: "a", "1": "b"}),
            "says about 'smart' what is not good JSON: the key '1' is there twice",
        ),
        (
            Finding("smart", "Ok", "", "\ud800"),
            "says about 'smart' what is not good JSON: a text holds half of a surrogate pair",
        ),
    ],
)
def test_what_may_not_be_said(bad: Any, fault: str) -> None:
    """It does not spoil the rest."""
    other = Finding("smart:sda", "evacuate")
    assert said(lambda: [FINE, bad, other]) == [FINE, unknown(fault), other]


def test_details_without_end() -> None:
    ring: list[Any] = []
    ring.append(ring)
    deep: list[Any] = []
    for _ in range(10**5):
        deep = [deep]
    assert said(lambda: [Finding("smart", "Ok", "", ring)]) == [
        unknown("says about 'smart' what is not JSON: ValueError: Circular reference detected")
    ]
    (found,) = said(lambda: [Finding("smart", "Ok", "", deep)])
    assert isinstance(found, Unknown)
    assert found.reason.startswith("says about 'smart' what is not JSON: RecursionError: ")


def test_no_list() -> None:
    assert said(lambda: 5) == [unknown("failed: TypeError: 'int' object is not iterable")]


def test_huge_output() -> None:
    def source() -> Iterator[CheckResult]:
        yield FINE
        number = 0
        while True:
            number += 1
            yield Finding(f"smart:{number}", "Ok", "", "x" * 1000)

    *known, last = run("smart", LIMIT, source, output_limit=10**5)
    assert last == unknown("killed, it printed more than 100000 bytes")
    assert known[0] == FINE
    assert all(isinstance(one, Finding) for one in known)
