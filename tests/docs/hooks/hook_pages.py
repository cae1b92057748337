"""The pages of the hooks, and the code on them."""

from __future__ import annotations

import re
from typing import Final

from paths import ROOT

from ganeti_steward.core.hooks.manager import hook_names

PAGES: Final = ROOT / "docs" / "reference" / "hooks"
HOOKS: Final = sorted(hook_names())


def fences(hook: str, language: str) -> list[str]:
    """The code blocks of a page in one language."""
    text = (PAGES / f"{hook}.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
