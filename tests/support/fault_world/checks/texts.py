"""Reads records and operations, and shows them in a few words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ganeti_steward.core.canonical_json import canonical_object
from ganeti_steward.plugins.filters.rule_notes import RECORD_SOURCE
from ganeti_steward.plugins.texts import read_reasons

Row = Mapping[str, Any]
Operation = Mapping[str, Any]


def record_of(rule: Row) -> dict[str, Any] | None:
    """The record that a rule holds; None for any other rule."""
    for source, text, *_ in rule["reason_trail"]:
        if source == RECORD_SOURCE:
            try:
                found: dict[str, Any] = json.loads(text)
            except ValueError:
                return None
            return found if isinstance(found, dict) else None
    return None


def is_stamped(rule: Row) -> bool:
    """Whether the record of a rule was signed when luxid has had no later job."""
    return bool((record_of(rule) or {}).get("job") == rule["watermark"])


def object_of(record: Row) -> str:
    """The diagnose object of a record, as JSON."""
    return canonical_object(dict(record["original"])).decode()


def texts(job: Sequence[Operation]) -> dict[str, str]:
    """Source -> text of the reasons of a job."""
    reasons = [one for op in job for one in read_reasons(op.get("reason") or [])]
    return {one.source: one.text for one in reasons}


def shown(job: Sequence[Operation]) -> str:
    """A job in a few words."""
    return "; ".join(
        " ".join(
            [op["OP_ID"].removeprefix("OP_").lower()]
            + [f"{key}={op[key]}" for key in sorted(op) if key in _SHOWN and op[key] is not None]
        )
        for op in job
    )


_SHOWN: Final = frozenset(
    ("instance_name", "node_name", "target_node", "remote_node", "mode", "drained", "offline",
     "master_candidate", "name", "tags", "instances", "node_names", "command")
)  # fmt: skip
