"""The iallocator message: reading and checking it, writing the answer (allocation 1, 2, 10).

Whatever is wrong with a message is reported in one sentence (`BadInput`), never by a traceback.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from ganeti_steward.core.iallocator.request_types import TYPES
from ganeti_steward.core.json_reader import Faults, Section, quoted, writable
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.cluster_reader import cluster_of, is_text, parse
from ganeti_steward.core.model.requests import HOOKS, AllocateSecondary, Request


def read_message(raw: bytes) -> tuple[Cluster, Request]:
    """Read one iallocator message.

    Raises BadInput naming every fault (allocation 2 and 11).
    """
    return read_parsed(parse(raw))


def read_parsed(message: Mapping[str, Any]) -> tuple[Cluster, Request]:
    """The same of a message that was parsed."""
    faults = Faults()
    top = Section(message, "message", "", faults)
    cluster = cluster_of(top)
    request = _request(top, cluster)
    faults.check()
    return cluster, request


def write_answer(outcome: Outcome) -> bytes:
    """One JSON object on one line, as Ganeti wants it (allocation 10)."""
    good = isinstance(outcome, Answer)
    prefix = "Request successful: " if good else "Request failed: "
    answer = {
        "success": good,
        "info": prefix + writable(outcome.info),
        "result": outcome.result if isinstance(outcome, Answer) else [],
    }
    try:
        return orjson.dumps(answer) + b"\n"
    except orjson.JSONEncodeError as err:
        # Only an allocator from elsewhere can have put such things into its result.
        return write_answer(Refusal(f"the allocator's result cannot be written: {err}"))


def _request(top: Section, cluster: Cluster) -> Request:
    section = top.section("request")
    section = Section(section.data, "request", "", section.faults)
    name = section.text("type")
    if name in HOOKS:
        return TYPES[name].read(section, top, cluster)
    if is_text(section, "type"):
        known = ", ".join(HOOKS)
        section.fault(f"unknown request type {quoted(name)} (known: {known})", "type")
    return AllocateSecondary("")
