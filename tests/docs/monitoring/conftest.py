"""promtool is Prometheus' own; fetching it takes a while."""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("STEWARD_THOROUGH") else ["test_promtool.py"]
