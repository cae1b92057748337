"""Messages that a newcomer reads first: each names its cause once, and what to do next."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from front import capture
from paths import CAPTURES
from workspace import PROGRAMS

from ganeti_steward.allocators.jobs.run_jobs import interrupt_printer

if TYPE_CHECKING:
    from front import Front

DRBD = str(CAPTURES / "allocate-drbd.in.json")
CLOSED = "the site is closed on Sundays"


@pytest.mark.parametrize(
    "name", ["change-group-file-refused", "node-evacuate-primary-file-refused"]
)
def test_disks_on_one_node_only(front: Front, name: str) -> None:
    message = capture(name)
    (instance,) = message["request"]["instances"]
    node = message["instances"][instance]["nodes"][0]
    text = front("explain", front.message(message)).out
    by_hand = f"move it by hand: gnt-instance move -n NODE {instance}"
    assert " ".join(text.split()).count(f"its disks exist only on {node}; {by_hand}") == 1


def test_what_runs_out_first(front: Front) -> None:
    """The instance fits on node6 alone, and could never leave it again."""
    message = capture("allocate-ext")
    message["request"] |= {"type": "capacity", "group_name": "rack2"}
    for name in ("node4.lab", "node5.lab"):
        message["nodes"][name].update(total_memory=2048, free_memory=512)
    answer = json.loads(front.allocate(front.message(message)).out)
    assert answer["result"]["count"] == 0
    assert "another node could no longer be emptied (1" in answer["result"]["limited_by"]
    assert "capacity" not in answer["result"]["limited_by"]


def test_a_fault_is_reported_once(front: Front) -> None:
    """Each member of the chain has found it, for a plugin that all of them need."""
    front.plugin(
        "crash",
        """
        from ganeti_steward.core import hookimpl
        @hookimpl
        def steward_constrain(cluster):
            1 / 0
        """,
    )
    front.configure('[plugins]\nload = ["crash"]\n[allocators]\nallocate = ["balanced", "packed"]')
    out = front("explain", DRBD).out
    assert " ".join(out.split()).count("plugin crash: failed: ZeroDivisionError") == 1


def test_the_text_of_a_plugin_is_printed_once(front: Front) -> None:
    """In the answer, and not as a note as well."""
    front.plugin(
        "sunday",
        f"""
        from ganeti_steward.core import hookimpl
        from ganeti_steward.core.model.site_rules import NoPlace
        @hookimpl
        def steward_constrain(cluster):
            return [NoPlace("{CLOSED}")]
        """,
    )
    front.configure('[plugins]\nload = ["sunday"]')
    out = front("explain", DRBD).out
    assert out.count(CLOSED) == 1
    assert out.startswith(f"Request failed: {CLOSED}\n")


def test_a_plugin_in_a_table_is_named_once(front: Front) -> None:
    front.configure('[plugins]\nload = ["nosuch"]')
    (line,) = [one for one in front("plugins").out.splitlines() if "nosuch" in one]
    assert line.split(maxsplit=3)[3].startswith("error: is neither a module nor ")


def test_an_interrupt_of_a_command(front: Front) -> None:
    """It ends at once, and reports what goes on."""
    front.plugin(
        "waits",
        """
        import time
        from ganeti_steward.core import hookimpl
        from ganeti_steward.core.model.command import Command
        def add_arguments(parser):
            pass
        def run(options):
            print("waiting", flush=True)
            time.sleep(3600)
        @hookimpl
        def steward_commands():
            return [Command("waits", "wait", "waits")]
        """,
    )
    front.configure('[plugins]\nload = ["waits"]')
    with subprocess.Popen(
        [PROGRAMS / "gnt-steward", "waits"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "GNT_STEWARD_CONFIG": str(front.config_file),
            "PYTHONPATH": str(front.modules),
        },
    ) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "waiting\n"
            running.send_signal(signal.SIGINT)
            _, err = running.communicate(timeout=300)
        finally:
            running.kill()
    assert err == (
        "gnt-steward waits: interrupted, ended immediately; jobs that were submitted continue\n"
    )
    assert running.returncode == 2


def test_an_interrupt_while_jobs_run(capsys: pytest.CaptureFixture[str]) -> None:
    report = interrupt_printer("the submitted job")
    report(1)
    report(2)
    first, second = capsys.readouterr().err.splitlines()
    assert first == (
        "interrupted: waiting for the submitted job; press Ctrl-C again to exit immediately, "
        "submitted jobs continue"
    )
    assert second == "interrupted again: exiting; submitted jobs continue"
