"""Recorded answers of smartctl, one of them changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collected import RECORDED

from ganeti_steward.core.model.finding import CheckResult
from ganeti_steward.diagnose.testing import RecordedMachine

SCAN = "smartctl --scan-open -j"


QUESTION = "smartctl -j -n standby,3 -i -H -A -l error -l selftest -l ssd -d megaraid,4 /dev/bus/0"


HDD, SSD, SAS, NVME = "ZQ1A0HX7", "S4XPNE0R700411", "WFK4T0QZ0000E9352JQC", "S63DNG0T518834"


def document(case: str, disk: str) -> Any:
    return json.loads((RECORDED / "smart" / case / f"{disk}.json").read_text())


def asking(tmp_path: Path, answer: Any, **ended: Any) -> RecordedMachine:
    """A machine with one disk and no other word on its serial number than smartctl's."""
    scan = {
        "smartctl": {"exit_status": 0},
        "devices": [{"name": "/dev/bus/0", "type": "megaraid,4"}],
    }
    ended = {"output": json.dumps(answer)} | ended
    if "status" not in ended:
        ended["status"] = answer["smartctl"]["exit_status"]
    commands = {SCAN: {"output": json.dumps(scan)}, QUESTION: ended}
    return RecordedMachine(tmp_path, commands=commands, files={"/sys/block/dm-0/size": "8\n"})


def sorted_by_source(results: Sequence[CheckResult]) -> list[CheckResult]:
    return sorted(results, key=str)
