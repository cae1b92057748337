"""The built-in gates: what has to agree before a healthy node is taken out for maintenance.

A command has to end with status 0, and Prometheus must know of no firing alert of certain names.
What gives no answer does not agree.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.errors import few, reason_of
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.process.supervisor import (
    Limits,
    WorkFailed,
    result_of,
    run,
    supervisor_program,
    write_result,
)
from ganeti_steward.plugins.maintenance.admin_program import TIME_LIMIT, fault_of
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.model.world import World

#: Seconds until the connection stands, and until the answer begins.
_LIMITS: Final = (5.0, 10.0)
#: Seconds until the whole answer is there.
_WHOLE: Final = 10.0
#: Bytes of an answer.
_LONGEST: Final = 2**20
#: Alerts that a sentence names.
_SHOWN: Final = 5


class CommandGate:
    """Runs the program ``[maintd] gate-command``."""

    def __init__(self, time_limit: float = TIME_LIMIT) -> None:
        """``time_limit``: seconds."""
        self._command, self._time_limit = "", time_limit

    def configure(self, settings: Maintd) -> None:
        """Take the program's path."""
        self._command = settings.gate_command

    @hookimpl
    def steward_gate(self, world: World) -> str | None:
        """Why it does not agree."""
        fault = fault_of(self._command, self._time_limit) if self._command else ""
        return f"the gate command {self._command} {fault}" if fault else None


class PrometheusGate:
    """Queries ``[maintd] gate-prometheus`` for firing alerts whose names match ``gate-alerts``."""

    def __init__(self, time_limit: float = _WHOLE) -> None:
        """``time_limit``: seconds until the whole answer is there."""
        self._query, self._time_limit = _Query("", ""), time_limit

    def configure(self, settings: Maintd) -> None:
        """Take the address and the pattern."""
        self._query = _Query(settings.gate_prometheus.rstrip("/"), settings.gate_alerts)

    @hookimpl
    def steward_gate(self, world: World) -> str | None:
        """Which alerts fire, or why that is not known.

        A process of its own makes the query: the limits of the library hold for each read, and
        a server that sends byte after byte would never reach them.
        """
        if not self._query.address:
            return None
        worker: Any = self._query
        limits = Limits(self._time_limit, _LONGEST)
        try:
            return result_of(run(worker, limits, start=supervisor_program)).decode() or None
        except WorkFailed as err:
            return f"Prometheus at {self._query.address} gave no answer, the query failed: {err}"
        except OSError as err:
            return f"Prometheus at {self._query.address} cannot be queried: {reason_of(err)}"


class _Query(NamedTuple):
    """A worker that makes the query, and writes the sentence of the gate."""

    address: str
    alerts: str

    def __call__(self, output: int) -> None:
        """Write why the gate does not agree; nothing where it does."""
        write_result(lambda: self._sentence().encode(), output)

    def _sentence(self) -> str:
        try:
            firing = sorted(set(map(_shown, self._firing())))
        except (ValueError, KeyError, TypeError, AttributeError) as err:
            return f"Prometheus at {self.address} gave no answer that is understood: {err}"
        except OSError as err:
            return f"Prometheus at {self.address} gave no answer: {_why(err)}"
        if not firing:
            return ""
        shown = few(firing, _SHOWN)
        return f"{len(firing)} alerts fire whose names match {self.alerts}: {shown}"

    def _firing(self) -> list[dict[str, Any]]:
        """The labels of each firing alert; raises OSError, and ValueError and the like."""
        # Only where there is a Prometheus; its exceptions are kinds of OSError.
        from ganeti_steward.core.http_session import Session, read_whole

        pattern = self.alerts.replace("\\", "\\\\").replace('"', '\\"')
        query = f'ALERTS{{alertstate="firing",alertname=~"{pattern}"}}'
        address = f"{self.address}/api/v1/query"
        with (
            Session() as session,
            session.get(address, params={"query": query}, timeout=_LIMITS) as answer,
        ):
            if answer.status_code != HTTPStatus.OK:
                raise ValueError(f"HTTP {answer.status_code}")
            found = load_json(read_whole(answer, _LONGEST))
        if found["status"] != "success":
            raise ValueError(f"its status is {found['status']!a}")
        return [dict(one["metric"]) for one in found["data"]["result"]]


def _why(err: OSError) -> str:
    """The kind of an error of the library, whose sentences are long; that of `read_whole` whole."""
    kind = type(err).__name__
    return str(err) if kind == "RequestException" else kind


def _shown(labels: dict[str, Any]) -> str:
    where = labels.get("instance")
    return f"{labels['alertname']} ({where})" if where else str(labels["alertname"])
