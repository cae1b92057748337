"""Nodes chosen by what their agents report: a required reboot, and when they were started."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from ganeti_steward.core.errors import StewardError
from ganeti_steward.plugins.maintenance.cli.planned import reboots

NOW = 1_767_787_200
DAY = 86400
NODES = [
    {"node-name": "n1", "reboot-required": ["packages: libc6"], "booted": NOW - 30 * DAY},
    {"node-name": "n2", "reboot-required": ["kernel 2 is installed, 1 runs"], "booted": NOW - DAY},
    {"node-name": "n3", "reboot-required": [], "booted": NOW - 30 * DAY},
    {"node-name": "n4", "reboot-required": None, "booted": None},
    {"node-name": "n5", "observation": "silent"},
]
NAMES = ["n1", "n2", "n3", "n4", "n5", "n6"]


def chosen(*words: str) -> list[str]:
    parser = argparse.ArgumentParser()
    reboots.add_filters(parser)
    return reboots.chosen(parser.parse_args(words), NAMES, NOW)


@pytest.fixture
def _daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    served: dict[str, Any] = {"daemon": {"nodes": NODES}}
    monkeypatch.setattr(reboots, "running_daemon", lambda: served)


def test_without_a_filter_no_daemon_is_needed() -> None:
    assert chosen() == NAMES
    with pytest.raises(StewardError):
        chosen("--reboot-required")


@pytest.mark.usefixtures("_daemon")
@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--reboot-required"], ["n1", "n2"]),
        # Of unknown ones it is not known that they were rebooted.
        (["--skip-rebooted-within", "7d"], ["n1", "n3", "n4", "n5", "n6"]),
        (["--skip-rebooted-within", "1440m"], NAMES),
        (["--skip-rebooted-within", "86401"], ["n1", "n3", "n4", "n5", "n6"]),
        (["--reboot-required", "--skip-rebooted-within", "2w"], ["n1"]),
        (["--reboot-required", "--skip-rebooted-within", "0"], ["n1", "n2"]),
    ],
)
def test_which_nodes(words: list[str], names: list[str]) -> None:
    assert chosen(*words) == names


@pytest.mark.usefixtures("_daemon")
def test_the_notes(capsys: pytest.CaptureFixture[str]) -> None:
    chosen("--reboot-required", "--skip-rebooted-within", "48h")
    err = capsys.readouterr().err
    assert "n1 must be rebooted: packages: libc6" in err
    assert "n2 is left out: it was rebooted 24.0 hours ago" in err
    assert "n3 is left out: it reports that no reboot is required" in err
    for name in ("n4", "n5", "n6"):
        assert f"{name} is left out: whether a reboot is required is not known" in err


@pytest.mark.parametrize("given", ["", "soon", "-1d", "7y", "1.5h", "٣d"])
def test_a_time_that_is_none(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        chosen(f"--skip-rebooted-within={given}")
    assert "is not a time: a number and s, m, h, d or w are expected" in capsys.readouterr().err
