"""The paths of the agent: those of the monitoring daemon, and repairs.

``docs/reference/agent.md`` describes each.

Everything is answered from memory or refused in a word; nothing here waits but a repair
command that was accepted.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs

from ganeti_steward.core.ganeti.hmac_key import KeyFile, NoKey
from ganeti_steward.core.ganeti.signing import is_salt, sign
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.model.finding import OK, STATUSES
from ganeti_steward.core.node_agent.protocol import (
    NONCE_PATH,
    REPAIR_PATH,
    REPORT_PATH,
    STATE_PATH,
)
from ganeti_steward.core.service.http_messages import (
    TEXT,
    HttpAnswer,
    HttpRequest,
    json_answer,
)
from ganeti_steward.core.service.rate_limited_log import RateLimitedLog
from ganeti_steward.diagnose.agent.repairs import RepairRefused, Repairs, Unreadable
from ganeti_steward.diagnose.agent.reports import COLLECTOR, Reports

ALL: Final = "/1/report/all"
METRICS: Final = "/metrics"

#: The type of the metrics.
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_SECOND: Final = 10**9

#: A documentation address (RFC 5737): what it is given or refused affects no caller.
_UNUSED: Final = "192.0.2.0"

_REQUESTS: Final = (
    ("GET", "/", ""),
    ("HEAD", REPORT_PATH, ""),
    ("GET", REPORT_PATH, "salt=preloading"),
    ("GET", ALL, "salt="),
    ("POST", NONCE_PATH, ""),
    ("GET", METRICS, ""),
    ("GET", "/nowhere", ""),
)

_log = logging.getLogger(__name__)

#: All that a refused caller learns.
REFUSED: Final = HttpAnswer(b"refused\n", 403, TEXT)


class AgentApplication:
    """What the server calls, in several threads."""

    def __init__(self, reports: Reports, key: KeyFile, repairs: Repairs | None) -> None:
        """``repairs`` is None where repair commands are not run at all."""
        self._reports, self._key, self._repairs = reports, key, repairs
        self._unsigned = RateLimitedLog(_log)
        self._reading: Final[Mapping[str, Callable[[str], HttpAnswer]]] = {
            "/": lambda _: json_answer([1]),
            "/1": lambda _: json_answer(None),
            "/1/list/collectors": lambda _: json_answer([COLLECTOR]),
            ALL: lambda query: self._report(query, "[", "]"),
            REPORT_PATH: lambda query: self._report(query, "", ""),
            METRICS: lambda _: self._metrics(),
        }

    def __call__(self, request: HttpRequest) -> HttpAnswer:
        """Answer one request."""
        path, method = request.path, request.method
        if path in self._reading:
            if method not in ("GET", "HEAD"):
                return _wrong_method("GET, HEAD")
            return self._reading[path](request.query)
        if path in (NONCE_PATH, REPAIR_PATH, STATE_PATH):
            return self._repair(request) if method == "POST" else _wrong_method("POST")
        return HttpAnswer(b"no such path\n", 404, TEXT)

    def reads_body(self, address: str, path: str) -> bool:
        """Whether the body of a request is read at all, see `Server`; called before it comes."""
        wanted = path in (REPAIR_PATH, STATE_PATH)
        return wanted and self._repairs is not None and self._repairs.listens_to(address)

    def _report(self, query: str, before: str, behind: str) -> HttpAnswer:
        """The report, signed with the salt of the query if there is one."""
        salts = parse_qs(query, keep_blank_values=True, max_num_fields=None).get("salt", [])
        if salts and not (len(salts) == 1 and is_salt(salts[0])):
            return HttpAnswer(b"the salt must be 8 to 64 letters, digits, _ or -\n", 400, TEXT)
        text = before + self._reports.text() + behind
        if not salts:
            return HttpAnswer(text.encode())
        try:
            return HttpAnswer(sign(self._key.key(), text, salts[0]))
        except NoKey as err:
            self._unsigned.warning(f"a report could not be signed: {err}")
            return _no_key()

    def _metrics(self) -> HttpAnswer:
        report = load_json(self._reports.text().encode())
        return HttpAnswer(rendered_metrics(report), kind=METRICS_TYPE)

    def _repair(self, request: HttpRequest) -> HttpAnswer:
        if self._repairs is None:
            return REFUSED
        address = request.address
        try:
            if request.path == NONCE_PATH:
                return json_answer({"nonce": self._repairs.nonce(address)})
            if not request.body:
                # That of a caller who was shut out was not kept.
                return REFUSED
            answer = self._repairs.state if request.path == STATE_PATH else self._repairs.repair
            return HttpAnswer(answer(address, request.body))
        except Unreadable as err:
            return HttpAnswer(f"{err}\n".encode(), 400, TEXT)
        except RepairRefused:
            return REFUSED
        except NoKey as err:
            _log.error("the answer to a repair could not be signed: %s", err)
            return _no_key()


def _wrong_method(allow: str) -> HttpAnswer:
    return HttpAnswer(b"wrong method\n", 405, TEXT, allow)


def _no_key() -> HttpAnswer:
    return HttpAnswer(b"this node has no key to sign with\n", 503, TEXT)


# -- Metrics: what the last report says, in the text format of Prometheus.
#
# Written here and not by prometheus-client, which loads an HTTP server, TLS and e-mail with it: 4
# to 5 MiB that the agent would keep locked in the memory of every node.


class _Gauge(NamedTuple):
    """A metric; no name, text or word in it needs escaping."""

    name: str
    text: str
    samples: Mapping[str, float]
    """value of the label -> value; for a metric without label, of the empty word"""
    label: str = ""


def rendered_metrics(report: Mapping[str, Any]) -> bytes:
    """All metrics of a report, as `Reports.text` serves it."""
    lines = [line for gauge in _gauges(report) for line in _lines(gauge)]
    return "".join(f"{line}\n" for line in lines).encode()


def _lines(gauge: _Gauge) -> Iterator[str]:
    yield f"# HELP {gauge.name} {gauge.text}"
    yield f"# TYPE {gauge.name} gauge"
    for word, value in gauge.samples.items():
        labels = f'{{{gauge.label}="{word}"}}' if gauge.label else ""
        yield f"{gauge.name}{labels} {value}"


def _gauges(report: Mapping[str, Any]) -> Iterator[_Gauge]:
    """When it was made, the status of the node, and what stands behind it."""
    data = report.get("data")
    yield _Gauge(
        "steward_agent_report_timestamp_seconds",
        "When the last report was made; 0 before the first one.",
        {"": report["timestamp"] / _SECOND},
    )
    yield _Gauge(
        "steward_agent_report_valid",
        "1 while the report says how the node is, 0 without one or when it is too old.",
        {"": int(isinstance(data, dict))},
    )
    found = data if isinstance(data, dict) else {}
    yield _Gauge(
        "steward_agent_status",
        "1 for the status of the node, 0 for the others; all 0 without a valid report.",
        {status: int(found.get("status") == status) for status in STATUSES},
        "status",
    )
    yield _Gauge("steward_agent_findings", "Findings of the report.", _findings(found), "status")
    yield _Gauge(
        "steward_agent_sources_without_result",
        "Sources that found neither that all is fine nor a fault.",
        {word: len(report.get(word) or ()) for word in ("unknown", "not_applicable")},
        "reason",
    )


def _findings(found: Mapping[str, Any]) -> dict[str, int]:
    """Status -> findings in the details; those of other programs need not have any."""
    details = found.get("details")
    entries = details if isinstance(details, list) else []
    words = Counter(
        entry["status"] for entry in entries if isinstance(entry, dict) and "status" in entry
    )
    return {status: words[status] for status in STATUSES if status != OK}


# -- Using everything once, so that nothing has to be read from a disk that may be dead by then


def preload(application: AgentApplication) -> None:
    """Answer requests that need no caller; a repair would only be refused, and logged."""
    for method, path, query in _REQUESTS:
        application(HttpRequest(method, path, query, _UNUSED)).packed()
