"""Commands on damaged files and answers end with a status, and with sentences of ours."""

from __future__ import annotations

import io
import json
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import pytest
from hostile_ganeti import RULES, luxid, saved_text, small_messages
from hostile_readers import recorded_moment
from mutation import damaged_json, damaged_text
from statuses import NOW
from test_mutated_inputs import Hang, limited
from thorough import often

from ganeti_steward.core.commands.main import main
from ganeti_steward.core.ganeti.luxi import Luxi

#: Calls of all tests of this file together.
CALLS: Final = often(1500, 100_000)
PARTS: Final = 15
_SHOWN: Final = 5

_CONFIG: Final = """
[maintd]
mode = "act"
windows = ["Mon-Fri 22:00-06:00"]
[collector.md]
repair = "fix"
[shadow.hail]
command = ["/bin/true"]
"""
_JOBS: Final = [
    {
        "id": number,
        "status": "queued",
        "priority": 0,
        "submitted": number,
        "duration": 1,
        "ops": [{"OP_ID": "OP_X", "name": "abc", "reason": [["gnt:user", "why", NOW]]}],
    }
    for number in (5, 6)
]
_RULES: Final = [
    {
        "uuid": f"0000000{at}-0000-4000-8000-000000000000",
        "priority": priority,
        "action": action,
        "predicates": predicates,
        "reason_trail": [[source, text, NOW]],
    }
    for at, (priority, predicates, action, source, text) in enumerate(RULES)
]

#: Words of the command; names in capitals are damaged files.
COMMANDS: Final = (
    "explain MESSAGE",
    "explain MESSAGE --json",
    "explain MESSAGE --effort 0.1 -v",
    "balance --text-data TEXT",
    "balance --text-data TEXT --json",
    "check --text-data TEXT",
    "check --text-data TEXT --json",
    "capacity --text-data TEXT",
    "capacity --text-data TEXT --json",
    "group-evacuate default --text-data TEXT",
    "exporter --once --text-data TEXT",
    "aggregate list --text-data TEXT",
    "check-config CONFIG",
    "filter lint RULES",
    "filter lint RULES --json",
    "filter simulate RULES JOBS",
    "filter simulate RULES JOBS --json",
    "filter diff RULES RULES --jobs JOBS",
    "filter explain 5 --jobs JOBS --rules RULES",
    "filter explain 5 --jobs JOBS --rules RULES --json",
    "maintd --replay MOMENTS",
    *(
        f"{words} --luxi-socket /nowhere"
        for words in (
            "balance",
            "check",
            "capacity --json",
            "filter list",
            "filter list --json",
            "filter lint",
            "filter explain 1",
            "incident list",
            "incident list --json",
            "maintenance list",
            "leftovers",
            "leftovers --json",
            "aggregate list",
            "maintd plan",
        )
    ),
)


class Printed(NamedTuple):
    """What one call did."""

    status: int
    out: str
    err: str


def content(rng: Random, name: str) -> bytes:
    """A damaged file."""
    data: dict[str, Any] = {
        "MESSAGE": lambda: deepcopy(rng.choice(small_messages())),
        "RULES": lambda: deepcopy(_RULES),
        "JOBS": lambda: deepcopy(_JOBS),
        "MOMENTS": recorded_moment,
    }
    if name in data:
        return damaged_json(rng, data[name]())
    return damaged_text(rng, saved_text() if name == "TEXT" else _CONFIG)


def called(directory: Path, rng: Random, words: str) -> Printed:
    """One call of the program."""
    given = shlex.split(words)
    for at, word in enumerate(given):
        if word.isupper():
            path = directory / word
            path.write_bytes(content(rng, word))
            given[at] = str(path)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), limited():
        try:
            status = main(given)
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 1
    return Printed(status, out.getvalue(), err.getvalue())


def fault_of(directory: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is wrong with one call; empty: nothing.  The seed alone decides."""
    rng = Random(seed)
    words = rng.choice(COMMANDS)
    source = luxid(rng)
    monkeypatch.setattr(Luxi, "_exchange", lambda client, *given: source._exchange(*given))
    try:
        done = called(directory, rng, words)
    except (Exception, Hang) as err:
        return f"seed {seed}, {words}: {type(err).__name__}: {str(err)[:200]}"
    if "Traceback" in done.out + done.err:
        return f"seed {seed}, {words}: {done.err[-300:]}"
    if done.status and not done.out and not re.search("^gnt-steward ", done.err, re.MULTILINE):
        return f"seed {seed}, {words}: status {done.status}: {done.err[:200]}"
    if "--json" in words and done.out:
        json.loads(done.out)
    return ""


@pytest.fixture(autouse=True)
def _own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "steward.toml"
    config.write_text(f'[log]\nfile = ""\n[history]\nkeep = 0\ndirectory = "{tmp_path}"\n')
    monkeypatch.setenv("GNT_STEWARD_CONFIG", str(config))


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("part", range(PARTS))
def test_no_traceback_and_no_hang(
    tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeat one with ``fault_of(directory, SEED, monkeypatch)``."""
    each = CALLS // PARTS
    seeds = range(part * each, (part + 1) * each)
    print(f"seeds {seeds.start} to {seeds.stop - 1}")
    faults = [fault for seed in seeds if (fault := fault_of(tmp_path, seed, monkeypatch))]
    assert not faults[:_SHOWN], f"{len(faults)} of {each} calls"
