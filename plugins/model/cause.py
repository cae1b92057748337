"""What a node reports as broken, in one line: ``command:psu: psu 2 failed``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import OK
from ganeti_steward.plugins.model.kept_object import beginning_of

#: Characters of the text of one finding.
_LONGEST: Final = 100

#: Characters of a suspicion: it becomes part of answers to Ganeti.
_SUSPICION: Final = 200

#: Sources of the collector ganeti that are about the cluster, and say nothing of the master itself.
_OF_THE_CLUSTER: Final = re.compile(r"ganeti:(watcher|queue|nodes|.*\.pem)")


def cause(found: Mapping[str, Any]) -> str:
    """The worst finding of a diagnose object, and how many others there are.

    Empty where it names none.  ``found``: the object, or what a record keeps of a large one.
    """
    details = found.get("details")
    findings = [one for one in details if _is_finding(one)] if isinstance(details, list) else []
    if not findings:
        return _shortened(_text(details) or beginning_of(found))
    first = next((one for one in findings if one.get("status") == found.get("status")), findings[0])
    text, more = _shortened(_text(first.get("details"))), len(findings) - 1
    named = f"{first['source']}: {text}" if text else str(first["source"])
    return f"{named} (and {more} more)" if more else named


def suspicion(found: Mapping[str, Any]) -> str:
    """Why other nodes are used first, as a predicate: ``reports suspect: smart:S1: ...``.

    Empty where nothing is wrong with the node itself.  ``found``: its diagnose object.
    """
    status, details = found["status"], found.get("details")
    findings = [one for one in details if _is_finding(one)] if isinstance(details, list) else []
    if status == OK or (findings and all(_OF_THE_CLUSTER.fullmatch(f["source"]) for f in findings)):
        return ""
    what = cause(found)
    return printable(f"reports {status}{what and ': '}{what}")[:_SUSPICION]


def _is_finding(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("source"), str)


def _text(details: object) -> str:
    """Details of a finding in words; as JSON where they have a form of their own."""
    if details is None:
        return ""
    if isinstance(details, str):
        return details
    if isinstance(details, dict):
        faults = details.get("faults")
        if isinstance(faults, list) and faults and all(isinstance(one, str) for one in faults):
            return "; ".join(faults)
        words = [details.get(key) for key in ("state", "text")]
        if any(words) and all(isinstance(one, str) for one in words if one is not None):
            return " ".join(one for one in words if one)
    return json.dumps(details, ensure_ascii=False)


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
