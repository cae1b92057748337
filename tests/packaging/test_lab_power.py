"""The lab's out-of-band program kills the processes of a node of its lab, and no others."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from paths import ROOT

POWER = ROOT / "contrib" / "lab" / "lab-power"


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a mount namespace of its own that is no node of a lab."""
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", "echo there; exec sleep 300"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        if process.stdout.readline() != b"there\n":
            pytest.skip("no mount namespace can be made here")
        yield process
        process.kill()


@pytest.mark.parametrize("command", ["power-off", "power-cycle", "power-status"])
def test_another_process_with_the_number_of_the_sshd(
    command: str, other: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """As after a restart of the machine: the number stands in a file of the lab."""
    run = tmp_path / "nodes" / "node2.lab" / "run"
    run.mkdir(parents=True)
    (tmp_path / "power").mkdir()
    (run / "sshd.pid").write_text(f"{other.pid}\n")
    program = shutil.copy(POWER, tmp_path / "power" / "oob")
    done = subprocess.run(
        [program, command, "node2.lab"], capture_output=True, text=True, check=False
    )
    assert other.poll() is None
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"process {other.pid} is not the sshd of node2.lab: nothing is done\n"
