"""Ganeti's own signing code, run by the interpreter it is made for."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

#: Where the Debian package puts Ganeti's modules, and the interpreter they are made for.
GANETI: Final = Path("/usr/share/ganeti/default")
PYTHON: Final = "/usr/bin/python3"

#: Reads [action, ...] lines, one JSON list each, and answers each with a line.
GANETIS_CODE: Final = """
import json, sys
sys.path.insert(0, sys.argv[1])
from ganeti import errors, serializer
for line in sys.stdin:
    action, key, *more = json.loads(line)
    if action == "sign":
        data, salt = more
        answer = serializer.DumpSignedJson(data, key, salt).decode()
    else:
        try:
            answer = serializer.LoadSignedJson(more[0], key)
        except errors.SignatureError as err:
            answer = str(err)
    print(json.dumps(answer))
"""


def ganeti(*calls: list[Any]) -> list[Any]:
    """What Ganeti's own code answers to ["sign", key, data, salt] or ["load", key, signed]."""
    if not (GANETI / "ganeti" / "serializer.py").exists():
        pytest.skip("Ganeti is not installed here")
    done = subprocess.run(
        [PYTHON, "-c", GANETIS_CODE, str(GANETI)],
        input="".join(json.dumps(call) + "\n" for call in calls),
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]
