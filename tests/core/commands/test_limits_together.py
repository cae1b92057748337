"""``gnt-steward check-config``: values that are right by themselves and cannot work together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ganeti_steward.allocators.cli import install_iallocator
from ganeti_steward.core.config.parse import read_config
from ganeti_steward.diagnose.run import node_check
from ganeti_steward.plugins.maintenance import limits

if TYPE_CHECKING:
    from front import Front


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "[agent]\ninterval = 1200\nmax-age = 3600\n",
            "maintd.report-max-age: a report is used for 900 s only, but the next one is made "
            "1200 s later (agent.interval)",
        ),
        (
            "[maintd]\nreport-max-age = 300\n",
            "maintd.report-max-age: a report is used for 300 s only, but the next one is made "
            "300 s later (agent.interval)",
        ),
        (
            "[agent]\nmax-age = 200\n[diagnose]\nrun-time-limit = 100\n",
            "agent.max-age: a report is sent for 200 s only, but the next one is made 300 s later "
            "(agent.interval)",
        ),
        (
            "[diagnose]\nrun-time-limit = 1000\n",
            "diagnose.run-time-limit: a run may take 1000 s, but the agent ends it without a "
            "report after 900 s (agent.max-age)",
        ),
        (
            "[agent]\nrepair = true\nrepair-time-limit = 4000\n",
            "maintd.command-time-limit: a repair command is treated as failed after 3700 s, but it "
            "may run for 4000 s (agent.repair-time-limit)",
        ),
        (
            "[agent]\nrepair = true\n[maintd]\ncommand-again-after = 60\n",
            "maintd.command-again-after: a repair command is begun again after 60 s, but the "
            "agents refuse it for 3600 s (agent.repair-again-after)",
        ),
        (
            '[rebalance]\nby-load = true\nload-data = "mond"\n',
            'rebalance.by-load: the load that agents report is needed, load-data = "agents", not '
            '"mond" (rebalance.load-data)',
        ),
        (
            "[maintd]\nagent-port = 1900\n",
            "maintd.agent-port: the agents are polled at port 1900, but they listen at 1817 "
            "(agent.port)",
        ),
        (
            "[maintd]\nport = 1817\n",
            "maintd.port: the status cannot be served at port 1817, where the agent of the master "
            "listens (agent.port)",
        ),
    ],
)
def test_two_keys_that_cannot_work_together(text: str, fault: str, front: Front) -> None:
    front.configure(text)
    done = front("check-config")
    assert (done.status, done.out) == (1, f"{front.config_file}: {fault}\n")


@pytest.mark.parametrize(
    "text",
    [
        "[maintd]\nport = 1817\naddress = '127.0.0.1'\n",
        "[agent]\nport = 1900\n[maintd]\nagent-port = 1900\n",
        "[agent]\nrepair-time-limit = 4000\n",
        "[agent]\nrepair = true\nrepair-again-after = 0\n[maintd]\ncommand-again-after = 0\n",
        "[agent]\ninterval = 60\nmax-age = 600\n[maintd]\nreport-max-age = 90\n",
    ],
)
def test_others_can(text: str, front: Front) -> None:
    front.configure(text)
    done = front("check-config")
    assert done.status == 0, done.out


def test_the_times_of_cron(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent leaves the diagnosis to cron, which makes a report every half hour."""
    table = tmp_path / "diagnose"
    table.write_text("*/30 * * * * root gnt-steward diagnose\n")
    period = "ganeti_steward.core.node_agent.period.diagnosis_period"
    monkeypatch.setattr(f"{period}.__defaults__", (tmp_path,))
    config, _ = read_config("x", b"[agent]\ninterval = 0\n")
    assert list(limits.steward_check_config(config)) == [
        "maintd.report-max-age: a report is used for 900 s only, but the next one is made 1800 s "
        f"later (cron ({table}))"
    ]
    assert list(node_check.steward_check_config(config)) == [
        "agent.max-age: a report is sent for 900 s only, but the next one is made 1800 s later "
        f"(cron ({table}))"
    ]


@pytest.fixture
def ganeti(front: Front, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory in which an installed Ganeti looks for allocators."""
    directory = front.path / "iallocators"
    directory.mkdir()
    constants = front.path / "_constants.py"
    constants.write_text(f'IALLOCATOR_SEARCH_PATH = ["{directory}"]\n')
    monkeypatch.setattr(install_iallocator, "_CONSTANTS", (str(constants),))
    return directory


def test_the_allocator_of_harep_is_not_installed(front: Front, ganeti: Path) -> None:
    front.configure("[maintd]\nroutine = ['harep']\n")
    done = front("check-config")
    assert (done.status, done.out) == (
        1,
        f"{front.config_file}: harep.iallocator: Ganeti has no allocator steward in its search "
        f"path, {ganeti}; gnt-steward install-iallocator installs it\n",
    )
    (ganeti / "steward").touch()
    assert front("check-config").status == 0


@pytest.mark.usefixtures("ganeti")
def test_the_allocator_of_harep_is_not_needed(front: Front) -> None:
    front.configure("[harep]\niallocator = 'hail'\n")
    assert front("check-config").status == 0


@pytest.mark.parametrize("key", ["notify-command", "silence-command", "gate-command"])
def test_a_program_that_would_not_be_run(front: Front, tmp_path: Path, key: str) -> None:
    """By the check that refuses it when it would be run."""
    program = tmp_path / "notify"
    program.write_text("#!/bin/sh\n")
    front.configure(f'[maintd]\n{key} = "{program}"\n')
    done = front("check-config")
    assert done.status == 1
    assert f"maintd.{key}: {program} is not executable" in done.out
    program.chmod(0o755)
    assert front("check-config").status == 0
