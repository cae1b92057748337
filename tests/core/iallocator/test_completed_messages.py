"""A message is completed with what is kept of volume groups before anything else sees it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from messages import message

from ganeti_steward.allocators.state.volume_groups import KeptGroups, NodeGroups, write_kept

if TYPE_CHECKING:
    from front import Front

Json = dict[str, Any]

#: The program as noded runs it, with another path of the file.
PROGRAM = """
import sys
from ganeti_steward.core import builtins
from ganeti_steward.core.iallocator.main import main
builtins.KEPT_GROUPS, *sys.argv[1:] = sys.argv[1:]
main()
"""


def allocate(front: Front, kept: Path, request: Json) -> tuple[Json, Json]:
    """The answer, and the request as the history has it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(kept), front.message(request)],
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
        env={"GNT_STEWARD_CONFIG": str(front.config_file)},
    )
    assert done.returncode == 0, done.stderr
    (call,) = front.history.iterdir()
    found = json.loads((call / "request.json").read_text())
    for one in call.iterdir():
        one.unlink()
    call.rmdir()
    return json.loads(done.stdout), found


def test_history_and_programs_get_the_completed_message(front: Front, tmp_path: Path) -> None:
    kept, seen, program = tmp_path / "kept.json", tmp_path / "seen.json", tmp_path / "program"
    answer = '{"success": false, "info": "no", "result": []}'
    program.write_text(f"#!/bin/sh\ncp \"$1\" {seen}\necho '{answer}'\n")
    program.chmod(0o755)
    front.configure(f'[allocators]\nallocate = ["command:{program}"]', keep=1)
    at = int(time.time())
    nodes = {"n1.test": NodeGroups(at, {"xenvg": (9, 9), "hdd": (900, 300)})}
    write_kept(
        KeptGroups("cluster.test", "xenvg", 900, nodes, {"p1.test": (("hdd", ""),)}), str(kept)
    )
    _, found = allocate(front, kept, message())
    assert found["volume_group"] == "xenvg"
    assert found["nodes"]["n1.test"]["volume_groups"] == {"hdd": {"total": 900, "free": 300}}
    assert found["instances"]["p1.test"]["disks"][0]["vg"] == "hdd"
    assert json.loads(seen.read_text()) == found


@pytest.mark.parametrize("content", [None, b"{", b'{"cluster": "other.test"}'])
def test_without_a_file_that_can_be_used_the_message_stays(
    front: Front, tmp_path: Path, content: bytes | None
) -> None:
    kept = tmp_path / "kept.json"
    if content is not None:
        kept.write_bytes(content)
    front.configure(keep=1)
    answer, found = allocate(front, kept, message())
    assert answer["success"] is True
    assert found == message()
