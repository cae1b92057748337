"""The completion of both shells, with what Ganeti's files and luxid know."""

from __future__ import annotations

import os
import shlex
import subprocess
from functools import cache
from pathlib import Path

import completion
import pytest
from installed import need

#: Completes the last of its words as bash does.
DRIVER = """
source "$1"; _gnt_steward_data=$2; shift 2
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_gnt_steward
printf '%s\\n' "${COMPREPLY[@]}"
"""


@cache
def script(shell: str) -> str:
    return completion.completion(shell)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Files as Ganeti writes them on every node."""
    (tmp_path / "ssconf_node_list").write_text("node1.lab\nnode2.lab\n")
    (tmp_path / "ssconf_nodegroups").write_text("5b0c9f7e default\n6a395f0e rack2\n")
    (tmp_path / "ssconf_instance_list").write_text("web1.lab\ndb1.lab\n")
    return tmp_path


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What answers on the master."""
    known = {
        "gnt-cluster": 'test "$*" = "search-tags ." && printf "%s\\n" "/cluster a" "/nodes/n b"',
        "gnt-steward": """case "$*" in
            "incident list -o uuid,node --separator   --no-headers") echo 5f3a-1 node1.lab;;
            "aggregate list -o name --no-headers") printf '%s\\n' licensed lab;;
            "filter list -o uuid --no-headers") printf '%s\\n' 77aa-1 77ab-2;;
            *) exit 1;;
        esac""",
    }
    for name, text in known.items():
        file = tmp_path / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def completed(data: Path, line: str) -> list[str]:
    file = data / "completion"
    file.write_text(script("bash"))
    words = [*shlex.split(line), *([""] if line.endswith(" ") else [])]
    done = subprocess.run(
        [need("bash", "bash"), "-c", DRIVER, "bash", str(file), str(data), *words],
        capture_output=True,
        check=True,
        text=True,
        timeout=300,
    )
    # Options of completion itself need a completion that readline has started.
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gnt-steward cap", ["capacity"]),
        ("gnt-steward aggregate ", ["list", "show", "check", "hosts", "fix", "add", "remove"]),
        ("gnt-steward maintd --re", ["--record", "--replay"]),
        ("gnt-steward diagnose --format ", ["json", "table", "nagios"]),
        ("gnt-steward balance -O node1", ["node1.lab"]),
        ("gnt-steward place -n node1.lab,node2", ["node1.lab,node2.lab"]),
        ("gnt-steward balance -G ", ["default", "rack2"]),
        ("gnt-steward group-evacuate r", ["rack2"]),
        ("gnt-steward aggregate fix ", ["web1.lab", "db1.lab"]),
        ("gnt-steward aggregate add licensed ", ["node1.lab", "node2.lab", "default", "rack2"]),
    ],
)
def test_bash(data: Path, line: str, expected: list[str]) -> None:
    assert completed(data, line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gnt-steward incident ack ", ["5f3a-1", "node1.lab"]),
        ("gnt-steward incident show no", ["node1.lab"]),
        ("gnt-steward aggregate add l", ["licensed", "lab"]),
        ("gnt-steward aggregate show li", ["licensed"]),
        ("gnt-steward filter delete 77a", ["77aa-1", "77ab-2"]),
        ("gnt-steward place --tags a,", ["a,a", "a,b"]),
        ("gnt-steward place --disk-template d", ["diskless", "drbd"]),
    ],
)
@pytest.mark.usefixtures("programs")
def test_bash_with_a_master(data: Path, line: str, expected: list[str]) -> None:
    assert completed(data, line) == expected


def test_bash_without_a_cluster(data: Path) -> None:
    for file in data.glob("ssconf_*"):
        file.unlink()
    assert completed(data, "gnt-steward balance -G ") == []


@pytest.mark.full
def test_zsh_reads_its_script(data: Path) -> None:
    file = data / "_gnt-steward"
    file.write_text(script("zsh"))
    done = subprocess.run(
        [need("zsh", "zsh"), "-f", "-n", str(file)], capture_output=True, check=False, timeout=300
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert "_gnt_steward_nodes" in script("zsh")
