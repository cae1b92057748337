"""``contrib/simulate-faults FILE...``: plays scenario files and compares their narratives."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fault_world.scenarios.events import EVENTS
from fault_world.scenarios.playing import narrative
from fault_world.scenarios.scenario import BadScenario, read_scenario, with_narrative


def compare(paths: Sequence[str], *, accept: bool, say: Callable[[str], None] = print) -> int:
    """Exit status 1 when a narrative differs or a file is no scenario; ``accept``: write them."""
    return max([_one(path, accept, say) for path in paths], default=0)


def _one(path: str, accept: bool, say: Callable[[str], None]) -> int:
    try:
        text = Path(path).read_text(encoding="utf-8")
        scenario = read_scenario(path, text)
    except (OSError, UnicodeDecodeError) as err:
        reason = err.strerror if isinstance(err, OSError) else "it is not UTF-8 text"
        print(f"{path}: it cannot be read: {reason}", file=sys.stderr)
        return 1
    except BadScenario as err:
        print(err, file=sys.stderr)
        return 1
    played = narrative(scenario)
    if played == scenario.expected:
        say(f"{path}: as expected")
        return 0
    for line in difference(path, scenario.expected, played):
        say(line)
    if accept:
        Path(path).write_text(with_narrative(text, played), encoding="utf-8")
        say(f"{path}: accepted")
        return 0
    return 1


def difference(path: str, expected: Sequence[str], played: Sequence[str]) -> list[str]:
    """A unified diff of two narratives."""
    names = (f"{path} expected", f"{path} played")
    return [*difflib.unified_diff(expected, played, *names, lineterm="")]


def events_help() -> str:
    """Every event with what is written after it."""
    lines = []
    for name, kind in sorted(EVENTS.items()):
        words = [name, kind.about.upper(), "DETAIL" if kind.detail else ""]
        usage = " ".join(word for word in words if word) + (" [for SECONDS]" if kind.lasts else "")
        lines.append(f"  {usage}")
        text = (kind.event.__doc__ or "").split("\n")[0].split("; ``")[0].strip()
        lines += [f"      {text}"] if text else []
        lines += [f"      DETAIL: {kind.detail}"] if kind.detail else []
    return "\n".join(lines)
