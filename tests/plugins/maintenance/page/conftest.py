"""The page of the maintenance daemon."""

from __future__ import annotations

import os

#: They need a browser, which is installed for thorough runs only.
_LONG = ["test_page_browser.py"]

collect_ignore = [] if os.environ.get("STEWARD_THOROUGH") else _LONG
