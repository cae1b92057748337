"""``gnt-steward diagnose`` with one source that says what a test wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from front import Front


PLUGIN = """
import os
from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.finding import Finding, NotApplicable, Unknown

@hookimpl
def steward_diagnose(machine):
    with open(os.path.dirname(__file__) + "/disk.result") as file:
        for number, word in enumerate(file.read().split()):
            if word == "unknown":
                yield Unknown("disk", "no | answer")
            elif word == "absent":
                yield NotApplicable("disk", "there is none")
            else:
                yield Finding(f"disk:{number}", word, "fix", {"b": 1, "a": "ü"})
"""


def configure(front: Front, more: str = "", tables: str = "") -> None:
    """Findings count at once, unless ``more`` configures that."""
    # Not [front.configure]: this has to be the end of a section.
    front.configure()
    text = front.config_file.read_text()
    for key in ("appear-after", "clear-after"):
        more = more if key in more else f"{key} = 1\n{more}"
    front.config_file.write_text(
        f"{text}\n[agent]\nkey-file = '{front.path}/hmac.key'\n"
        f"[diagnose]\ncollectors = []\ncommands = []\nload = ['disk']\n"
        f"directory = '{front.path}/diagnose'\n{more}\n{tables}"
    )


def says(front: Front, words: str) -> None:
    (front.modules / "disk.result").write_text(words)
